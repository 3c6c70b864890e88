"""The table that `ps` prints: a line for each run."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from rich.text import Text

from ipexctl.base.sizes import duration, format_bytes
from ipexctl.common.attempt_record import PLACE_PARTS, USED
from ipexctl.errors import printable_text
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.hang.diagnosis import stall_of
from ipexctl.run.outcome.listed_runs import (
    ListedRun,
    name_runs_before,
    names_by_owner,
    with_names,
)
from ipexctl.run.outcome.run_choice import SHOWN_ID, Caller
from ipexctl.run.outcome.run_state import Phase
from ipexctl.run.output.metric_lines import LineReader, Point
from ipexctl.run.watch.metric_formats import metric_formats

STATE_COLOURS = {
    Phase.STARTING: "green",
    Phase.RUNNING: "green",
    Phase.STALLED: "yellow",
    Phase.STOPPING: "yellow",
    Phase.RESTARTING: "yellow",
    Phase.QUEUED: "yellow",
    Phase.DONE: "cyan",
    Phase.FAILED: "red",
    Phase.STOPPED: "yellow",
    Phase.LOST: "bold red",
}
WIDE = 140  # columns of a terminal that also shows arguments and folders
NARROWEST = {"NAME": 15, "HOSTS": 11, "COMMAND": 24, "FOLDER": 24}  # what is cut, if it has to be
TAIL = 26  # columns that step and loss, or a cause, have at least
GAP = "  "
FEW = len("-ab")  # characters more, where two runs began in one second


@dataclass(frozen=True)
class Row:
    """A run in the table. `tail`: what is written instead of step and loss, "" for these;
    `shorter`: the same in fewer words, where there is no room for all."""

    run: ListedRun
    cells: dict[str, str]
    tail: str
    shorter: tuple[str, ...]
    style: str


def sort_runs(runs: Sequence[ListedRun]) -> list[ListedRun]:
    """Return active runs first, then those in the queue in its order, then those that have ended:
    the newest first."""

    def place(run: ListedRun) -> tuple[int, int, float]:
        if run.phase is Phase.QUEUED:
            return 1, len(run.before), run.began
        return (2 if run.over else 0), 0, 0.0

    return sorted(runs, key=place)  # stable: the newest is first


def table_lines(
    runs: Sequence[ListedRun],
    listed: Sequence[ListedRun],
    caller: Caller,
    now: float,
    width: int | None,
    ids: Collection[str] = (),
) -> list[Text]:
    """Return the table, and below it what else is to be known of a run, a line each. `listed`: also
    the runs that are not shown; `ids`: of all runs that the hosts named, as commands find these,
    too. `width`: of the terminal; None: nothing is cut."""
    if not runs:
        return []
    short = _shorten_ids({*ids, *(run.first_id for run in listed)})
    wide = width is None or width >= WIDE
    rows = [_make_row(run, listed, caller, now, short, wide=wide) for run in sort_runs(runs)]
    columns = _choose_columns(rows, width, wide=wide)
    head = {name: name for name in columns}
    steps = max(len("STEP"), *(len(row.cells["STEP"]) for row in rows if not row.tail), 0)
    lines = [_line(head, "STEP".ljust(steps) + GAP + "LOSS", columns, "bold", width)]
    for row in rows:
        used = _used_columns(row, columns)
        tail = row.tail or row.cells["STEP"].ljust(steps) + GAP + row.cells["LOSS"]
        if width is not None:
            room = width - sum(used.values()) - len(GAP) * len(used)
            texts = (tail, *row.shorter)
            tail = next((text for text in texts if len(text) <= room), texts[-1])
        lines.append(_line(row.cells, tail, used, "", width, row.style))
    return lines + [cut_line(Text(text, "yellow"), width) for text in _fold_notes(rows)]


def _used_columns(row: Row, columns: dict[str, int]) -> dict[str, int]:
    """Return the columns of a row: in a narrow table, the place in the queue needs more room."""
    if row.run.phase is not Phase.QUEUED or "FOLDER" in columns:
        return columns
    unused = ("SINCE",) if row.cells["BY"] else ("SINCE", "BY")
    return {name: size for name, size in columns.items() if name not in unused}


def _line(
    cells: dict[str, str],
    tail: str,
    columns: dict[str, int],
    style: str,
    width: int | None,
    state: str = "",
) -> Text:
    line = Text(style=style)
    for name, size in columns.items():
        cell = Text(cells[name], state if name == "STATE" else "")
        cell.truncate(size, overflow="ellipsis", pad=True)
        line.append(cell).append(GAP)
    line.append(tail)
    line.rstrip()
    return cut_line(line, width)


def cut_line(line: Text, width: int | None) -> Text:
    if width is not None:
        line.truncate(width, overflow="ellipsis")
    return line


def _choose_columns(rows: Sequence[Row], width: int | None, *, wide: bool) -> dict[str, int]:
    """Return the columns and their widths. Of a narrow terminal, only those that matter most."""
    names = ["NAME", "STATE", "RANKS", "HOSTS", "SINCE"]
    if any(row.cells["BY"] for row in rows):
        names.insert(4, "BY")
    if wide:
        names += ["SIZE"] * any(row.cells["SIZE"] for row in rows) + ["ID", "COMMAND", "FOLDER"]
    elif any(row.cells["TWICE"] for row in rows):
        names.insert(1, "ID")
    sizes = {name: max(len(name), *(len(row.cells[name]) for row in rows)) for name in names}
    if width is None:
        return sizes
    ids = max((len(row.cells["NAME"]) for row in rows if not row.run.about.name), default=0)
    for name, least in (NARROWEST | {"NAME": max(NARROWEST["NAME"], ids)}).items():
        if name in sizes:
            surplus = sum(sizes.values()) + len(GAP) * len(sizes) + TAIL - width
            sizes[name] -= max(0, min(surplus, sizes[name] - least))
    return sizes


def _shorten_ids(first_ids: Collection[str]) -> Callable[[ListedRun], str]:
    """Return a function that gives what names a run in commands: its ID to the second, with a few
    characters more if another run began in that second."""
    seconds: dict[str, list[str]] = {}
    for first_id in first_ids:
        seconds.setdefault(first_id[:SHOWN_ID], []).append(first_id)

    def shorten(run: ListedRun) -> str:
        first, alike = run.first_id, seconds[run.id[:SHOWN_ID]]
        sizes = (SHOWN_ID, *range(SHOWN_ID + FEW, len(first)))
        alone = (n for n in sizes if sum(other.startswith(first[:n]) for other in alike) == 1)
        return first[: next(alone, len(first))] + run.id[len(first) :]

    return shorten


def _by(by: str, own: str, *, wide: bool) -> str:
    """Return who started a run, "" for the caller; in a narrow table the user's name, or the
    machine of the caller's own runs on another one."""
    if by == own or wide:
        return by if by != own else ""
    user, _, machine = by.partition("@")
    return f"@{machine}" if user == own.partition("@")[0] else user


def _make_row(
    run: ListedRun,
    listed: Sequence[ListedRun],
    caller: Caller,
    now: float,
    short: Callable[[ListedRun], str],
    *,
    wide: bool,
) -> Row:
    about, up = run.about, run.started - run.ok
    attempt = f"-r{run.attempt:02d}" if run.later or run.attempt > 1 else ""
    others = [other for other in listed if other.about.name == about.name]
    twice = bool(about.name) and len({other.first_id for other in others}) > 1
    starts = not run.over and not run.state.has_no_ranks and up != about.ranks and not run.ok
    since = now - run.began - (run.seconds if run.over else 0.0)
    metrics = latest_metrics(run)
    cells = {
        "NAME": about.name + attempt if about.name else short(run),
        "STATE": run.phase.value,
        "RANKS": f"{up}/{about.ranks}" if starts else str(about.ranks or run.started),
        "HOSTS": run.hosts_text,
        "BY": _by(about.by, caller.by, wide=wide),
        "SINCE": short_duration(since) if run.began else "",
        "ID": short(run),
        "TWICE": "twice" if twice else "",
        "COMMAND": about.command,
        "FOLDER": about.folder,
        "SIZE": "" if run.bytes is None else format_bytes(run.bytes),
        "STEP": step_text(metrics),
        "LOSS": "" if metrics.loss is None else f"{metrics.loss:.4g}",
    }
    cells = {name: printable_text(text) for name, text in cells.items()}
    style = STATE_COLOURS[run.phase]
    tail, *shorter = map(printable_text, _tails(run, listed))
    return Row(run, cells, tail, tuple(shorter), style)


def _tails(run: ListedRun, listed: Sequence[ListedRun]) -> tuple[str, ...]:
    """Return what _tail does, and in fewer and fewer words the exception of a failed run, who
    stopped one that never started, or the place in the queue: whose run is next before it says more
    than an ID that `ps` does not list."""
    tail = _tail(run, listed)
    if _EXCEPTION.match(run.error_line):
        return tail, run.error_line
    if run.state.never_began:
        return (tail, *filter(None, [tail.partition(", ")[2]]))
    if not tail or run.phase is not Phase.QUEUED or not run.before:
        return (tail,)
    place, last = tail.partition(",")[0], run.before[-1]
    if (last.run, last.owner) in names_by_owner(listed):
        return tail, f"{place}, after {name_runs_before(run, listed)[-1]}", place
    more = f" and {len(run.before) - 1} more" * (len(run.before) > 1)
    return tail, f"{place}, after {last.owner}{more}", f"{place}, after {last.owner}", place


_EXCEPTION = re.compile(r"[\w.]*(?:Error|Exception)\b")


def _tail(run: ListedRun, listed: Sequence[ListedRun]) -> str:
    """Return what is said of a run instead of its step and loss; "" for these."""
    if run.phase is Phase.QUEUED:
        return place_text(run, listed)
    if run.state.never_began:
        stopped = run.phase is Phase.STOPPED and run.cause
        return "never started" + (f", {run.cause}" if stopped else "")
    if run.phase is Phase.RESTARTING:
        return run.state.reason
    if run.phase is Phase.STALLED:
        return str(stall_of(run) or "")
    return "" if run.phase is Phase.DONE else run.cause


def place_text(run: ListedRun, listed: Sequence[ListedRun]) -> str:
    """Return "place 3, after lr-0.1 and 1 more": the run that is next before it, and how many."""
    if not run.state.waits:
        return ""
    if names := name_runs_before(run, listed):
        more = f" and {len(names) - 1} more" if names[1:] else ""
        return f"place {len(names) + 1}, after {names[-1]}{more}"
    using = next((part for part in run.state.waits.split("; ") if part.startswith(USED)), "")
    return "place 1" + (f", cores used by {with_names(using[len(USED) :], listed)}" * bool(using))


def _fold_notes(rows: Sequence[Row]) -> list[str]:
    """Return the notes of all runs, each once: `lr-0.1 and 3 more: not reached: node03`."""
    names: dict[str, list[str]] = {}
    for row in rows:
        for note in _notes(row):
            names.setdefault(note, []).append(row.cells["NAME"])
    return [
        f"{first}{f' and {len(more)} more' if more else ''}: {note}"
        for note, (first, *more) in names.items()
    ]


def _notes(row: Row) -> list[str]:
    """Return what a table has no place for, such as hosts that are not reached."""
    run = row.run
    notes = [f"{cut}, for {duration(seconds)}" for cut, seconds in run.cut]
    if run.phase is Phase.QUEUED:
        parts = run.state.waits.split("; ")
        notes += [p for p in parts if not p.startswith((*PLACE_PARTS, USED)) and p]
    return [printable_text(note) for note in notes]


def short_duration(seconds: float) -> str:
    """Return `12 s`, `3 min`, `2 h` or `4 d`."""
    return " ".join(duration(seconds).split()[:2])


def step_text(metrics: Point) -> str:
    if metrics.step is not None:
        return f"{metrics.step}" + (f"/{metrics.total}" if metrics.total else "")
    return "" if metrics.epoch is None else f"epoch {metrics.epoch:g}"


def latest_metrics(run: ListedRun) -> Point:
    """Return the last step and loss in the last lines of the first rank that prints a loss, else
    of the first that prints anything."""
    by_rank = dict(part.row.told for part in run.seen if part.row.told)
    by_rank |= {part.row.last[0]: part.row.recent for part in run.seen if part.row.last}
    points = [_merge_points(by_rank[rank]) for rank in sorted(by_rank)]
    with_loss = [point for point in points if point.loss is not None]
    return next(iter([*with_loss, *points]), Point())


def _merge_points(lines: Sequence[str]) -> Point:
    reader, values = LineReader(metric_formats()), dict[str, float]()
    for line in lines:
        if point := reader.point(line):
            values |= point.says
    return Point(**values)  # type: ignore[arg-type]
