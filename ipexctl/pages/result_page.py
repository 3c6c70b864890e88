"""The result of a measurement as one HTML file: an answer, tables, remarks."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ipexctl.pages.markup import escaped, main, paragraphs, pre, table, tag
from ipexctl.pages.page_file import page_styles
from ipexctl.pages.page_shell import shell
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class ResultPage:
    """`tables`: title, heads and rows of each. `file`: lines to put into a file."""

    command: str  # the one that writes it
    about: str  # as it was called
    tone: str  # good, warm, bad
    answer: Sequence[str]
    tables: Sequence[tuple[str, Sequence[str], Sequence[Sequence[str]]]]
    rest: Sequence[str] = ()
    file: str = ""

    def html(self) -> str:
        first, *more = self.answer
        head = tag("p", self.about, "id mono") + tag("h1", first, self.tone)
        found = [
            (title, table(title, heads, [[*map(escaped, row)] for row in rows]) if rows else "")
            for title, heads, rows in self.tables
        ]
        found += [("Remarks", paragraphs(self.rest)), ("Settings", pre(self.file))]
        body = f"<header>{head}{paragraphs(more)}</header>\n"
        body += main(found, time.strftime("%Y-%m-%d %H:%M"))
        title = f"{first} · ipexctl {self.command}"
        return shell(title, body, command=self.command, styles=[page_styles()])
