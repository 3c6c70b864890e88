"""Decode the bytes of a hostfile, play or configuration file."""

from __future__ import annotations

from ipexctl.base.quoting import quote
from ipexctl.errors import InputError


def decode_text(data: bytes, source: str) -> str:
    """Decode UTF-8, with or without a byte order mark. Raises InputError for anything else."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        file, new = quote((source,)), quote((f"{source}.utf8",))
        raise InputError(
            f"cannot read {source}: line {line}: byte 0x{data[e.start]:02x} is not UTF-8",
            why="the file is probably in Windows-1252, or in UTF-16 as PowerShell's > writes it",
            hint=f"iconv -f WINDOWS-1252 -t UTF-8 {file} > {new}   # or -f UTF-16",
            slug="not-utf8",
        ) from None
    if (position := text.find("\0")) >= 0:
        line = text.count("\n", 0, position) + 1
        raise InputError(
            f"cannot read {source}: line {line} has a NUL byte, so this is not a text file",
            hint="save it as UTF-8 text",
            slug="nul-character",
        )
    return text
