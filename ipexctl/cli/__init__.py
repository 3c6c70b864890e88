"""Typer code only: options -> request value -> verb -> renderer -> exit code.

Each room has its `cli.py`, where lazy_group.py finds its commands; this is every way to exit.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ipexctl import __version__
from ipexctl.cli import streams
from ipexctl.cli.help_layout import EVERYTHING
from ipexctl.cli.lazy_group import LazyGroup, declaration_of, grouped_commands
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


class Root(LazyGroup):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args or ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        print(command_overview(), file=sys.stderr)
        raise typer.Exit(EXIT_INPUT)


PURPOSE = "Run PyTorch training on several Linux CPU machines that you reach over SSH."
FIRST = (
    ("init node1 node2", "write a hostfile for your hosts"),
    ("doctor", "check every host, and show how to fix what is wrong"),
    ("install", "install PyTorch and MPI on every host"),
    ("run train.py", "run a PyTorch script on every host"),
)
PRACTICE = "No hosts yet? `ipexctl lab up` starts three practice hosts on this machine."
MORE = "`ipexctl --help all` lists all commands, `ipexctl COMMAND --help` explains one."
HELP = ("--help", "-h")
EXAMPLES = """\
  ipexctl init node1 node2
  ipexctl doctor && ipexctl install
  ipexctl run -ppn 2 train.py --lr 0.1"""

app = typer.Typer(
    name="ipexctl",
    cls=Root,
    help=PURPOSE,
    epilog=EXAMPLES,
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
        settings = load_settings(note=print_note)
        hidden = {setting.key for setting in _unaccepted_settings(context, settings)}
        context.obj = {k: setting for k, setting in settings.items() if k not in hidden}
    except InputError:
        if not _asks_for_help():  # help must work even if ipexctl.toml is broken
            raise


def _asks_for_help() -> bool:
    return sys.argv[1:2] == ["help"] or any(word in HELP for word in sys.argv)


def _asks_for_json(args: list[str]) -> bool:
    """Detect --json for errors before Click parses the words; a script's own words do not count."""
    words = args[: args.index("--")] if "--" in args else args
    return "--json" in words and not declaration_of(args[0]).pasted


def _unaccepted_settings(
    context: typer.Context, settings: dict[str, Setting]
) -> tuple[Setting, ...]:
    """Return a project's settings that are not accepted, after asking if there is a terminal."""
    from ipexctl.local.accepted_settings import accept_proposal, find_proposal, is_accepted

    proposed = find_proposal(settings)
    if proposed is None or is_accepted(proposed):
        return ()
    interactive = declaration_of(context.invoked_subcommand or "").asks and not _asks_for_help()
    if interactive and not proposed.unreadable and sys.stdin.isatty() and sys.stderr.isatty():
        from ipexctl.terminal.confirm import ask_to_accept

        if ask_to_accept(proposed, sys.stdin):
            accept_proposal(proposed)
            return ()
    return proposed.settings


def main() -> None:
    """Run a command; every exit: a result's code, an explained error, an interrupt, or a bug."""
    streams.prepare_streams()
    restrict_umask()
    try:
        try:
            streams.errors_as_json = _asks_for_json(sys.argv[1:])
            _stand_somewhere()
            sys.argv[1:] = rewrite_args(sys.argv[1:], "pasted")
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


def rewrite_args(args: list[str], kind: str) -> list[str]:
    """Rewrite the words of a command as its declaration says: `pasted` or `spelled`."""
    rewrite = getattr(declaration_of(args[0]), kind) if args else None
    return list(rewrite(args)) if rewrite else args


def _read_launcher(words: list[str]) -> None:
    """Raise InputError if the words are a launcher's line that is refused; print nothing."""
    import io
    from contextlib import redirect_stderr

    with redirect_stderr(io.StringIO()):  # the note about what replaces the launcher
        rewrite_args(words, "pasted")


def _spell_for_click(args: list[str]) -> list[str]:
    """Rewrite words for Click: `help`, MPI's one-dash words, --ipex without a version."""
    if args[:1] == ["help"]:
        all_options = args[-1:] == [EVERYTHING]
        return [*args[1:-1], "--help", EVERYTHING] if all_options else [*args[1:], "--help"]
    if args == ["version"]:
        return ["--version"]
    return rewrite_args(args, "spelled")


def report_error(e: IpexctlError) -> None:
    """Print an error on stderr; with `--json` also on stdout for programs."""
    if e.slug == "script-not-given":
        from ipexctl.local.corrected_command import commands_with_script

        e.hint = "\n".join(commands_with_script(sys.argv[1:])) or e.hint
    if e.slug == "variable-not-set":
        from ipexctl.local.corrected_command import command_with_assignment

        e.hint = command_with_assignment(sys.argv[1:]) or e.hint
    if any(e.meant) or e.surplus:
        from ipexctl.local.corrected_command import add_corrected_command

        words = sys.argv[1:]
        has_script = bool(words) and declaration_of(words[0]).pasted is not None
        add_corrected_command(e, words, has_script=has_script, read=_read_launcher)
    with suppress(BrokenPipeError):
        _print_error(e)
        if streams.errors_as_json:
            import json

            print(json.dumps({"errors": [error.document() for error in (e, *e.others)]}))


def _print_error(e: IpexctlError) -> None:
    streams.print_error(e.what, e.why, e.hint)
    for other in e.others:
        _print_error(other)


def command_overview() -> str:
    """Return what `ipexctl` alone prints: the first commands, then where the others are."""
    import textwrap

    from ipexctl.cli.lazy_group import RARE

    (first, _), *groups = grouped_commands().items()
    others = [(title, [n for n in names if n not in RARE]) for title, names in groups]
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
