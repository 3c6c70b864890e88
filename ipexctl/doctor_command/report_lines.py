"""Lines of the doctor's report: cut, wrapped, coloured."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from ipexctl.base.shell_line import shell_line
from ipexctl.base.wrapping import wrap_text
from ipexctl.facts.host_facts import plain
from ipexctl.inventory.hostfile_text import fold

STYLES = {
    "ok": "green",
    "warn": "yellow",
    "fail": "red",
    "failed": "red",
    "unreachable": "bright_red",
    "note": "cyan",
}


def fold_hosts(names: Sequence[str], limit: int | None) -> str:
    """Return names as node[01-14]; a list that stays too long is cut at a name and counted."""
    text = plain(fold(names), 1 << 20)
    if limit is None or cell_len(text) <= limit:
        return text
    end = f",… ({len(names)})"
    room = max(4, limit - len(end))
    cut = set_cell_size(text, room)
    comma = _last_comma(cut)
    return (cut[:comma] if comma > 0 else cut.rstrip()) + end


def _last_comma(text: str) -> int:
    """Return where the last complete name ends: the last comma outside brackets."""
    depth, last = 0, -1
    for index, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            last = index
    return last


def truncate_text(text: str, limit: int | None) -> str:
    text = plain(text)
    if limit is None or cell_len(text) <= limit:
        return text
    return set_cell_size(text, max(1, limit - 1)).rstrip() + "…"


def labelled_lines(label: str, text: str, width: int | None) -> list[Text]:
    """Return `  LABEL text`, wrapped with a hanging indent."""
    lines = []
    indent = f"  {label} "
    for line in text.splitlines() or [""]:
        for part in _wrap_line(plain(line), width, len(indent)):
            lines.append(Text(indent, "dim").append(part, "not dim"))
            indent = " " * len(indent)
    return lines


def command_lines(label: str, text: str, width: int | None = None) -> list[Text]:
    """Return commands to copy, each on a line of its own."""
    start = f"  {label} "
    lines = [start + shell_line(plain(line)) for line in text.splitlines() if line.strip()]
    if width is not None:
        lines = [part for line in lines for part in wrap_text(line, width, " " * len(start))]
    return [*map(Text, lines)]


def _wrap_line(text: str, width: int | None, indent: int) -> list[str]:
    if width is None or cell_len(text) + indent <= width:
        return [text]
    room = max(20, width - indent)
    return textwrap.wrap(text, room, break_on_hyphens=False) or [""]
