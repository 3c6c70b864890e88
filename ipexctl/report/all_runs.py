"""report --all: write one HTML file about many runs."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

from ipexctl.base.secret_mask import SecretMask
from ipexctl.base.sizes import count
from ipexctl.errors import InputError
from ipexctl.machines.fleet import Fleet
from ipexctl.machines.target import ROOT, Target
from ipexctl.pages.page_file import free_place, write_page
from ipexctl.report import known_runs
from ipexctl.report.known_runs import find_links, is_named
from ipexctl.report.many import runs_text
from ipexctl.report.many.run_table import runs_document
from ipexctl.report.report_page import render_runs_page
from ipexctl.report.run_report import WrittenReport, known_secrets, read_assets, show_page
from ipexctl.run.jobs.ps import gather_runs, read_caller
from ipexctl.run.outcome.listed_runs import ListedRun
from ipexctl.run.outcome.run_choice import is_of_project
from ipexctl.run.watch.run_folder import find_run_folder
from ipexctl.terminal.console import print_lines, print_text, stderr_console, stdout_console
from ipexctl.terminal.recap_lines import not_shown

MOST_RUNS = 300  # the newest


def report_all(
    target: Target, pattern: str = "", root: str = ROOT, *, to: str = "", every: bool = False
) -> WrittenReport:
    """Write a page about the runs of this project, or of `every` one. `pattern` chooses by names
    and ids. `to`: a file, "-" for stdout, "" for runs.html beside the runs' folders."""
    kept_here = find_run_folder(Path.cwd(), "")
    place = Path(to) if to else kept_here.parent / "runs.html"
    path = None if to == "-" else free_place(place, "report", "-o")
    folders = known_runs.run_folders(kept_here)
    with Fleet(target, root) as fleet:
        gathered = gather_runs(fleet)
        caller = read_caller()
        own = [
            run
            for run in gathered
            if is_of_project(run, caller.project)
            # one's own that was moved; of another person's, files were fetched
            or (run.first_id in folders and caller.has_started(run))
        ]
        only_here = folders.keys() - {run.first_id for run in gathered}
        listed = gathered if every or not (own or only_here) else own
        attempts: dict[str, list[ListedRun]] = {}  # of each run, the newest first
        for run in listed:
            attempts.setdefault(run.first_id, []).append(run)
        named = [row for row in attempts.values() if is_named(row[0], pattern)]
        known = known_runs.read_from_hosts(fleet, named[:MOST_RUNS])
        recaps, answered = fleet.recaps(), len(fleet.alive)
        notes = [down.what for down in fleet.failures]
    # a host with the output may be out of reach
    complete = {run.first_id for run in gathered} - {r.run.first_id for r in known if not r.printed}
    local_folders = [found for name, found in folders.items() if name not in complete]
    local = known_runs.read_from_here(local_folders[-MOST_RUNS:])
    kept = {row.run.first_id: row for row in local if is_named(row.run, pattern)}
    rows = [replace(row, printed=kept.pop(row.run.first_id, row).printed) for row in known]
    rows += kept.values()
    if not rows:
        raise InputError(
            f"no run matches {pattern}" if pattern else "there are no runs",
            hint="ipexctl ps -a --every-project",
            slug="unknown-run",
        )
    rows.sort(key=lambda row: row.run.id, reverse=True)
    if hidden := len({run.first_id for run in gathered if is_named(run, pattern)} - {*attempts}):
        notes.append(f"runs of other projects that are left out: {hidden} (--every-project)")
        target.note(notes[-1])
    if len(named) > MOST_RUNS or len(folders) > MOST_RUNS:
        notes.append(f"only the newest {MOST_RUNS} runs are shown")
    folder = path.parent if path else Path.cwd()
    rows = [replace(row, links=find_links(kept_here / row.run.id, folder)) for row in rows]
    mask = SecretMask(known_secrets(), *(r.run.about.command for r in rows))
    document = {
        **runs_document(rows, mask, caller.by),
        "project": caller.project.name if len(listed) == len(own) else "",
        "notes": notes,
        "made": time.strftime("%Y-%m-%d %H:%M"),
    }
    html = render_runs_page(document, read_assets())
    if path is not None:
        write_page(path, html)
    return WrittenReport(recaps, answered, path, document, html)


def show_runs_report(result: WrittenReport) -> None:
    """Print the best run, the ten best, and where the page was written."""
    if result.path is not None:
        out = stdout_console()
        print_text(out, "\n".join(runs_text.table_lines(result.document, out.width)))
    show_page(result, count(len(result.document["runs"]), "run"))


def show_runs_as_csv(result: WrittenReport) -> None:
    sys.stdout.write(runs_text.csv_text(result.document))
    print_lines(stderr_console(), not_shown(result.recaps, result.answered))
