"""The page of a report: one HTML file that loads nothing else.

All data of a run is in a JSON block, and page.js inserts it as text.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from typing import Any

from ipexctl.pages.page_shell import frame_page
from ipexctl.quick_dataclass import dataclass

# characters that could end the block, or be read as markup
_ESCAPED = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
SECTIONS = (
    ("differences", "Differences"),
    ("metrics", "Metrics"),
    ("timeline", "Timeline"),
    ("ranks", "Ranks"),
    ("usage", "Hosts"),
    ("places", "Sockets, NUMA nodes and cores"),
    ("environment", "Environment"),
    ("variables", "Variables of the ranks"),
    ("checkpoints", "Checkpoints"),
    ("findings", "Preflight"),
)


@dataclass(frozen=True)
class Assets:
    """The files of assets/."""

    styles: tuple[str, ...]
    scripts: tuple[str, ...]
    licence: str = ""  # of third-party scripts


def render_report_page(document: Mapping[str, Any], assets: Assets) -> str:
    title = f"{document['name'] or document['run']} · {document['state']} · ipexctl"
    licence = html.escape(assets.licence).replace("--", "- -")
    sections = "".join(
        f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{words}</h2>'
        f'<div class="body"></div></section>\n'
        for name, words in SECTIONS
        if document[{"differences": "other", "metrics": "metrics"}.get(name, "run")]
    )
    body = f"""<header id="first"><div class="body"></div></header>
<noscript><p class="empty">This report needs JavaScript to show its data.</p></noscript>
<main>
{sections}</main>
<footer id="foot"><div class="body"></div></footer>
<script type="application/json" id="data">{embed_json(document)}</script>
<!-- uPlot: {licence} -->
"""
    return frame_page(title, body, command="report", styles=assets.styles, scripts=assets.scripts)


def embed_json(document: Mapping[str, Any]) -> str:
    """Return JSON that cannot end the block that contains it."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace").decode().translate(_ESCAPED)
