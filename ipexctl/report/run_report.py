"""report: write what the hosts of a run recorded into one HTML file."""

from __future__ import annotations

import calendar
import json
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from ipexctl.base.host_outcome import HostResult, PerHost, without_host
from ipexctl.base.secret_mask import SecretMask, secret_values
from ipexctl.base.sizes import format_bytes
from ipexctl.common.attempt_record import AttemptLines
from ipexctl.common.run_answers import RecordAnswer
from ipexctl.common.run_inputs import RunInputs
from ipexctl.errors import InputError, IpexctlError
from ipexctl.local.bounded_read import read_file
from ipexctl.local.environment import environment
from ipexctl.local.nearest_file import short_path
from ipexctl.local.project_lock import LOCK_FILE, lock_folder, read_lock
from ipexctl.machines.fleet import Fleet
from ipexctl.machines.target import ROOT, Target
from ipexctl.pages.page_file import free_place, page_styles, write_page
from ipexctl.quick_dataclass import dataclass
from ipexctl.report.comparison import difference_lines
from ipexctl.report.comparison.recorded_inputs import RunRecord
from ipexctl.report.comparison.run_difference import RunComparison, compare_runs
from ipexctl.report.material.host_record import (
    HostRecord,
    Printed,
    read_host_record,
)
from ipexctl.report.material.report_material import Attempt, Material
from ipexctl.report.material.training_curves import with_steps
from ipexctl.report.report_document import report_document
from ipexctl.report.report_page import Assets, render_report_page
from ipexctl.run.follow_attempts import filter_attempts
from ipexctl.run.jobs.held_checkpoints import gather_checkpoints
from ipexctl.run.jobs.metrics import RankPoint, measure_run_speed, read_metrics
from ipexctl.run.jobs.ps import OfOneRun, ask_run_hosts, find_run_of_anybody, gather_runs
from ipexctl.run.outcome.listed_checkpoints import explain_beginning
from ipexctl.run.outcome.listed_runs import ListedRun
from ipexctl.run.watch.run_folder import FOLDER, find_run_folder
from ipexctl.stack.mpi import in_packages
from ipexctl.terminal.console import print_lines, print_text, stderr_console, stdout_console
from ipexctl.terminal.recap_lines import not_shown


@dataclass(frozen=True)
class WrittenReport(PerHost):
    """`recaps`: of hosts not reached. `path` None: it goes to stdout. If there is a path, `html` is
    already written to it."""

    recaps: tuple[HostResult, ...]
    answered: int  # hosts
    path: Path | None
    document: Mapping[str, Any]
    html: str


@dataclass(frozen=True)
class RunReport(OfOneRun, WrittenReport):
    run: ListedRun
    comparison: RunComparison | None


def report(
    target: Target, text: str, root: str = ROOT, *, compare: str = "", to: str = ""
) -> RunReport:
    """Write a report. `to`: a file, "-" for stdout, "" for report.html in the run's folder."""
    with Fleet(target, root) as fleet:
        run = find_run_of_anybody(fleet, text)
        other_run = find_run_of_anybody(fleet, compare) if compare else None
        if other_run and other_run.id == run.id:
            raise InputError(
                f"--compare {compare}: the report is about this run",
                why=f"both names mean {run.id}",
                hint="ipexctl ps -a   # other runs",
                slug="report-same-run",
            )
        place = Path(to) if to else find_run_folder(Path.cwd(), run.id) / "report.html"
        path = None if to == "-" else free_place(place, "report", "-o")
        runs = [item for item in gather_runs(fleet, only=run.first_id) if item.id <= run.id]
        # `rm` may have removed it meanwhile, which find_run_of_anybody reports
        runs = runs or [find_run_of_anybody(fleet, text)]
        attempts = [read_attempt(fleet, item) for item in sorted(runs, key=lambda r: r.attempt)]
        compared = read_attempt(fleet, other_run) if other_run else None
        checkpoints = gather_checkpoints(fleet, run)
        began_from = read_attempt_starts(fleet, run) if len(attempts) > 1 else ()
        recaps, answered = fleet.recaps(), len(fleet.alive)
        failures = [f"{down.host}: {without_host(down.host, down.what)}" for down in fleet.failures]
    shown = [*attempts, compared] if compared else attempts
    secret_names = [name for attempt in shown if attempt.plan for name in attempt.plan.secret]
    quiet = replace(target, note=lambda text: None)  # it has been said of the run as a whole
    printed = {
        attempt.run.id: read_metrics(quiet, attempt.run.attempt_id, root=root, named=True).points
        for attempt in shown
    }
    attempts = with_output(attempts, printed)
    other = with_output([compared], printed)[0] if compared else None
    comparison = compare_attempts(attempts[-1], other) if other else None
    material = Material(
        attempts=tuple(attempts),
        made=time.strftime("%Y-%m-%d %H:%M"),
        began=time.strftime("%Y-%m-%d %H:%M", time.localtime(attempts[0].run.began)),
        notes=tuple(failures),
        checkpoints=checkpoints,
        environment=_recorded_environment(attempts[-1]),
        other=other,
        comparison=comparison,
        mask=SecretMask(known_secrets(secret_names), *(attempt.command for attempt in shown)),
        began_from=began_from,
        queued=_measure_queue_time(attempts[0]),
    )
    document = report_document(material)
    html = render_report_page(document, read_assets())
    if path is not None:
        write_page(path, html)
    return RunReport(recaps, answered, path, document, html, run, comparison)


def _measure_queue_time(first: Attempt) -> float:
    """Return the seconds from the time in the run's ID to the first connection."""
    inputs = (record.inputs for record in first.records if record.inputs)
    before = next((sum(one.before.values()) for one in inputs), 0.0)
    return first.run.began - before - time_of_id(first.run.id) if first.run.began else 0.0


def time_of_id(run_id: str) -> float:
    """Return the time when the command that started the run was typed."""
    return calendar.timegm(time.strptime(run_id[:15], "%Y%m%d-%H%M%S"))


def known_secrets(given: Sequence[str] = ()) -> frozenset[str]:
    """Return the local values of variables that are secret by their names, and of those in `given`:
    with --secret-env."""
    environ = environment()
    return secret_values(environ) | {environ[name] for name in given if environ.get(name)}


def read_assets() -> Assets:
    folders = [files("ipexctl.report").joinpath(name) for name in ("assets", "many", "sections")]
    paths = [path for folder in folders for path in folder.iterdir()]
    kinds = (".css", ".js", ".txt")
    found = {path.name: path.read_text("utf-8") for path in paths if path.name.endswith(kinds)}
    return {**found, "page.css": page_styles()}


def read_attempt(fleet: Fleet, run: ListedRun) -> Attempt:
    """Read the hosts' records of an attempt."""
    answers = ask_run_hosts(fleet, run, "run.run_list.record", RecordAnswer)
    records = [read_host_record(name, answer) for name, answer in answers.items()]
    return make_attempt(run, records, read_document(FOLDER / "runs" / run.id / "result.json"))


def make_attempt(
    run: ListedRun, records: Sequence[HostRecord], result: Mapping[str, Any] | None = None
) -> Attempt:
    """Return an attempt until now, with its hosts' records in the order of the hosts."""
    order = {name: number for number, name in enumerate(run.about.hosts)}
    records = sorted(records, key=lambda record: order.get(record.host, 0))
    run = run.lasting(run.seconds_at(time.time()))
    return Attempt(run, tuple(records), result=result)


def read_attempt_starts(fleet: Fleet, run: ListedRun) -> tuple[tuple[int, str, str], ...]:
    """Return the checkpoint from which each attempt began, or why from none, by the longest record
    of the hosts."""
    op = "restart.attempts.record"
    answers = ask_run_hosts(fleet, run, op, AttemptLines, run_id=run.first_id)
    records = sorted((answer.lines for answer in answers.values()), key=len)
    lines = filter_attempts(records[-1] if records else ())
    return tuple((line.attempt, line.checkpoint, explain_beginning(line)) for line in lines)


def with_output(
    attempts: Sequence[Attempt], points: Mapping[str, Sequence[RankPoint]]
) -> list[Attempt]:
    """Return the attempts with what their ranks printed, and their speed."""
    lines = [[_printed_by_rank(attempt, p) for p in points[attempt.run.id]] for attempt in attempts]
    numbered = with_steps(lines)
    return [
        replace(attempt, printed=row, speed=measure_run_speed(points[attempt.run.id]))
        for attempt, row in zip(attempts, numbered, strict=True)
    ]


def _printed_by_rank(attempt: Attempt, point: RankPoint) -> Printed:
    began = {record.host: record.began for record in attempt.records}.get(point.host)
    moment = None if point.time is None or not began else max(0.0, point.time - began)
    epoch = [(name, value) for name, value in point.numbers if name == "epoch"]
    values: dict[str, Any] = dict(epoch) | point.point.says
    return Printed(
        **values,
        rank=point.rank,
        at=moment,
        numbers=point.numbers,
        bar=point.bar,
        spelled=point.spelled,
    )


def read_document(path: Path) -> dict[str, Any] | None:
    """Return a JSON document in a run's folder here."""
    with suppress(OSError, ValueError, RecursionError):
        document = json.loads(read_file(path))
        return document if isinstance(document, dict) else None
    return None


def _recorded_environment(last: Attempt) -> tuple[tuple[str, str], ...]:
    """Return what the run recorded; only this folder's lock has the version of Python."""
    inputs = last.of_run or RunInputs()
    key, versions = inputs.environment, inputs.packages
    mpi = lock = None
    with suppress(ValueError):
        mpi = in_packages(versions, "")
    with suppress(IpexctlError):
        lock = read_lock(lock_folder() / LOCK_FILE)
    python = lock.python if lock and lock.key == key else ""
    rows = (
        ("Environment", key),
        ("PyTorch", versions.get("torch")),
        ("MPI", mpi),
        ("Python", python),
    )
    return tuple((name, str(value)) for name, value in rows if value)


def compare_attempts(first: Attempt, other: Attempt) -> RunComparison:
    """Compare attempts. Raises InputError if one never began."""
    names = [attempt.run.name_or_id for attempt in (first, other)]
    if names[0] == names[1]:
        names = [first.run.id, other.run.id]
    return compare_runs(*map(_run_record, (first, other), names))


def _run_record(attempt: Attempt, name: str) -> RunRecord:
    if attempt.plan is None:
        raise InputError(
            f"{attempt.run.id} has not started its ranks",
            hint="ipexctl ps -a",
            slug="run-not-begun",
        )
    return RunRecord(
        name,
        attempt.plan,
        {record.host: record.inputs for record in attempt.records if record.inputs},
        {record.host: record.whole for record in attempt.records if record.whole},
        attempt.of_run,
        attempt.speed,
    )


def show_report(result: RunReport) -> None:
    """Print the path of the report, and the comparison."""
    if result.comparison is not None:
        out = stdout_console() if result.path else stderr_console()
        print_text(out, "\n".join(difference_lines.comparison_lines(result.comparison)))
    show_page(result, f"{result.run.id}, {result.run.phase.value}")


def show_page(result: WrittenReport, text: str) -> None:
    """Print where the page was written, with `text` about it; without a path, the page."""
    if result.path is None:
        sys.stdout.write(result.html)
    else:
        size = format_bytes(len(result.html.encode()))
        print_text(stdout_console(), f"{short_path(result.path)}  {size}: {text}")
    print_lines(stderr_console(), not_shown(result.recaps, result.answered))
