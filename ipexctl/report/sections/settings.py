"""The settings of a run: the arguments of its script, by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from ipexctl.report.material.report_material import Material

TITLE = "Settings"
HEADS = ("Argument", "Value")
MONO = (0, 1)
EMPTY = "The script was started without arguments."
_OPTION = re.compile(r"--?[A-Za-z]")  # -1e-4 is a value
_ASSIGNED = re.compile(r"((?:--?)?[+~]{0,2}[A-Za-z_][\w.@/-]*)=(.*)", re.S)


def section_document(material: Material) -> dict[str, Any]:
    return {"settings": read_arguments(split_script(material.last.argv)[1])}


def split_script(argv: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the words that name the script, and its arguments."""
    first = 2 if "-m" in argv[:1] else 1
    return argv[:first], argv[first:]


def read_arguments(words: Iterable[str]) -> list[list[str]]:
    """Return name and value of each argument. An option has the words up to the next one."""
    rows = list[list[str]]()
    takes_values = False
    for word in words:
        if assigned := _ASSIGNED.fullmatch(word):  # --lr=1e-4, model.lr=1e-4
            rows.append([assigned[1], assigned[2]])
            takes_values = False
        elif _OPTION.match(word):
            rows.append([word, ""])
            takes_values = True
        elif takes_values:
            rows[-1][1] = f"{rows[-1][1]} {word}".lstrip()
        elif word != "--":
            rows.append(["", word])
    return [[name or "(no name)", value or "(set)"] for name, value in rows]
