"""Turn text into markup: all text of hosts is escaped, and a page has no scripts."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from ipexctl import __version__
from ipexctl.facts.host_facts import plain


def escape_text(text: str) -> str:
    """Escape text and remove control characters; texts of hosts were cut when they were read."""
    return html.escape("\n".join(plain(line, 1 << 20) for line in text.splitlines()))


def html_tag(name: str, text: str, tone: str = "") -> str:
    kind = f' class="{tone}"' if tone else ""
    return f"<{name}{kind}>{escape_text(text)}</{name}>"


def html_paragraphs(texts: Iterable[str], tone: str = "") -> str:
    return "".join(html_tag("p", line, tone) for text in texts for line in text.splitlines())


def html_pre(text: str) -> str:
    return f'<pre tabindex="0">{escape_text(text)}</pre>' if text else ""


def html_table(label: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table. Cells of `rows` are markup."""
    top = "".join(f'<th scope="col">{escape_text(head)}</th>' for head in heads)
    lines = "".join(f"<tr>{''.join(map(_table_cell, heads, row))}</tr>\n" for row in rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape_text(label)}">'
        f'<table class="stack"><thead><tr>{top}</tr></thead>\n<tbody>{lines}</tbody></table></div>'
    )


def _table_cell(head: str, cell: str) -> str:
    return f'<td data-head="{escape_text(head)}">{cell}</td>' if cell else "<td></td>"


def html_main(sections: Iterable[tuple[str, str]], made: str) -> str:
    """Return title and body of each section that is not empty; then when it was `made`."""
    shown = "".join(
        f"<section>{html_tag('h2', t)}{body}</section>\n" for t, body in sections if body
    )
    foot = f"Made by ipexctl {__version__} on {made}. This file asks for nothing outside."
    return f"<main>\n{shown}</main>\n<footer>{html_tag('p', foot)}</footer>\n"
