"""Format what `ps`, `stop` and `wait` show."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from ipexctl.base.sizes import duration, format_bytes
from ipexctl.facts.other_runs_facts import LiveRun, add_usage
from ipexctl.inventory.hostfile_text import fold
from ipexctl.local.corrected_command import corrected_command
from ipexctl.run.command.ps_table import (
    STATE_COLOURS,
    cut_line,
    latest_metrics,
    sort_runs,
    table_lines,
)
from ipexctl.run.jobs.ps import Gone, Runs, Stopped, read_caller
from ipexctl.run.outcome.listed_runs import ListedRun
from ipexctl.run.outcome.run_choice import describe_foreign, is_of_project
from ipexctl.run.outcome.run_result import Stall
from ipexctl.run.outcome.run_state import Phase, find_unbegun
from ipexctl.terminal.confirm import DECLINED
from ipexctl.terminal.console import print_lines, print_text, stderr_console, stdout_console
from ipexctl.terminal.recap_lines import host_documents, host_lines, not_shown

if TYPE_CHECKING:
    from ipexctl.run.checkpoints.fetch_checkpoints import CheckpointList, FetchedCheckpoint
    from ipexctl.run.jobs.fetch import FetchReport
    from ipexctl.run.jobs.wait import Waited
    from ipexctl.run.outcome.listed_checkpoints import ListedCheckpoint


def show_runs(
    listing: Runs,
    *,
    every: bool,
    every_project: bool = False,
    filtered: bool = False,
    verbose: bool = False,
) -> None:
    """Print the runs as a table, with `verbose` all that is known of each. In the folder of a
    project that has runs here, ended runs of other projects are only counted."""
    console = stdout_console()
    own = [run for run in listing.runs if is_of_project(run, listing.caller.project)]
    foreign = [run for run in listing.runs if own and run.over and run not in own]
    hidden = [] if every_project else foreign
    shown = [run for run in listing.runs if run not in hidden]
    now, width = time.time(), console.width if console.is_terminal else None
    if verbose:
        named = [run.naming(listing.runs) for run in sort_runs(shown)]
        lines = [line for run in named for line in run_lines(run, now)]
    else:
        lines = table_lines(shown, listing.runs, listing.caller, now, width, listing.ids)
    if hidden:
        noun = "run" if len(hidden) == 1 else "runs"
        text = f"{len(hidden)} ended {noun} of other projects: add --every-project"
        lines.append(Text(text, "bright_black"))
    if not listing.runs:
        none = "no runs on these hosts" if every else "no active runs; ipexctl ps -a lists all"
        lines = [Text("no such runs on these hosts" if filtered else none)]
    print_lines(console, lines)
    others = other_users_lines(listing.other_users)
    print_lines(console, [cut_line(line, width) for line in others])
    print_lines(console, not_shown(listing.recaps, listing.answered))


def other_users_lines(rows: Sequence[tuple[str, LiveRun]]) -> list[Text]:
    """Return a line for each run of another account, with what it uses on all of its hosts."""
    hosts_of: dict[tuple[str, str], dict[str, LiveRun]] = {}
    for host, run in rows:
        hosts_of.setdefault((run.owner, run.id), {})[host] = run
    lines = [(add_usage(runs.values()), fold(runs)) for runs in hosts_of.values()]
    return [Text(f"also on {hosts}: {run.usage_text}") for run, hosts in lines]


def run_lines(run: ListedRun, now: float) -> list[Text]:
    """Format a run: the first line has what users look for first; the rest is indented."""
    about = run.about
    line = Text(f"{run.id}  ").append(f"{run.phase.value:8}", style=STATE_COLOURS[run.phase])
    ok = about.ranks if run.phase is Phase.DONE else run.ok  # also on unreachable hosts
    succeeded = f"{ok} of {about.ranks or run.started} ranks succeeded"
    up = 0 if run.state.has_no_ranks else run.started - run.ok
    began = "started" if run.has_start else "queued"
    ranks = f"{succeeded if run.over or run.all_ok else f'{up} of {about.ranks} ranks'} on "
    is_queued = run.phase is Phase.QUEUED
    line.append(f"  {run.ranks_text if is_queued else ranks + run.hosts_text}")
    line.append(f", {began} {duration(now - run.began)} ago" if run.began else "")
    line.append(f" by {about.by}" if about.by else "")
    line.append(", never started" if run.state.never_began else "")
    lines = [line]
    title = f"{about.name}: " * bool(about.name) + about.command
    if title:
        lines.append(Text(f"  {title}"))
    if run.over and not run.state.never_began:
        took = f"took {duration(run.seconds)}" * run.has_start
        size = "" if run.bytes is None else f"{format_bytes(run.bytes)} on its hosts"
        if text := ", ".join(filter(None, (took, size))):
            lines.append(Text(f"  {text}"))
    lines += [Text(f"  {cut}, for {duration(seconds)}", "yellow") for cut, seconds in run.cut]
    texts = [(text, "") for text in run.end_texts]
    texts += [(run.state.waits, "yellow"), (str(_find_stall(run) or ""), "yellow"), (run.last, "")]
    for text, style in texts:
        if text:
            lines.append(Text(f"  {text}", style))
    return lines


def runs_document(listing: Runs) -> dict[str, Any]:
    return {
        "runs": [
            {
                **run_document(run),
                "this_project": is_of_project(run, listing.caller.project),
                "yours": listing.caller.has_started(run),
                "place": len(run.before) + 1 if run.queued and run.state.waits else None,
                "metrics": latest_metrics(run).says or None,
            }
            for run in listing.runs
        ],
        "other_users": [other_users_document(host, run) for host, run in listing.other_users],
        "not_asked": host_documents(listing.recaps),
        "exit_code": listing.exit_code,
    }


def other_users_document(host: str, run: LiveRun) -> dict[str, Any]:
    return {
        "host": host,
        "run_id": run.id,
        "owner": run.owner,
        "ranks": run.ranks,
        "cores": run.cores,
        "memory": run.memory,
        "seconds": run.seconds,
    }


def run_document(run: ListedRun) -> dict[str, Any]:
    return {
        "run_id": run.id,
        "name": run.about.name or None,
        "state": run.phase.value,
        "reason": run.state.reason or None,
        "since": run.state.since or None,
        "exit_code": run.exit_code,
        "cause": run.cause or None,
        "no_further_attempt": run.state.no_further or None,
        "attempts_not_begun": [
            {"attempt": row.attempt, "hosts": row.hosts, "cause": row.why}
            for row in find_unbegun(run.further)
        ],
        "ranks": run.about.ranks,
        "ranks_started": run.started,
        "ranks_ended_well": run.ok,
        "hosts": list(run.about.hosts),
        "hosts_alive": list(run.alive),
        "cut": [{"what": cut, "seconds": round(seconds, 1)} for cut, seconds in run.cut],
        "stalled": stall.document() if (stall := _find_stall(run)) else None,
        "waits": run.state.waits or None,
        "command": run.about.command,
        "started_by": run.about.by or None,
        "folder": run.about.folder or None,
        "typed_in": run.about.typed_in or None,
        "began": run.began or None,
        "seconds": round(run.seconds, 3) if run.over else None,
        "last_line": run.last or None,
        "bytes": run.bytes,
        "ipexctl": run.about.version or None,
    }


def _find_stall(run: ListedRun) -> Stall | None:
    if run.stall is None:
        return None
    from ipexctl.run.hang.diagnosis import stall_of

    return stall_of(run)


def show_stopped(stopped: Stopped) -> None:
    run, console = stopped.run, stdout_console()
    if stopped.declined:
        print(DECLINED)
    elif stopped.was_over:
        print_text(console, f"{run.id} has already ended: {run.phase.value}")
    elif run.over:
        owner = f" of {stopped.owner}" if stopped.owner else ""
        print_text(console, f"{run.id}{owner} is stopped")
    else:
        suffix = f" on {fold(run.alive)}" if run.alive else ""
        print_text(console, f"{run.id} is still {run.phase.value}{suffix}")
    print_lines(console, not_shown(stopped.recaps, stopped.answered))


def show_fetched(report: FetchReport) -> None:
    console, (where, *missing) = stdout_console(), report.fetched.words
    print_lines(console, not_shown(report.recaps, report.answered))
    for text in (*missing, where):
        print_text(console, text)
    if command := corrected_command(sys.argv[1:], *report.meant) if any(report.meant) else "":
        print_text(console, f"  try: {command}")


def fetched_document(report: FetchReport) -> dict[str, Any]:
    fetched = report.fetched
    return {
        **asked_run_document(report),
        "outputs": str(fetched.folder) if fetched.files else "",
        "files": fetched.files,
        "fetched_bytes": fetched.size,
        "fetched": list(fetched.words),
    }


def show_waited(waited: Waited) -> None:
    print_lines(stdout_console(), run_lines(waited.run, time.time()))
    if waited.again:
        print_text(stdout_console(), f"  again: {waited.again}")


def waited_document(waited: Waited) -> dict[str, Any]:
    return {**asked_run_document(waited), "again": waited.again or None}


def show_removal(run: ListedRun) -> None:
    console = stderr_console()
    print_text(console, "to be removed, with its logs and results on the hosts:")
    print_lines(console, run_lines(run, time.time()))
    if not read_caller().owns(run):
        print_text(console, describe_foreign(run))


def show_removed(removal: Gone) -> None:
    if removal.declined:
        print(DECLINED)
    elif removal.removed:
        if not read_caller().owns(removal.run):
            print_text(stderr_console(), describe_foreign(removal.run))
        print_lines(stdout_console(), host_lines(removal.recaps))
    else:
        print_text(stdout_console(), "would be removed:")
        print_lines(stdout_console(), run_lines(removal.run, time.time()))


def removed_document(removal: Gone) -> dict[str, Any]:
    return {
        **run_document(removal.run),
        "removed": removal.removed,
        "declined": removal.declined,
        "per_host": host_documents(removal.recaps),
        "command_exit_code": removal.exit_code,
    }


def asked_run_document(report: Stopped | Waited | FetchReport) -> dict[str, Any]:
    return {
        **run_document(report.run),
        "not_asked": host_documents(report.recaps),
        "command_exit_code": report.exit_code,
    }


NONE = "no checkpoints: it ran without --checkpoints, or none was finished"


def show_checkpoints(listing: CheckpointList) -> None:
    console = stdout_console()
    print_text(console, f"{listing.run.id}  {listing.run.about.name}".rstrip())
    print_lines(
        console, [_checkpoint_line(item) for item in listing.checkpoints] or [Text(f"  {NONE}")]
    )
    print_lines(console, not_shown(listing.recaps, listing.answered))


def _checkpoint_line(item: ListedCheckpoint) -> Text:
    step = "-" if item.step is None else str(item.step)
    age = f"{duration(item.age)} ago" if item.age is not None else ""
    line = Text(f"  step {step:>8}  {format_bytes(item.bytes):>9}  {age:>16}  {item.name}  ")
    if item.is_complete:
        return line.append(f"complete on {fold(item.hosts)}", "green")
    return line.append(f"not complete: {item.why}", "yellow")


def checkpoint_document(checkpoint: ListedCheckpoint) -> dict[str, Any]:
    return {
        "name": checkpoint.name,
        "step": checkpoint.step,
        "bytes": checkpoint.bytes,
        "complete": checkpoint.is_complete,
        "why": checkpoint.why or None,
        "hosts": list(checkpoint.hosts),
        "age": None if checkpoint.age is None else round(checkpoint.age, 1),
    }


def checkpoints_document(listing: CheckpointList) -> dict[str, Any]:
    return {
        "run_id": listing.run.id,
        "name": listing.run.about.name or None,
        "checkpoints": [checkpoint_document(checkpoint) for checkpoint in listing.checkpoints],
        "not_asked": host_documents(listing.recaps),
        "exit_code": listing.exit_code,
    }


def show_copy(copy: FetchedCheckpoint) -> None:
    console = stdout_console()
    print_lines(console, not_shown(copy.recaps, copy.answered))
    noun = "file" if copy.files == 1 else "files"
    text = f"{copy.checkpoint.title}: {copy.files} {noun}, {format_bytes(copy.checkpoint.bytes)}"
    print_text(console, f"{text} in {os.path.relpath(copy.path)}")


def copy_document(report: FetchedCheckpoint) -> dict[str, Any]:
    return {
        "run_id": report.run.id,
        "checkpoint": checkpoint_document(report.checkpoint),
        "path": str(report.path),
        "files": report.files,
        "not_asked": host_documents(report.recaps),
        "exit_code": report.exit_code,
    }
