"""The page of a report: one HTML file that loads nothing else.

All data of a run is in a JSON block, and the scripts insert it as text.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

from ipexctl.pages.page_shell import frame_page
from ipexctl.quick_dataclass import dataclass
from ipexctl.report.sections import BODY, HEADER, PANELS, SECTIONS

# characters that could end the block, or be read as markup
_ESCAPED = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
WORDS = ("EMPTY", "HEADS", "MONO", "LABELS")  # of a section, for its script


@dataclass(frozen=True)
class Assets:
    """The files of assets/, and the scripts of sections."""

    styles: tuple[str, ...]
    scripts: tuple[str, ...]
    licence: str = ""  # of third-party scripts


def render_report_page(document: Mapping[str, Any], assets: Assets) -> str:
    title = f"{document['name'] or document['run']} · {document['state']} · ipexctl"
    licence = html.escape(assets.licence).replace("--", "- -")
    header = "".join(f'<div id="{name}"><div class="body"></div></div>\n' for name in HEADER)
    panels = "".join(_titled("div", name, part, ' class="panel"') for name, part in PANELS.items())
    sections = "".join(
        _titled("section", name, part, f' aria-labelledby="{name}-title"')
        for name, part in BODY.items()
        if not hasattr(part, "NEEDS") or document[part.NEEDS]
    )
    body = f"""<header>
{header}<div class="two top">
{panels}</div>
</header>
<noscript><p class="empty">This report needs JavaScript to show its data.</p></noscript>
<main>
{sections}</main>
<footer id="foot"><div class="body"></div></footer>
<script type="application/json" id="data">{embed_json(document)}</script>
<!-- uPlot: {licence} -->
"""
    return frame_page(title, body, command="report", styles=assets.styles, scripts=assets.scripts)


def _titled(tag: str, name: str, section: ModuleType, attributes: str) -> str:
    title = f'<h2 id="{name}-title">{section.TITLE}</h2>'
    return f'<{tag} id="{name}"{attributes}>{title}<div class="body"></div></{tag}>\n'


def join_scripts(page: str, sections: Iterable[str]) -> str:
    """Return one script. What the script of a section defines is unknown to the others."""
    scripts = "".join(f"{{\n{text}}}\n" for text in sections)
    words = {
        name: {key.lower(): vars(section)[key] for key in WORDS if key in vars(section)}
        for name, section in SECTIONS.items()
    }
    start = f"drawSections({embed_json(words)});"
    return f'"use strict";\n(() => {{\n{page}{scripts}{start}\n}})();\n'


def embed_json(document: Mapping[str, Any]) -> str:
    """Return JSON that cannot end the block that contains it."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace").decode().translate(_ESCAPED)
