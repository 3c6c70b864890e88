"""The options of play."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ipexctl.base.quoting import quote
from ipexctl.cli.options import Json, Root, on_hosts
from ipexctl.errors import InputError, reason_of

PLAYS = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PLAY...", help="Play files or names of shipped plays, in the order to run them."
    ),
]


@on_hosts(names=False)
def play(
    plays: PLAYS = None,
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    tags: Annotated[
        list[str] | None,
        typer.Option("-t", "--tags", metavar="TAGS", help="Run only steps with these tags."),
    ] = None,
    skip_tags: Annotated[
        list[str] | None,
        typer.Option("--skip-tags", metavar="TAGS", help="Skip steps with these tags."),
    ] = None,
    extra: Annotated[
        list[str] | None,
        typer.Option("-e", "--extra", metavar="NAME=VALUE", help="Set a variable (repeatable)."),
    ] = None,
    check: Annotated[
        bool, typer.Option("-C", "--check", help="Show what would change; change nothing.")
    ] = False,
    diff: Annotated[
        bool, typer.Option("-D", "--diff", help="Show the changed lines in files.")
    ] = False,
    first: Annotated[
        str,
        typer.Option(
            "--from",
            "--start-at-task",
            metavar="STEP",
            help="Start at this step (name or number).",
        ),
    ] = "",
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Skip `sh` and `run` steps that are already done."),
    ] = False,
    ask_sudo_pass: Annotated[
        bool,
        typer.Option(
            "-K",
            "--ask-sudo-pass",
            "--ask-become-pass",
            help="Ask once for the sudo password of all hosts.",
        ),
    ] = False,
    sudo_password_file: Annotated[
        str,
        typer.Option(
            "--sudo-password-file",
            "--become-password-file",
            metavar="FILE",
            help="Read the sudo password from a file that only you can read.",
        ),
    ] = "",
    list_steps: Annotated[
        bool,
        typer.Option(
            "--list-steps",
            "--list-tasks",
            "--syntax-check",
            help="List the steps and exit.",
        ),
    ] = False,
    list_modules: Annotated[
        bool,
        typer.Option("--list-modules", help="List the kinds of steps, or explain those named."),
    ] = False,
    json: Json = False,
) -> None:
    """Run the steps of a play on every host."""
    from ipexctl.play.command import play_recap as ui
    from ipexctl.play.command.show_plays import show_plays
    from ipexctl.play.command.step_help import step_help
    from ipexctl.play.play import PlayOptions, refuse_unknown
    from ipexctl.play.play_files import read_play_file
    from ipexctl.play.steps import all_steps
    from ipexctl.play.text.play_reader import read_play
    from ipexctl.play.text.play_values import StepChoice

    if list_modules:
        print("\n".join(step_help(all_steps(), plays or ())))
        return
    if not plays:
        raise InputError("no play given", hint="ipexctl play FILE", slug="no-play-given")
    found = [read_play(*read_play_file(word), all_steps()) for word in plays]
    choice = StepChoice(_words(tags), _words(skip_tags), first)
    if list_steps:
        print("\n".join(line for one in found for line in ui.step_lines(one, choice)))
        return
    pairs = dict(map(_pair, extra or ()))
    refuse_unknown(pairs, found)
    options = PlayOptions(
        root=root,
        check=check,
        diff=diff,
        choice=choice,
        extra=pairs,
        password=_password(sudo_password_file, ask=ask_sudo_pass),
        resume=resume,
    )
    typed = quote(("ipexctl", *(word for word in sys.argv[1:] if word != "--resume")))
    raise typer.Exit(show_plays(found, target, options, again=typed, json=json))


def _words(given: list[str] | None) -> tuple[str, ...]:
    return tuple(word.strip() for text in given or () for word in text.split(",") if word.strip())


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if text.startswith("@"):
        why = "variable files are not supported"
        raise InputError(
            f"-e {text}: expected NAME=VALUE",
            why=why,
            hint="set them under vars in the play, or as host variables in the inventory",
            slug="variable-syntax",
        )
    if not sign or not name.isidentifier():
        why = "JSON is not read" if text.startswith("{") else ""
        raise InputError(
            f"-e {text}: expected NAME=VALUE",
            why=why,
            hint="-e lr=0.1 -e n=16",
            slug="variable-syntax",
        )
    return name, value


def _password(file: str, *, ask: bool) -> str:
    import getpass

    if file and ask:
        raise InputError(
            "--ask-sudo-pass and --sudo-password-file cannot be combined", slug="options-conflict"
        )
    if file or not ask:
        return _read_password(file) if file else ""
    if not sys.stdin.isatty():
        what = "cannot ask for the sudo password: stdin is not a terminal"
        raise InputError(what, hint="--sudo-password-file FILE", slug="no-terminal")
    return getpass.getpass("sudo password: ")


_LONGEST_PASSWORD = 4096


def _read_password(word: str) -> str:
    """The sudo password, from a file that only its owner can read, or from a pipe; without its
    newline. Raises InputError, which never has any of the content."""
    try:
        with Path(word).expanduser().open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = b"" if mode & 0o077 else file.read(_LONGEST_PASSWORD + 1)
        if mode & 0o077:
            what = f"--sudo-password-file {word}: other users may read or write this file"
            raise InputError(what, hint=f"chmod 600 {quote((word,))}", slug="password-file-unsafe")
        password = data.removesuffix(b"\n").removesuffix(b"\r").decode()
    except UnicodeDecodeError:
        raise InputError(
            f"--sudo-password-file {word}: the password is not UTF-8 text",
            slug="password-file-unreadable",
        ) from None
    except (OSError, RuntimeError) as e:
        raise InputError(
            f"--sudo-password-file: cannot read {word}",
            why=reason_of(e),
            slug="password-file-unreadable",
        ) from None
    if not password or len(data) > _LONGEST_PASSWORD or set(password) & set("\0\n"):
        why = "the file must contain only the password, on one line"
        raise InputError(
            f"--sudo-password-file {word}: expected a password",
            why=why,
            slug="password-file-invalid",
        )
    return password
