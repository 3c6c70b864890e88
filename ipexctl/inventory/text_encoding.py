"""The bytes of a hostfile -> text, or a message that names the encoding they are in."""

from __future__ import annotations

from ipexctl.base.quoting import quote
from ipexctl.errors import InputError

_MARKS = (  # the longer ones first: a UTF-32 mark begins like one of UTF-16
    (b"\xff\xfe\0\0", "UTF-32"),
    (b"\0\0\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
_SAMPLE = 4096


def decode(data: bytes, source: str) -> str:
    """UTF-8, with or without its mark. Raises InputError for anything else."""
    if encoding := _wide(data):
        raise InputError(
            f"cannot read {source}: its encoding is {encoding}, not UTF-8",
            why="editors and PowerShell's > on Windows write UTF-16 unless told otherwise",
            hint=_convert(encoding, source),
            slug="not-utf8",
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        raise InputError(
            f"cannot read {source}: line {line}: byte 0x{data[e.start]:02x} is not UTF-8",
            why="the file is probably in Latin-1 (ISO-8859-1) or Windows-1252",
            hint=_convert("WINDOWS-1252", source),
            slug="not-utf8",
        ) from None
    if (at := text.find("\0")) >= 0:
        line = text.count("\n", 0, at) + 1
        raise InputError(
            f"cannot read {source}: line {line} has a NUL byte, so this is not a text file",
            hint="use a text file",
            slug="nul-character",
        )
    return text


def _wide(data: bytes) -> str:
    """The encoding with two or four bytes per character that this is in, or ""."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            return name
    sample = data[:_SAMPLE]
    zeros = [sample[i::2].count(0) > 0.7 * len(sample[i::2]) for i in (0, 1)]
    if zeros == [True, False]:
        return "UTF-16BE"
    return "UTF-16LE" if zeros == [False, True] else ""


def _convert(encoding: str, source: str) -> str:
    return f"iconv -f {encoding} -t UTF-8 {quote((source,))} > {quote((f'{source}.utf8',))}"
