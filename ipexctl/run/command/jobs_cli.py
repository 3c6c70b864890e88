"""The options of ps, attach, logs, metrics, checkpoints, fetch, stop, wait and rm."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ipexctl.cli.declared_command import command
from ipexctl.cli.help_layout import output_option
from ipexctl.cli.options import (
    FROM_ZERO,
    Check,
    Json,
    JsonLines,
    NoFold,
    Root,
    Ui,
    Verbose,
    Yes,
    declare_option,
    end_command,
    on_hosts,
)
from ipexctl.local.run_options import RunOptions

if TYPE_CHECKING:
    from ipexctl.run.outcome.listed_runs import ListedRun

_RUN = "Run name, run ID or its first characters; @last: your newest run here."
RunName = Annotated[str, typer.Argument(metavar="RUN", help=_RUN)]
Ranks = Annotated[
    str, output_option("--ranks", "--rank", metavar="RANKS", help="Show only these ranks: 0,4-7.")
]
NewestRun = Annotated[str, typer.Argument(metavar="[RUN]", help=_RUN)]


def _answer_yes(text: str, *, removes: bool = False) -> Callable[[ListedRun], bool]:
    """Return what --yes answers about the run that `text` names. Raises InputError."""

    def agreed(run: ListedRun) -> bool:
        from ipexctl.run.jobs.ps import read_caller
        from ipexctl.run.outcome.run_choice import require_id, require_own_name

        require_id(run, text, read_caller())
        if removes:
            require_own_name(run, text)
        return True

    return agreed


@command("Runs", 10, habits="status runs jobs top list ls squeue describe inspect")
@on_hosts()
def ps(
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    every: Annotated[
        bool, typer.Option("-a", "--all", help="Include runs that have ended.")
    ] = False,
    every_project: Annotated[
        bool,
        typer.Option("--every-project", help="Include ended runs of other projects. Implies -a."),
    ] = False,
    state: Annotated[
        str,
        typer.Option("--state", metavar="STATES", help="List only these states: done,failed."),
    ] = "",
    since: Annotated[
        str,
        typer.Option(
            "--since", metavar="TIME", help="Leave out runs that ended before: 2h, 3d, 2026-11-28."
        ),
    ] = "",
    verbose: Annotated[
        bool, output_option("-v", "--verbose", help="Show all that is known of each run.")
    ] = False,
    json: Json = False,
) -> None:
    """List the runs on the hosts. It does not matter which machine started them.

    STEP and LOSS are the last ones that the run printed. In a project's folder, ended runs of other
    projects are only counted, but --json lists them.

    Examples:
      ipexctl ps
      ipexctl ps --all -f hosts                # include runs that have ended
      ipexctl ps --state failed --since 12h    # what failed last night
    """
    from ipexctl.run.jobs.ps import list_runs

    every = every or every_project
    listing = list_runs(target, root, every=every, states=state, since=since)

    from ipexctl.run.command.ps_text import runs_document, show_runs

    filtered = bool(state or since)
    show = partial(
        show_runs, every=every, every_project=every_project, filtered=filtered, verbose=verbose
    )
    end_command(listing, runs_document, show, json=json)


@command("Runs", 20, habits="resume reattach")
@on_hosts(names=False)
def attach(
    run: NewestRun = "@last",
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    ui: Ui = "auto",
    no_fold: NoFold = False,
    verbose: Verbose = False,
    json: JsonLines = False,
) -> None:
    r"""Show a run live, from any machine.

    It shows what the command that started the run shows: all output, then the summary.

    Ctrl-C stops the run; Ctrl-\ leaves it running.

    Examples:
      ipexctl attach                           # your newest run here
      ipexctl attach bert -f hosts             # a run by its name
    """
    import signal

    from ipexctl.run.command.cli import end_command_at_once
    from ipexctl.run.command.views import make_view
    from ipexctl.run.follow_attempts import attach_and_follow
    from ipexctl.run.watch.run_watchers import count_interrupts

    view = make_view("json" if json else ui, fold=not no_fold, verbose=verbose)
    with count_interrupts(partial(end_command_at_once, view), lives_on=True) as interrupts:
        interrupts.leaving = (*interrupts.leaving, signal.SIGTERM)
        result = attach_and_follow(target, run, view, interrupts, root)
    raise typer.Exit(result.exit_code)


@command("Runs", 30, interrupted="the run is not affected")
@on_hosts(names=False, follows=True)
def logs(
    run: NewestRun = "@last",
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Follow the output until the run ends.")
    ] = False,
    ranks: Ranks = "",
    lines: Annotated[
        int | None,
        output_option(
            "-n",
            "--lines",
            metavar="N",
            min=0,
            show_default=False,
            help="Show only the last N lines of each rank.",
        ),
    ] = None,
    since: Annotated[
        float | None,
        output_option(
            "--since",
            metavar="TIME",
            parser=FROM_ZERO,
            help="Show only output from the last 90s, 10m, 2h or 1d.",
        ),
    ] = None,
    no_fold: NoFold = False,
    json: JsonLines = False,
) -> None:
    """Show the output of a run's ranks. Works during the run and after it.

    With --follow in a terminal, identical lines are folded and a status line shows progress.

    Examples:
      ipexctl logs                             # your newest run here
      ipexctl logs bert --follow --ranks 0
      ipexctl logs bert -n 20 --since 10m
    """
    from ipexctl.run.command import logs_text
    from ipexctl.run.jobs.logs import Wanted
    from ipexctl.run.jobs.logs import show_logs as verb
    from ipexctl.run.outcome.line_filter import rank_set
    from ipexctl.terminal.console import stdout_console

    chosen = tuple(sorted(rank_set(ranks))) if ranks else ()
    request = Wanted(run, chosen, lines, since, follow)
    if follow and not json and len(chosen) != 1 and stdout_console().is_interactive:
        view = logs_text.FollowView(fold=not no_fold, ranks=len(chosen))
        noticed = logs_text.Noticed(view.show)
        try:
            read = verb(target, request, noticed.show, root, view.show_bar)
        finally:
            view.rest()
    else:
        show = logs_text.json_lines if json else logs_text.plain_line_writer(alone=len(chosen) == 1)
        noticed = logs_text.Noticed(show)
        read = verb(target, request, noticed.show, root)
    logs_text.show_missing(read, printed=noticed.any)
    raise typer.Exit(read.exit_code)


@command("Runs", 50)
@on_hosts(names=False)
def why(
    run: NewestRun = "@last",
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    stacks: Annotated[
        bool,
        typer.Option("--stacks", help="Also print the Python stacks of all threads and children."),
    ] = False,
    json: Json = False,
) -> None:
    """Show which rank a run waits for, and where. It names rank, host, file, line and collective.

    Of a run that makes progress, or made some until its end: what its steps wait for, and what
    would shorten them. Works during the run and after it. Exits with 1 if the run is stalled or
    what its ranks do is not known, else with 0.

    Examples:
      ipexctl why bert                        # which rank hangs, or is slow
      ipexctl why @last --json
    """
    from ipexctl.run.command.why_text import show_why, why_document
    from ipexctl.run.jobs.why import explain_run_state as verb

    document, show = partial(why_document, stacks=stacks), partial(show_why, stacks=stacks)
    end_command(verb(target, run, root), document, show, json=json)


@command("Runs", 90)
@on_hosts(names=False)
def checkpoints(
    run: NewestRun = "@last",
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    json: Json = False,
) -> None:
    """List the checkpoints of a run that its hosts hold. It shows which are complete, and where.

    Examples:
      ipexctl checkpoints bert
      ipexctl checkpoints @last --json
    """
    from ipexctl.run.checkpoints.fetch_checkpoints import list_checkpoints
    from ipexctl.run.command.ps_text import checkpoints_document, show_checkpoints

    end_command(
        list_checkpoints(target, run, root), checkpoints_document, show_checkpoints, json=json
    )


@command("Runs", 80, habits="cp download")
@on_hosts(names=False)
def fetch(
    run: RunName,
    patterns: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="GLOB...", help="Files or folders, relative to the ranks' working directory."
        ),
    ] = None,
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    checkpoint: Annotated[
        str,
        typer.Option(
            "--checkpoint",
            metavar="NAME",
            show_default=False,
            help="A complete checkpoint instead, from any host that holds it; or `last`.",
        ),
    ] = "",
    dest: Annotated[Path | None, declare_option(RunOptions, "dest")] = None,
    merge: Annotated[bool, declare_option(RunOptions, "merge")] = False,
    fetch_limit: Annotated[int, declare_option(RunOptions, "fetch_limit")] = 100,
    json: Json = False,
) -> None:
    """Fetch files that a run's ranks wrote. Works during the run and after it.

    Examples:
      ipexctl fetch bert 'out/*.pt'
      ipexctl fetch @last checkpoints --merge
      ipexctl fetch bert --checkpoint last -o ckpt
    """
    from ipexctl.run.command import ps_text
    from ipexctl.run.jobs.fetch import check_asked
    from ipexctl.run.jobs.fetch import fetch_files as verb

    check_asked(run, patterns or (), checkpoint)
    if checkpoint:
        from ipexctl.run.checkpoints.fetch_checkpoints import fetch_checkpoint

        limit = fetch_limit << 30
        checkpoint_report = fetch_checkpoint(target, run, checkpoint, limit, root, dest=dest)
        end_command(checkpoint_report, ps_text.copy_document, ps_text.show_copy, json=json)
    report = verb(target, run, patterns or (), fetch_limit << 30, root, merge=merge, dest=dest)
    end_command(report, ps_text.fetched_document, ps_text.show_fetched, json=json)


@command(
    "Runs",
    100,
    habits="kill cancel scancel",
    interrupted="the run may still be stopping: ipexctl ps",
)
@on_hosts(names=False)
def stop(
    run: RunName,
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    seconds: Annotated[
        float,
        typer.Option(
            "-t",
            "--time",
            metavar="TIME",
            parser=FROM_ZERO,
            show_default=False,
            help="Time allowed for ranks to end before they are killed (default: 10s).",
        ),
    ] = 10,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Stop a run. Its ranks get SIGINT, and those that remain are killed.

    It asks first if the run is of another person or another project.

    Examples:
      ipexctl stop bert
      ipexctl stop @last --time 2m             # time to save a checkpoint
    """
    from ipexctl.run.command.ps_text import asked_run_document, show_stopped
    from ipexctl.run.jobs.ps import stop_run as verb
    from ipexctl.run.outcome.run_choice import describe_foreign
    from ipexctl.terminal.confirm import stop_agreed

    ask = stop_agreed(describe_foreign, lambda found: (run, found.id, "--yes"))
    agreed = _answer_yes(run) if yes else ask
    stopped = verb(target, run, seconds, root, agreed)
    end_command(stopped, asked_run_document, show_stopped, json=json)


@command("Runs", 110, interrupted="the run continues")
@on_hosts(names=False)
def wait(
    run: NewestRun = "@last",
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    json: Json = False,
) -> None:
    """Wait until a run ends, and exit with its exit code.

    Examples:
      ipexctl wait bert
      ipexctl wait bert && ipexctl fetch bert out
    """
    from ipexctl.run.command.ps_text import show_waited, waited_document
    from ipexctl.run.jobs.wait import wait_for_run as verb

    end_command(verb(target, run, root), waited_document, show_waited, json=json)


@command("Runs", 120, habits="delete")
@on_hosts(names=False)
def rm(
    run: RunName,
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    check: Check = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Remove a run that has ended from its hosts. Its logs and results are removed, too.

    Examples:
      ipexctl rm bert --check
      ipexctl rm @last --yes
    """
    from ipexctl.run.command.ps_text import removed_document, show_removal, show_removed
    from ipexctl.run.jobs.ps import remove_run
    from ipexctl.terminal.confirm import removal_agreed

    by_id = removal_agreed(show_removal, yes=False, words=lambda found: (run, found.id, "--yes"))
    agreed = _answer_yes(run, removes=True) if yes else by_id
    report = remove_run(target, run, None if check else agreed, root)
    end_command(report, removed_document, show_removed, json=json)


@command("Runs", 40, interrupted="the run is not affected")
@on_hosts(names=False)
def metrics(
    run: NewestRun = "@last",
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    ranks: Ranks = "",
    csv: Annotated[bool, output_option("--csv", help="Print one line per step, as CSV.")] = False,
    json: Json = False,
) -> None:
    """Show steps, losses and rates from a run's output.

    Examples:
      ipexctl metrics                          # your newest run here
      ipexctl metrics bert --ranks 0 --csv > bert.csv
    """
    from ipexctl.run.command.metrics_text import metrics_document, show_metrics, write_csv
    from ipexctl.run.jobs.metrics import read_metrics as verb
    from ipexctl.run.outcome.line_filter import rank_set

    chosen = tuple(sorted(rank_set(ranks))) if ranks else ()
    values = verb(target, run, chosen, root)
    end_command(values, metrics_document, write_csv if csv else show_metrics, json=json)
