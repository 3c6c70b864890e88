"""Which run a command means: by its ID or name, or the newest one of this person and project."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ipexctl.base.located_errors import nearest_word
from ipexctl.common.root_paths import ATTEMPT
from ipexctl.errors import InputError
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome.listed_runs import ListedRun
from ipexctl.run.outcome.run_state import describe_unbegun, find_unbegun

if TYPE_CHECKING:
    from pathlib import PurePath

LAST = "@last"
MOST_NAMED = 3  # people and projects whose runs an error names
LONGEST_NAME = 64
SHOWN_ID = len("20261130-120000")  # characters of an ID that `ps` prints at least: its second


@dataclass(frozen=True)
class Caller:
    """Who typed a command, and in which project. Several people may share an account of the hosts,
    so that a run belongs to the user and machine that started it."""

    by: str  # user@machine
    project: PurePath

    def has_started(self, run: ListedRun) -> bool:
        return bool(run.about.by) and run.about.by == self.by

    def owns(self, run: ListedRun) -> bool:
        """Return whether the run is this person's, and of this project."""
        return self.has_started(run) and is_of_project(run, self.project)


def is_of_project(run: ListedRun, folder: PurePath) -> bool:
    """Return whether the run's files are in this folder or below it, or its command was typed
    there, on any machine."""
    places = (run.about.folder, run.about.typed_in)
    top = str(folder).rstrip("/")
    return any(f"{place.rstrip('/')}/".startswith(f"{top}/") for place in places if place)


def describe_owner(run: ListedRun) -> str:
    """Return "ann@desk, in /home/ann/bert"."""
    about = run.about
    folder = f", in {about.folder}" if about.folder else ""
    return (about.by or "an unknown user") + folder


def describe_run(run: ListedRun) -> str:
    """Return "20261130-120000-abcdef (bert)"."""
    return run.id + (f" ({run.about.name})" if run.about.name else "")


def describe_foreign(run: ListedRun) -> str:
    """Return whose run it is, where a run is used that is not the caller's own."""
    return f"{describe_run(run)} is a run of {describe_owner(run)}"


def require_id(run: ListedRun, text: str, caller: Caller) -> None:
    """Raise InputError if a run of another person is named by its name, or by less of its ID than
    `ps` prints: both can come to mean it when a run of the caller has gone."""
    by_id = len(text) >= SHOWN_ID and run.id.startswith(text)
    if caller.has_started(run) or not run.about.by or by_id:
        return
    raise InputError(
        describe_foreign(run),
        why="with --yes another person's run is named by its ID",
        hint=f"ipexctl ps -a   # {run.id} has to be given, if that is meant",
        slug="run-of-another",
    )


def require_own_name(run: ListedRun, text: str) -> None:
    """Raise InputError if `text` is not the name of the run, which was only to be called so: the
    run that has this name may just have been removed."""
    name = ATTEMPT.sub("", text)
    if name != run.about.asked or run.about.name in (name, text):
        return
    raise InputError(
        f"{text} is not the name of {describe_run(run)}",
        why="it was only asked for; with --yes a run is removed by its own name or its ID",
        hint="ipexctl ps -a",
        slug="unknown-run",
    ).with_meant(text, run.name_or_id + text.removeprefix(name))


def choose_run(
    runs: Sequence[ListedRun], text: str, caller: Caller, *, removes: bool = False
) -> ListedRun:
    """Find a run by the beginning of its id, its name, or `@last`; with -r02 behind it, that
    attempt. `runs`: the newest first. `removes`: a run that has the name itself is meant before
    one that was only asked for by it, and of several with one name none.

    `@last` is the newest of the caller's in this project. Of runs with one name, those in this
    project come first, then others of the caller, then those of other people; of these the active
    one, else the newest.
    """
    if not runs:
        raise InputError(
            "this account has no runs on these hosts",
            hint="# ipexctl run starts one",
            slug="no-runs",
        )
    if text == LAST:
        return _find_newest(runs, caller)
    named = _list_named(runs, text, caller)
    if removes:
        named = [run for run in named if run.about.name == text] or named
    if not named and (match := ATTEMPT.search(text)):
        last = choose_run(runs, text[: match.start()], caller, removes=removes)
        return _find_attempt(runs, last, int(match[1]))
    by_id = [run for run in runs if text and run.id.startswith(text)]
    if len({run.first_id for run in by_id}) == 1:
        by_id = by_id[:1]  # the last attempt
    active = [run for run in named if not run.over]
    active = [run for run in active if run.about.name == text] or active
    several = active if len(active) > 1 else [] if named else by_id
    problem = "active runs have this name" if named else "runs match"
    if removes and not active and len({run.first_id for run in named}) > 1:
        several, problem = named, "runs have this name"
    if len(several) > 1:
        raise InputError(
            f"{text}: {len(several)} {problem}",
            why=_list_run_ids(several, caller),
            hint="use a run ID",
            slug="run-ambiguous",
        )
    if named or by_id:
        return (active or named or by_id)[0]
    if text[:1].isdigit():  # an id, as names begin with a letter: a similar id is another run
        raise InputError(
            f"no run on these hosts has an ID that begins with {text!r}",
            hint="ipexctl ps -a --every-project",
            slug="unknown-run",
        )
    own = [run.about.name for run in runs if run.about.name and caller.has_started(run)]
    others = {run.about.name: run for run in runs[::-1] if run.about.name not in ("", *own)}
    nearest = nearest_word(text, own) or nearest_word(text, [*others])
    other = others.get(nearest)
    whose = f" of {other.about.by}" if other and other.about.by else ""
    suggestion = f" (did you mean {nearest!r}{whose}?)" if nearest else ""
    raise InputError(
        f"there is no run {text!r} on these hosts{suggestion}",
        hint="ipexctl ps -a",
        slug="unknown-run",
    ).with_meant(text, other.id if other else nearest)  # the caller may mean another by that name


def _find_newest(runs: Sequence[ListedRun], caller: Caller) -> ListedRun:
    """Return the caller's newest run of this project. Raise InputError."""
    own = next((run for run in runs if caller.owns(run)), None)
    if own:
        return own
    others = [run for run in runs if caller.has_started(run)] or runs
    by_owner: dict[str, list[str]] = {}
    for run in others:
        by_owner.setdefault(describe_owner(run), []).append(run.name_or_id)
    names = [
        f"{first} {f'and {len(more)} more ' if more else ''}of {owner}"
        for owner, (first, *more) in by_owner.items()
    ]
    more = f"; and those of {len(names) - MOST_NAMED} others" if len(names) > MOST_NAMED else ""
    raise InputError(
        f"no run on these hosts is yours and of this project, {caller.project}",
        why="there are: " + "; ".join(names[:MOST_NAMED]) + more,
        hint="ipexctl ps -a --every-project   # then give the name or ID of the run",
        slug="no-own-run",
    )


def _list_named(runs: Sequence[ListedRun], name: str, caller: Caller) -> list[ListedRun]:
    """Return the runs with this name that are nearest to the caller. It means also a run of the
    caller that was to have it."""
    named = [run for run in runs if name and name in (run.about.name, run.about.asked)]
    own = [run for run in named if caller.has_started(run)]
    anybodys = [run for run in named if run.about.name == name]
    return [run for run in own if caller.owns(run)] or own or anybodys


def _find_attempt(runs: Sequence[ListedRun], last: ListedRun, number: int) -> ListedRun:
    attempts = [run for run in runs if run.first_id == last.first_id]
    for run in attempts:
        if run.attempt == number:
            return run
    unbegun = [row for run in attempts for row in find_unbegun(run.further)]
    texts = describe_unbegun(row for row in unbegun if row.attempt == number)
    raise InputError(
        f"{last.about.name or last.first_id} has no attempt {number} on these hosts",
        why="".join(texts[:1]) or _list_run_ids(attempts),
        hint="ipexctl ps -a",
        slug="unknown-run",
    )


def _list_run_ids(runs: Sequence[ListedRun], caller: Caller | None = None) -> str:
    """Name the runs with their states; with a caller, also who started those of others."""

    def describe(run: ListedRun) -> str:
        theirs = bool(run.about.by and caller and not caller.has_started(run))
        return f"{run.id} ({run.phase.value}{f', {run.about.by}' * theirs})"

    more = f" and {len(runs) - 4} more" if len(runs) > 4 else ""
    return ", ".join(map(describe, runs[:4])) + more


def free_name(name: str, runs: Sequence[ListedRun]) -> tuple[str, ListedRun | None]:
    """Return a name for a new run that no active run has: NAME, else NAME-2, NAME-3; and the run
    that has NAME."""
    taken = {run.about.name: run for run in runs if not run.over}
    if name not in taken:
        return name, None
    for number in range(2, len(taken) + 3):
        suffix = f"-{number}"
        candidate = name[: LONGEST_NAME - len(suffix)] + suffix
        if candidate not in taken:
            break
    return candidate, taken[name]
