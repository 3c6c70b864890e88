"""Wrap lines between words, with a hanging indent, and never inside a command to copy."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ipexctl.base.shell_line import PROGRAMS

_WORDS = re.compile(r"( *)(\S+)")
_QUOTE = re.compile(r"(?<!\w)'|'(?!\w)")  # not the apostrophe in "script's"
# A clause that begins with one of these is a command.
_COMMANDS = frozenset(
    {"ipexctl", "ssh", "ssh-add", "ssh-copy-id", "ssh-keygen", "scp", "sudo", "su", "git", "curl"}
    | {"printf", "sed", "cd"}
    | {"getent", "ping", "export", "unset", "echo", "cat", "head", "tail", "grep", "ls", "df", "du"}
    | {"cp", "mv", "rm", "mkdir", "chmod", "chown", "mount", "umount", "ulimit", "sysctl", "iconv"}
    | {"python", "python3", "pip", "conda", "module", "uv", "docker", "systemctl", "journalctl"}
    | {"ip", "ss", "nft", "iptables", "numactl", "taskset", "lscpu", "free", "ps", "kill", "env"}
    | {"mpirun", "torchrun", "srun", "sbatch", "scontrol", "sinfo", "dmesg", "last", "file", "ldd"}
)
# What follows one of these is pasted: it is whole, up to a comment.
_LABELS = frozenset({"try:", "fix:", "fix", "again:", "next:"})
_BEFORE = frozenset({"or", "and", "then", "with", "use", "run", "try", "type", "#"})


def wrap_text(text: str, width: int, indent: str = "  ") -> list[str]:
    """Return `text` in lines of at most `width` characters, unless a word or command is longer.
    Where a comment of a command goes on, its lines begin with # too."""
    lines, line = [], ""
    for gap, unit in _unbreakable_units(text):
        column = len(line) + len(gap)
        if line.strip() and column > len(indent) and column + len(unit) > width:
            lines.append(line)
            line = indent + unit
        else:
            line += gap + unit
        if unit.startswith("# ") and not indent.endswith("# "):
            indent += "# "
    return [*lines, line]


def _unbreakable_units(text: str) -> Iterator[tuple[str, str]]:
    """Yield pieces that are kept on one line, each with the blanks before it."""
    gap, unit, kind, previous = "", "", "", ":"
    for blanks, word in _WORDS.findall(text):
        goes_on = bool(kind) and len(blanks) < 3 and word != "#"
        if goes_on or unit == "#":
            unit += blanks + word
        else:
            if unit:
                yield gap, unit
            gap, unit = blanks, word
        if not goes_on:
            kind = _unit_kind(word, previous, len(blanks) > 2)
        if kind == "option" and goes_on:
            kind = ""
        if kind == "`" and word.count("`") % 2 == goes_on:
            kind = ""
        quoted = len(_QUOTE.findall(unit)) % 2 or unit.count('"') % 2
        if (
            kind
            and kind not in ("`", "line")
            and word.endswith((";", ",", ":", ")"))
            and not quoted
        ):
            kind = ""
        previous = word
    yield gap, unit


def _unit_kind(word: str, previous: str, apart: bool) -> str:
    """Return the kind of piece that this word begins: line to paste, command, option, quotation or
    ""."""
    if word.startswith(("`", "(`")):
        return "" if word.count("`") > 1 else "`"
    name = word.lstrip("(")
    if previous in _LABELS and name in _COMMANDS | PROGRAMS:
        return "line"
    starts = apart or previous in _BEFORE or previous.endswith((":", ";", ",")) or word != name
    if name == "ipexctl" or (starts and name in _COMMANDS):
        return "command"
    return "option" if re.match(r"--?[A-Za-z]", name) else ""
