"""The options of `play`."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ipexctl.base.option import option
from ipexctl.base.quoting import quote
from ipexctl.cli.declared_command import command
from ipexctl.cli.options import Json, Root, on_hosts
from ipexctl.errors import InputError, reason_of
from ipexctl.play.text.play_options import PlayOptions
from ipexctl.quick_dataclass import dataclass

PLAYS = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PLAY...", help="Play files or names of shipped plays, in the order to run them."
    ),
]


@dataclass(frozen=True)
class CommandOptions:
    """Options of the command that the steps of a play do not need."""

    ask_sudo_pass: bool = option(
        "-K --ask-sudo-pass --ask-become-pass",
        "Ask once for the sudo password of all hosts.",
        False,
    )
    sudo_password_file: str = option(
        "--sudo-password-file --become-password-file FILE",
        "Read the sudo password from a file that only you can read.",
        "",
    )
    list_steps: bool = option(
        "--list-steps --list-tasks --syntax-check", "List the steps and exit.", False
    )
    list_modules: bool = option(
        "--list-modules", "List the kinds of steps, or explain those named.", False
    )


def _split_words(texts: list[str] | None) -> tuple[str, ...]:
    return tuple(word.strip() for text in texts or () for word in text.split(",") if word.strip())


def _read_pairs(pairs: list[str] | None) -> dict[str, str]:
    return dict(map(_read_pair, pairs or ()))


def _read_pair(text: str) -> tuple[str, str]:
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


@command("Plays", 10, interrupted="what ran on the hosts has ended; run the same command again")
@on_hosts(
    names=False, readers={"tags": _split_words, "skip_tags": _split_words, "extra": _read_pairs}
)
def play(
    plays: PLAYS = None,
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    options: PlayOptions,
    asked: CommandOptions,
    json: Json = False,
) -> None:
    """Run the steps of a play on every host.

    Examples:
      ipexctl play prepare-debian -f hosts --check --diff
      ipexctl play train.yaml -f hosts -e lr=0.3
      ipexctl play train.yaml --list-steps
    """
    from ipexctl.play.command import play_recap as ui
    from ipexctl.play.command.show_plays import show_plays
    from ipexctl.play.command.step_help import step_help
    from ipexctl.play.play import refuse_unknown
    from ipexctl.play.play_files import read_play_file
    from ipexctl.play.steps import all_steps
    from ipexctl.play.text.play_reader import read_play

    if asked.list_modules:
        print("\n".join(step_help(all_steps(), plays or ())))
        return
    if not plays:
        raise InputError("no play given", hint="ipexctl play FILE", slug="no-play-given")
    files = [read_play_file(word) for word in plays]
    parsed = [read_play(text, name, all_steps()) for text, name in files]
    if asked.list_steps:
        print("\n".join(line for item in parsed for line in ui.step_lines(item, options)))
        return
    refuse_unknown(options.extra, parsed, [text for text, _ in files])
    password = _read_sudo_password(asked.sudo_password_file, ask=asked.ask_sudo_pass)
    options = replace(options, root=root, password=password)
    typed = quote(("ipexctl", *(word for word in sys.argv[1:] if word != "--resume")))
    raise typer.Exit(show_plays(parsed, target, options, again=typed, json=json))


def _read_sudo_password(file: str, *, ask: bool) -> str:
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
    """Read the sudo password, without its newline, from a file that only its owner can read, or
    from a pipe. Raises InputError, whose text contains nothing of it."""
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
