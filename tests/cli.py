"""`ipexctl` as a user calls it, in this process: its streams, its environment, its exit code.

It starts in a third of a second less than a process does. What is about the process itself
(signals, closed streams, terminals) starts one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import typer.main

from ipexctl.cli import app, main, report_error
from ipexctl.errors import IpexctlError


def command_tree(command: Any = None, path: str = "") -> Iterator[tuple[str, Any]]:
    """All commands of Click by their paths: "", "run", "env", "env ls"."""
    command = command or typer.main.get_command(app)
    yield path, command
    for name in getattr(command, "commands", ()):
        yield from command_tree(command.get_command(None, name), f"{path} {name}".strip())


class Ended(subprocess.CompletedProcess[str]):
    """`errors`: those that the command explained on stderr, so that a test can ask for the slug."""

    errors: list[IpexctlError]

    @property
    def slug(self) -> str:
        """Of the error that ended the command; "" where none did."""
        return self.errors[0].slug if self.errors else ""


def ipexctl(
    *words: str, cwd: Path | None = None, env: Mapping[str, str] | None = None, given: bytes = b""
) -> Ended:
    """stdin holds `given`; nothing is a terminal."""
    errors: list[IpexctlError] = []
    with ExitStack() as stack:
        stack.enter_context(patch("ipexctl.cli.report_error", _noting(errors)))
        stack.enter_context(patch("ipexctl.cli.streams.errors_as_json", False))
        stdin, stdout, stderr = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        stdin.write(given)
        stdin.seek(0)
        with _place(cwd, os.environ if env is None else env), _streams(stdin, stdout, stderr):
            code = _main(words)
        texts = []
        for file in (stdout, stderr):
            file.seek(0)
            texts.append(file.read().decode())
    ended = Ended(["ipexctl", *words], code, *texts)
    ended.errors = errors
    return ended


def _noting(errors: list[IpexctlError]) -> Callable[[IpexctlError], None]:
    def noted(e: IpexctlError) -> None:
        errors.append(e)
        report_error(e)

    return noted


def _main(words: tuple[str, ...]) -> int:
    try:
        with patch("sys.argv", ["ipexctl", *words]):
            main()
    except SystemExit as e:
        return e.code if isinstance(e.code, int) else int(e.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


@contextmanager
def _place(cwd: Path | None, env: Mapping[str, str]) -> Iterator[None]:
    before = Path.cwd()
    with patch.dict(os.environ, dict(env), clear=True), patch("tempfile.tempdir", None):
        os.chdir(cwd or before)
        try:
            yield
        finally:
            os.chdir(before)


@contextmanager
def _streams(*files: object) -> Iterator[None]:
    stdin, stdout, stderr = (os.dup(file.fileno()) for file in files)  # type: ignore[attr-defined]
    with ExitStack() as stack:
        stack.enter_context(patch("sys.stdin", os.fdopen(stdin)))
        stack.enter_context(patch("sys.stdout", os.fdopen(stdout, "w", encoding="utf-8")))
        stack.enter_context(patch("sys.stderr", os.fdopen(stderr, "w", encoding="utf-8")))
        yield
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            stream.close()
