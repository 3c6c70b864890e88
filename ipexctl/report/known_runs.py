"""Gather what is known of many runs: from their hosts, in one request for each, and from here."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from urllib.parse import quote as quote_address

from ipexctl.base.host_answer import Answer
from ipexctl.base.quoting import quote
from ipexctl.base.sizes import count, format_bytes
from ipexctl.base.values import list_of, number_or_none, plain, texts_of
from ipexctl.common.root_paths import ATTEMPT
from ipexctl.common.run_about import RunAbout
from ipexctl.common.run_answers import LogRecorded, PageEvent, RunRecorded
from ipexctl.inventory.inventory import Host
from ipexctl.local.bounded_read import read_prefix
from ipexctl.machines.fleet import Fleet
from ipexctl.report.many.run_table import KnownRun, arguments_of
from ipexctl.report.material.host_record import HostRecord, read_host_record
from ipexctl.report.material.report_material import Attempt, measure_seconds
from ipexctl.report.run_report import make_attempt, read_document, time_of_id, with_output
from ipexctl.run.jobs.logs import LARGEST, SILENCE
from ipexctl.run.jobs.metrics import MetricReader, RankPoint
from ipexctl.run.outcome.listed_runs import RUN_ID, ListedRun
from ipexctl.run.outcome.run_state import Phase, RunState
from ipexctl.run.output.rank_lines import Lines, LogTimes
from ipexctl.run.plan.launch import YOURS

MOST_LOG = 16 << 20  # bytes of a log that is only here
MOST_FILES = 2000  # files of a run's folder that are looked at for links
_LOG = re.compile(r"rank([0-9]{5,9})\.(.+)\.log")
PointsByRank = dict[int, list[RankPoint]]


def is_named(run: ListedRun, pattern: str) -> bool:
    """Return whether the pattern matches the name or the id of the run."""
    texts = [run.about.name, run.id, run.first_id]
    return not pattern or any(fnmatchcase(text, pattern) for text in texts if text)


# --- from hosts -----------------------------------------------------------------------------------


def read_from_hosts(fleet: Fleet, attempts: Sequence[Sequence[ListedRun]]) -> list[KnownRun]:
    """Ask each host once for all last attempts. `attempts`: of each run, the newest first."""
    runs = [row[0] for row in attempts]
    records: dict[str, list[HostRecord]] = {run.id: [] for run in runs}
    points: dict[str, PointsByRank] = {run.id: {} for run in runs}

    def ask(host: Host) -> None:
        own = {run.id: run for run in runs if host.name in run.targets}
        names = {
            report.run: report.host
            for run in own.values()
            for report in run.seen
            if report.target == host.name
        }
        request = {"root": fleet.root_of(host), "known_as": host.name, "run_ids": list(own)}
        number = fleet.agents[host].start("run.run_records.read", request)
        for frame in fleet.agents[host].answers(number, SILENCE, LARGEST):
            if "done" in frame.header:
                break
            match Answer(host.name, frame.header).value("event", PageEvent):
                case RunRecorded(key, record) if key in own:
                    records[key].append(read_host_record(names[key], record))
                case LogRecorded(key, rank, sizes, parts) if key in own:
                    printed = read_points(own[key], names[key], rank, frame.body, parts, sizes)
                    points[key][rank] = printed

    fleet.map_hosts(ask, [h for h in fleet.alive if any(h.name in run.targets for run in runs)])
    return [_known_by_hosts(row, records[row[0].id], points[row[0].id]) for row in attempts]


def read_points(
    run: ListedRun,
    host: str,
    rank: int,
    body: bytes,
    parts: Sequence[tuple[int, int]],
    sizes: Sequence[tuple[float, int]] = (),
) -> list[RankPoint]:
    """Read parts of a rank's log. `parts`: (offset, bytes) of each, in the order of `body`.
    `sizes`: times at which the log had these sizes."""
    reader, done = MetricReader(named=True), 0
    for offset, size in parts:
        stream, data = Lines(bars=True), body[done : done + size]
        for piece, span in LogTimes(sizes, offset).pieces(data) if sizes else [(data, None)]:
            reader.set_time(rank, span)
            reader.add_lines(run, host, rank, stream.feed(piece))
        reader.add_lines(run, host, rank, stream.end())
        done += size
    return reader.points


def _known_by_hosts(
    attempts: Sequence[ListedRun], records: Sequence[HostRecord], points: PointsByRank
) -> KnownRun:
    attempt = make_attempt(attempts[0], records)
    seconds = measure_seconds(attempts[-1], attempt.run)
    run = replace(attempt.run.lasting(seconds), began=attempts[-1].began)
    (attempt,) = with_output([attempt], {run.id: _reporting_points(points)})
    inputs, argv = attempt.of_run, attempt.argv
    host = next((record.inputs for record in attempt.records if record.inputs), None)
    files = inputs.files or {"files": inputs.tree} if inputs and inputs.tree else None
    parts: dict[str, Mapping[str, str] | None] = {
        "arguments": arguments_of(argv) if argv else None,
        "variables": host.variables if host else None,
        "versions": inputs.packages if inputs else None,
        "hosts": dict(_host_facts(attempt)) if attempt.plan else None,
        "code": files,
        "data": inputs.data if inputs else None,
    }
    tree = inputs.tree if inputs else ""
    why = host.reasons if host else {}
    given = frozenset(name for name in parts["variables"] or () if is_given(why.get(name, "")))
    printed, speed = attempt.printed, attempt.speed
    return KnownRun(run, parts, printed, speed, tree, attempts=len(attempts), given=given)


def _reporting_points(points: PointsByRank) -> list[RankPoint]:
    """Return those of the first rank that prints a loss, else of the first that prints anything:
    the last stage of a pipeline prints what the first one does not know."""
    rows = [row for _, row in sorted(points.items()) if row]
    with_loss = [row for row in rows if any(point.point.loss is not None for point in row)]
    return next(iter(with_loss or rows), [])


def is_given(why: str) -> bool:
    """Return whether a variable with this reason is the user's, or of an option that was typed."""
    return not why or why.startswith((YOURS, "--"))


def _host_facts(attempt: Attempt) -> Iterator[tuple[str, str]]:
    assert attempt.plan is not None
    yield "ranks", str(attempt.plan.world_size)
    yield "MPI", attempt.plan.mpi or "none"
    for plan in attempt.plan.hosts:
        ranks, threads = count(len(plan.ranks), "rank"), count(plan.threads or 0, "thread")
        yield plan.host, f"{ranks}, {threads} each, {plan.nic}"
    for record in attempt.records:
        if host := record.inputs:
            memory = format_bytes(host.memory) if host.memory else ""
            facts = (host.cpu, f"{host.cores} cores", memory, host.kernel, *host.governors)
            yield f"{record.host} hardware", ", ".join(filter(None, facts))


# --- from here ------------------------------------------------------------------------------------


def read_from_here(folders: Sequence[Sequence[Path]]) -> Iterator[KnownRun]:
    """Yield the last attempts of runs, from the folders of each one's attempts."""
    for attempts in folders:
        with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            yield _read_folder(attempts[-1], len(attempts))


def run_folders(here: Path) -> dict[str, list[Path]]:
    """Return the folders of the attempts of each run, the oldest first, by the run's first id."""
    runs: dict[str, list[Path]] = {}
    with suppress(OSError):
        for folder in sorted(here.iterdir()):
            if RUN_ID.fullmatch(folder.name) and folder.is_dir():
                runs.setdefault(ATTEMPT.sub("", folder.name), []).append(folder)
    return runs


def _read_folder(folder: Path, attempts: int) -> KnownRun:
    plan, result = (read_document(folder / name) or {} for name in ("plan.json", "result.json"))
    argv = texts_of(plan.get("argv"))
    hosts = [host for host in list_of(plan.get("hosts")) if isinstance(host, dict)]
    names = tuple(plain(host.get("name"), 255) for host in hosts)
    about = RunAbout(plain(plan.get("name")), names, int(plan.get("world_size", 0)), quote(argv))
    code, interrupted = result.get("exit_code"), result.get("ended_by") == "interrupted"
    phase = Phase.LOST if code is None else Phase.DONE
    if code:
        phase = Phase.STOPPED if interrupted else Phase.FAILED
    began = time_of_id(folder.name)
    # when the first of several attempts began is not recorded here
    seconds = number_or_none(result.get("seconds")) or 0.0 if attempts == 1 else 0.0
    cause = f"exit code {code}: {plain(result.get('cause'))}" if code else ""
    state = RunState(phase, since=began + seconds if began else 0.0, seconds=seconds)
    run = ListedRun(folder.name, about, state, began, 0, 0, cause, (), None)
    points: PointsByRank = {}
    for rank, host, path in _edge_logs(folder):
        data = read_prefix(path, MOST_LOG)
        points[rank] = read_points(run, host, rank, data, [(0, len(data))])
    (attempt,) = with_output([Attempt(run)], {run.id: _reporting_points(points)})
    rows = [row for host in hosts[:1] for row in list_of(host.get("variables"))]
    variables = {row["name"]: row["value"] or "set" for row in rows}
    given = frozenset(row["name"] for row in rows if is_given(plain(row.get("why"))))
    parts = {
        "arguments": arguments_of(argv) if argv else None,
        "variables": variables if hosts else None,
        "hosts": {"ranks": str(about.ranks), "MPI": plain(plan.get("mpi")) or "none"},
        **dict.fromkeys(("versions", "code", "data")),
    }
    return KnownRun(run, parts, attempt.printed, only_here=True, attempts=attempts, given=given)


def _edge_logs(folder: Path) -> list[tuple[int, str, Path]]:
    """Return the logs of the first and the last rank."""
    with suppress(OSError):
        found = [(m, f) for f in (folder / "logs").iterdir() if (m := _LOG.fullmatch(f.name))]
        logs = sorted((int(match[1]), match[2], file) for match, file in found)
        return [*logs[:1], *logs[1:][-1:]]
    return []


def find_links(folder: Path, page: Path) -> tuple[tuple[str, str], ...]:
    """Return what can show more of a run, from the files in its folder: its report, TensorBoard's
    event files by their folder, offline runs of W&B. Addresses are relative to the page."""
    links = dict[str, Path]()
    for path in (folder / "report.html", *islice((folder / "outputs").rglob("*"), MOST_FILES)):
        if path.name.startswith("events.out.tfevents."):
            links[f"TensorBoard {path.parent.name}"] = path.parent
        elif path.name.startswith("offline-run-"):
            links[f"W&B {path.name}"] = path
        elif path == folder / "report.html" and path.is_file():
            links["report"] = path
    return tuple(
        (plain(name, 100), quote_address(Path(os.path.relpath(path, page)).as_posix()))
        for name, path in links.items()
    )
