"""Write a page to a file, but never over a file that is not such a page."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

from ipexctl.base.sizes import format_bytes
from ipexctl.common.files import write_atomic
from ipexctl.errors import InputError, reason_of
from ipexctl.pages.page_shell import generator_tag
from ipexctl.terminal.console import print_text, stderr_console

SEEN = 2000  # bytes at the start that contain the mark


def page_styles() -> str:
    return files("ipexctl").joinpath("pages/page.css").read_text("utf-8")


def free_place(path: Path, command: str, option: str) -> Path:
    """Refuse a path before the hosts are asked. A page of the same command may be replaced."""
    if not path.parent.is_dir():
        raise InputError(
            f"{option} {path}: there is no folder {path.parent}", slug="report-folder-missing"
        )
    if os.path.lexists(path) and not _is_page(path, command):
        raise InputError(
            f"{path} is there already, and is not a report of ipexctl {command}",
            hint=f"{option} FILE",
            slug="report-file-exists",
        )
    return path


def check_html(to: str, command: str, *, other: bool) -> None:
    """Check --html before the hosts are asked. `other`: stdout has another format."""
    if to == "-" and other:
        raise InputError(
            "--html - cannot be combined with another output format",
            hint="--html FILE",
            slug="options-conflict",
        )
    if to not in ("", "-"):
        free_place(Path(to), command, "--html")


def put_page(html: str, to: str) -> None:
    """Write the page to `to`: a writable file, or "-" for stdout."""
    if to == "-":
        sys.stdout.write(html)
        return
    write_page(Path(to), html)
    print_text(stderr_console(), f"{to}  {format_bytes(len(html.encode()))}")


def _is_page(path: Path, command: str) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with suppress(OSError), path.open("rb") as file:
        return generator_tag(command).encode() in file.read(SEEN)
    return False


def write_page(path: Path, html: str) -> None:
    try:
        write_atomic(path, html, mode=0o600)
    except OSError as e:
        raise InputError(
            f"cannot write {path}", why=reason_of(e), slug="report-not-written"
        ) from None
