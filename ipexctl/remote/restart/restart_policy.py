"""Whether a run is started again, and on which hosts. Pure."""

import posixpath
import re

from ipexctl.common import run_events
from ipexctl.common.attempt_record import AttemptEnded
from ipexctl.common.described_ends import describe_program_end
from ipexctl.common.run_events import Fact
from ipexctl.remote.checkpoints.checkpoint_rules import find_member

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable, Container, Iterable
    from typing import Any

AT_ONCE = 60.0  # seconds; a failure before that will probably repeat
BACK_OFF = (0.0, 0.0, 5.0, 15.0, 30.0)  # seconds to wait after 0, 1, ... such failures in a row
STALLED = "--stall-action restart"
STOPPED = "it was stopped"
# no restart changes these: the last line of a traceback
_LACKED = re.compile(r"^(ModuleNotFoundError|ImportError|FileNotFoundError)\b")  # on this host
_INCURABLE = re.compile(
    r"^(SyntaxError|IndentationError|TabError|NameError|argparse\.ArgumentError)\b|"
    + _LACKED.pattern
)
_MISSING = re.compile(r"FileNotFoundError: .*?['\"]([^'\"]+)")
ASKED_TO_END = ("signal 2 ", "signal 15 ")  # somebody else's doing
_ERROR = re.compile(r"^[\w.]+(?:Error|Exception|Exit|Interrupt)\b")
_USAGE = re.compile(r"^\S+: error: ")  # argparse
_RANK = re.compile(r"^\[rank\d+\]: ")
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+(?:\.\d+)?")


class Ending:
    """How an attempt ended, and whether it may be repeated: what AttemptEnded says of the cause."""

    def __init__(
        self,
        again: bool,
        why: str,
        error: str = "",
        lost: "Iterable[str]" = (),
        lacking: str = "",
    ) -> None:
        self.again, self.why, self.error, self.lacking = again, why, error, lacking
        self.lost = sorted(set(lost))

    def attempt_ended(
        self,
        attempt: int,
        ran: bool,
        lasted: float = 0.0,
        complete: str = "",
        number: int = 0,
        away: "Iterable[str]" = (),
    ) -> AttemptEnded:
        """Return the line of the record. `complete`: the last complete checkpoint, with its
        `number`; `away`: other hosts that were not reached then."""
        why = "%s; not reached: %s" % (self.why, ", ".join(away)) if away else self.why
        return AttemptEnded(
            attempt,
            ran,
            self.again,
            why,
            self.error,
            self.lost,
            lasted,
            complete,
            number,
            list(away),
            self.lacking,
        )


def classify_ending(
    facts: "list[Fact]",
    seconds: float,
    is_of_checkpoint: "Callable[[str], bool]" = lambda path: False,
    has_spare: bool = False,
) -> Ending:
    """Return how an attempt ended. `facts`: those that ended it, in
    order (remote/hub/judge.py); `is_of_checkpoint`: whether a path is one of a checkpoint;
    `has_spare`: whether another host can take the place of one that lacks a module or a file."""
    for event in (fact.event for fact in facts):
        if isinstance(event, run_events.EndAsked):
            stalled = event.by == STALLED
            return Ending(True, "it stood still") if stalled else Ending(False, STOPPED)
        if isinstance(event, run_events.TimedOut):
            return Ending(False, "--timeout")
        if isinstance(event, run_events.Abandoned):
            return Ending(False, "")
    lost = [fact.host for fact in facts if isinstance(fact.event, run_events.HostLost)]
    if lost:
        return Ending(True, "%s: lost" % ", ".join(dict.fromkeys(lost)), lost=lost)
    programs = [fact.event for fact in facts if isinstance(fact.event, run_events.ProgramEnded)]
    killed = [program for program in programs if program.killed]
    for fact in facts:
        event = fact.event
        if isinstance(event, run_events.RankExited) and run_events.is_decisive(event):
            if killed and event.ended.lost:  # that took its wrapper along
                return Ending(True, describe_program(killed[0]))
            ending = of_rank(event, fact.host, seconds, is_of_checkpoint)
            if has_spare and not ending.again and is_lack_of_one_host(facts):
                return end_with_replacement(event, fact.host)
            return ending
        if isinstance(event, run_events.RankFrozen):
            return Ending(True, "a rank was stopped on %s" % fact.host)
        if isinstance(event, run_events.ProgramEnded):
            return Ending(True, describe_program(killed[0] if killed else event))
    return Ending(False, "how it ended is not known" if not facts else "it did not begin")


def is_lack_of_one_host(facts: "list[Fact]") -> bool:
    """Return whether ranks failed on one host alone, and only for a module or a file that was not
    there."""
    ends = [(fact.host, fact.event) for fact in facts if run_events.is_decisive(fact.event)]
    ranks = [(host, event) for host, event in ends if isinstance(event, run_events.RankExited)]
    is_lack = all(_LACKED.match(find_error(event)) for _, event in ranks)
    return is_lack and len({host for host, _ in ranks}) == 1


def end_with_replacement(event: run_events.RankExited, host: str) -> Ending:
    """Return the end of an attempt that another host may complete in the place of this one."""
    error = find_error(event)
    why = "rank %s on %s: %s; a spare takes its place" % (event.rank, host, error)
    return Ending(True, why, describe_error(describe_code(event), error), lacking=host)


def describe_program(event: run_events.ProgramEnded) -> str:
    """Say which program ended, and how: there is none of MPI in a run without it."""
    return "%s %s" % (event.who, describe_program_end(event.code))


def of_rank(
    event: run_events.RankExited,
    host: str,
    seconds: float,
    is_of_checkpoint: "Callable[[str], bool]",
) -> Ending:
    """Return how a failed rank ended the attempt, and whether a restart can help."""
    end, ending, error = event.ended, describe_code(event), find_error(event)
    why = "rank %s on %s: %s" % (event.rank, host, error or ending)
    missing = _MISSING.match(error)
    is_curable = missing is not None and is_of_checkpoint(missing.group(1))
    if (_INCURABLE.match(error) and not is_curable) or _USAGE.match(find_last_line(event)):
        return Ending(False, "%s: a restart does not change that" % why)
    if seconds < AT_ONCE and "oom-rank" in end.hints:
        return Ending(False, "%s: its memory ran out at once" % why)
    killed = end.signal == 9 or end.lost  # then its output does not show the cause
    return Ending(True, why, "" if killed else describe_error(ending, error))


def find_last_line(event: run_events.RankExited) -> str:
    lines = [line for line in event.tail.splitlines() if line.strip()]
    return _RANK.sub("", lines[-1].strip())[:200] if lines else ""


def find_error(event: run_events.RankExited) -> str:
    """Return the exception that ended a rank, "" if its output ends with none."""
    last_line = find_last_line(event)
    return last_line if _ERROR.match(last_line) else ""


def describe_code(event: run_events.RankExited) -> str:
    end = event.ended
    if end.lost:
        return "killed"
    return "signal %s" % end.signal if end.signal else "exit code %s" % end.code


def describe_error(ending: str, error: str) -> str:
    """Return the error by which two attempts are compared: numbers in it do not count."""
    return "%s %s" % (ending, _NUMBER.sub("0", error))


def failed_at_once(ending: AttemptEnded) -> bool:
    """Return whether the script failed soon after it began, with no new checkpoint: perhaps it
    could not read the one from which it began."""
    is_error = ending.error and not ending.error.startswith(ASKED_TO_END)
    is_soon = ending.lasted < AT_ONCE and not ending.complete
    return bool(ending.ran and ending.again and is_error and is_soon and not ending.lost)


def make_path_test(
    folders: "Iterable[str]", patterns: "list[str]", checkpoint: str
) -> "Callable[[str], bool]":
    """Return a function that tells whether a path is one of a checkpoint. `folders`: where ranks
    start on the hosts; `checkpoint`: from which the attempt began."""

    def is_of_checkpoint(path: str) -> bool:
        for folder in folders:
            if path.startswith(folder + "/"):
                path = path[len(folder) + 1 :]
                break
        path = posixpath.normpath(path)
        below = checkpoint and (path == checkpoint or path.startswith(checkpoint + "/"))
        return bool(below or find_member(path, patterns))

    return is_of_checkpoint


def why_none_left(end: AttemptEnded, restarts: int, limit: int) -> str:
    """Return why no attempt may follow, whatever the hosts have, "" if one may. `restarts`: the
    number so far."""
    if not end.again:
        return end.why
    if not limit:
        return "%s; it was started without --restarts" % end.why
    if restarts >= limit:
        return "%s; no restarts are left (--restarts %d)" % (end.why, limit)
    return ""


def why_same_again(end: AttemptEnded, errors: "list[tuple[str, Any]]") -> str:
    """Return why a further attempt would end as this one, "" if it may not. `errors`: (error,
    newest checkpoint) of the last two attempts."""
    if end.error and len(errors) == 2 and errors[0] == errors[1]:
        return "%s: the same error twice, with no checkpoint in between" % end.why
    return ""


def restart_pause(endings: "list[AttemptEnded]") -> float:
    """Return the seconds to wait before the next attempt: more after each attempt in a row that
    failed at once. An attempt that lost a host ends the row. `endings`: those of the record."""
    soon = 0
    for ending in reversed([ending for ending in endings if ending.ran]):
        if ending.lasted >= AT_ONCE or ending.lost:
            break
        soon += 1
    return BACK_OFF[min(soon, len(BACK_OFF) - 1)]


def choose_next_hosts(
    last_hosts: "list[str]", hosts: "list[str]", usable: "Container[str]", least: int, most: int
) -> "list[str]":
    """Return the hosts of the next attempt, [] if they are too few. `last_hosts`: those before, in
    order; `hosts`: all, spares last; `usable`: those that answer; `most`: the number at first."""
    free = [name for name in hosts if name in usable and name not in last_hosts]
    chosen = []
    for name in last_hosts:
        if name in usable:
            chosen.append(name)
        elif free:
            chosen.append(free.pop(0))
    chosen += free[: max(0, most - len(chosen))]
    return chosen if len(chosen) >= least else []
