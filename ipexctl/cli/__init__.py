"""Typer code only: options -> request value -> verb -> renderer -> exit code.

Each room has its `cli.py`; this is the table of all commands, and every way to exit.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ipexctl import __version__
from ipexctl.cli import streams
from ipexctl.cli.lazy_group import CommandEntry, LazyGroup, found_at
from ipexctl.errors import (
    EXIT_BUG,
    EXIT_FAILED,
    EXIT_INPUT,
    EXIT_INTERRUPTED,
    EXIT_NO_READER,
    InputError,
    IpexctlError,
    NotHere,
    reason_of,
)
from ipexctl.local.environment import restrict_umask

if TYPE_CHECKING:
    from ipexctl.local.settings_file import Setting

START, HOSTS, STACK, RUNS, PLAYS, FILES = "Start here", "Hosts", "Stack", "Runs", "Plays", "Files"


class Root(LazyGroup):
    entries = {
        # in the order in which a new user needs them
        "init": CommandEntry(
            "hosts.cli:init", "Write a hostfile and ipexctl.toml in this folder.", START
        ),
        "doctor": CommandEntry(
            "doctor.command.cli:doctor",
            "Check every host for problems that break or slow down training.",
            START,
        ),
        "install": CommandEntry(
            "install.command.cli:install", "Install PyTorch and MPI on every host.", START
        ),
        "run": CommandEntry(
            "run.command.cli:run", "Run a PyTorch script on every host.", START, keeps_rest=True
        ),
        "hosts": CommandEntry(
            "hosts.cli:hosts",
            "List the hosts in a hostfile, or convert it to another format.",
            HOSTS,
        ),
        "trust": CommandEntry(
            "hosts.cli:trust", "Show the hosts' SSH keys and remember the ones you accept.", HOSTS
        ),
        "shell": CommandEntry(
            "shell.cli:shell", "Log in to a host with its environment active.", HOSTS
        ),
        "lab": CommandEntry(
            "lab.cli:lab_app", "Practice with real SSH hosts on this machine (Linux).", HOSTS
        ),
        "bench": CommandEntry(
            "bench.command.cli:bench_app",
            "Measure all_reduce between the hosts.",
            HOSTS,
        ),
        "stacks": CommandEntry(
            "install.command.cli:stacks",
            "Show the supported versions: which fit, and why others do not.",
            STACK,
        ),
        "bundle": CommandEntry(
            "install.command.cli:bundle",
            "Pack everything in ipexctl.lock into one file for offline hosts.",
            STACK,
        ),
        "env": CommandEntry("env.cli:env_app", "Manage the environments on the hosts.", STACK),
        "ps": CommandEntry("run.command.jobs_cli:ps", "List the runs on the hosts.", RUNS),
        "attach": CommandEntry(
            "run.command.jobs_cli:attach", "Show a run live, from any machine.", RUNS
        ),
        "logs": CommandEntry(
            "run.command.jobs_cli:logs", "Show the output of a run's ranks.", RUNS
        ),
        "metrics": CommandEntry(
            "run.command.jobs_cli:metrics",
            "Show steps, losses and rates from a run's output.",
            RUNS,
        ),
        "why": CommandEntry(
            "run.command.jobs_cli:why", "Show which rank a run waits for, and where.", RUNS
        ),
        "report": CommandEntry(
            "report.cli:report", "Write a report of a run as one HTML file.", RUNS
        ),
        "tune": CommandEntry(
            "tune.command.cli:tune",
            "Find the settings with which a script trains fastest.",
            RUNS,
            keeps_rest=True,
        ),
        "fetch": CommandEntry(
            "run.command.jobs_cli:fetch", "Fetch files that a run's ranks wrote.", RUNS
        ),
        "checkpoints": CommandEntry(
            "run.command.jobs_cli:checkpoints",
            "List the checkpoints of a run that its hosts hold.",
            RUNS,
        ),
        "stop": CommandEntry("run.command.jobs_cli:stop", "Stop a run.", RUNS),
        "wait": CommandEntry(
            "run.command.jobs_cli:wait", "Wait until a run ends, and exit with its exit code.", RUNS
        ),
        "rm": CommandEntry(
            "run.command.jobs_cli:rm", "Remove a run that has ended from its hosts.", RUNS
        ),
        "play": CommandEntry(
            "play.command.cli:play", "Run the steps of a play on every host.", PLAYS
        ),
        "data": CommandEntry(
            "data.cli:data_app", "Manage datasets and caches that stay on the hosts.", FILES
        ),
        "prune": CommandEntry(
            "remove.cli:prune", "Remove old runs, project copies and caches.", FILES
        ),
        "remove": CommandEntry(
            "remove.cli:remove", "Remove everything that ipexctl put on the hosts.", FILES
        ),
        "explain": CommandEntry(
            "explain.cli:explain", "Explain a check, a known failure, or an error log."
        ),
        "migrate": CommandEntry(
            "migrate.cli:migrate",
            "Find uses of the discontinued Intel stack in files.",
            keeps_rest=True,
        ),
        "support": CommandEntry(
            "support.cli:support", "Write a redacted support bundle into this folder."
        ),
        "config": CommandEntry(
            "hosts.cli:config", "Show the settings and where each one comes from."
        ),
        "schema": CommandEntry(
            "schema.cli:schema", "Print the lines that enable completion in editors."
        ),
    }

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args or ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        print(command_overview(self.groups()), file=sys.stderr)
        raise typer.Exit(EXIT_INPUT)


PURPOSE = "Run PyTorch training on several Linux CPU machines that you reach over SSH."
FIRST = (
    ("init node1 node2", "write a hostfile for your hosts"),
    ("doctor", "check every host, and show how to fix what is wrong"),
    ("install", "install PyTorch and MPI on every host"),
    ("run train.py", "run a PyTorch script on every host"),
)
PRACTICE = "No hosts yet? `ipexctl lab up` starts three practice hosts on this machine."
MORE = "`ipexctl --help` lists all commands, `ipexctl COMMAND --help` explains one."
HELP = ("--help", "-h")
_ASKING = frozenset(Root.entries) - {
    "explain", "init", "config", "schema", "stacks", "bundle", "lab", "migrate",
}  # fmt: skip

app = typer.Typer(
    name="ipexctl",
    cls=Root,
    help=PURPOSE,
    context_settings={"help_option_names": list(HELP)},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _show_version(value: bool) -> None:
    if value:
        print(f"ipexctl {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    from ipexctl.cli.options import print_note
    from ipexctl.local.project_lock import nearest_lock
    from ipexctl.local.settings import load_settings

    nearest_lock(Path.cwd(), print_note)
    try:
        found = load_settings(note=print_note)
        hidden = {s.key for s in _unaccepted_settings(context, found)}
        context.obj = {k: s for k, s in found.items() if k not in hidden}
    except InputError:
        if not _asks_for_help():  # help must work even if ipexctl.toml is broken
            raise


def _asks_for_help() -> bool:
    return any(word in HELP for word in sys.argv)


def _asks_for_json(args: list[str]) -> bool:
    """Detect --json for errors before Click parses the words; a script's own words do not count."""
    own = args[: args.index("--")] if "--" in args else args
    return "--json" in own and args[0] not in _PASTED


def _unaccepted_settings(
    context: typer.Context, settings: dict[str, Setting]
) -> tuple[Setting, ...]:
    """Return a project's settings that are not accepted, after asking if there is a terminal."""
    from ipexctl.local.accepted_settings import accept_proposal, find_proposal, is_accepted

    proposed = find_proposal(settings)
    if proposed is None or is_accepted(proposed):
        return ()
    asks = context.invoked_subcommand in _ASKING and not _asks_for_help()
    if asks and not proposed.unreadable and sys.stdin.isatty() and sys.stderr.isatty():
        from ipexctl.terminal.confirm import ask_to_accept

        if ask_to_accept(proposed, sys.stdin):
            accept_proposal(proposed)
            return ()
    return proposed.settings


def main() -> None:
    """Run a command; every exit: a result's code, an explained error, an interrupt, or a bug."""
    streams.prepare_streams()
    restrict_umask()
    streams.errors_as_json = _asks_for_json(sys.argv[1:])
    try:
        try:
            _stand_somewhere()
            sys.argv[1:] = _rewrite_args(sys.argv[1:], _PASTED)  # a pasted line
            app(args=_spell_for_click(sys.argv[1:]), prog_name="ipexctl", standalone_mode=True)
        finally:
            sys.stdout.flush()
    except SystemExit as e:
        sys.exit(EXIT_NO_READER if streams.has_no_reader(e) else e.code)
    except IpexctlError as e:
        report_error(e)
        sys.exit(e.exit_code)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except Exception as e:
        if streams.has_no_reader(e):
            sys.exit(EXIT_NO_READER)
        if trouble := streams.stdout_trouble(e):
            report_error(IpexctlError(f"stdout: {trouble.strerror}", slug="stdout-failed"))
            sys.exit(EXIT_FAILED)
        if isinstance(e, OSError) and e.filename is not None:
            # a full disk, a folder without access
            report_error(NotHere(f"{e.filename}: {e.strerror or e}", slug="file-failed"))
            sys.exit(NotHere.exit_code)
        import traceback

        traceback.print_exc()
        print("\nThis is a bug in ipexctl, not in your setup.", file=sys.stderr)
        sys.exit(EXIT_BUG)


def _stand_somewhere() -> None:
    try:
        Path.cwd()
    except FileNotFoundError:
        raise InputError(
            "the current folder no longer exists", hint="cd   # to another one", slug="folder-gone"
        ) from None
    except OSError as e:
        raise InputError(
            "cannot read the current folder", why=reason_of(e), slug="folder-unreadable"
        ) from None


# functions that rewrite the words of a command before Click reads them
_PASTED = {
    "run": "run.command.command_line_words:without_launcher",
    "tune": "run.command.command_line_words:without_launcher",
}
_SPELLED = {
    "run": "run.command.command_line_words:for_click",
    "tune": "run.command.command_line_words:for_click",
    "install": "install.command.cli:bare_ipex",
    "stacks": "install.command.cli:bare_ipex",
    "bundle": "install.command.cli:bare_ipex",
}


def _rewrite_args(args: list[str], by: dict[str, str]) -> list[str]:
    place = by.get(args[0]) if args else None
    return list(found_at(place)(args)) if place else args


def _spell_for_click(args: list[str]) -> list[str]:
    """Rewrite words for Click: `help`, MPI's one-dash words, --ipex without a version."""
    if args[:1] == ["help"]:
        return [*args[1:], "--help"]
    if args == ["version"]:
        return ["--version"]
    return _rewrite_args(args, _SPELLED)


def report_error(e: IpexctlError) -> None:
    """Print an error on stderr; with `--json` also on stdout for programs."""
    with suppress(BrokenPipeError):
        _print_error(e)
        if streams.errors_as_json:
            import json

            print(json.dumps({"errors": [each.document() for each in (e, *e.others)]}))


def _print_error(e: IpexctlError) -> None:
    streams.print_error(e.what, e.why, e.hint)
    for other in e.others:
        _print_error(other)


def command_overview(groups: Mapping[str, Iterable[str]]) -> str:
    """Return what `ipexctl` alone prints: the first commands, then where the others are."""
    import textwrap

    (first, _), *others = groups.items()
    return "\n".join(
        [
            PURPOSE,
            "",
            f"{first}:",
            *(f"  ipexctl {words:<18} {text}" for words, text in FIRST),
            "",
            PRACTICE,
            "",
            "Other commands:",
            *(
                textwrap.fill(f"  {title:<8} {', '.join(names)}", 80, subsequent_indent=" " * 11)
                for title, names in others
            ),
            "",
            MORE,
        ]
    )
