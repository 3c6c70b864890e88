"""The pages of reports, of one run and of many: HTML files that load nothing else.

All data of runs is in a JSON block, and the scripts insert it as text.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from ipexctl.pages.page_shell import frame_page
from ipexctl.report.sections import BODY, HEADER, PANELS, SECTIONS

# characters that could end the block, or be read as markup
_ESCAPED = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
WORDS = ("EMPTY", "HEADS", "MONO", "LABELS")  # of a section, for its script
Assets = Mapping[str, str]  # styles and scripts, by the names of their files


def render_report_page(document: Mapping[str, Any], assets: Assets) -> str:
    title = f"{document['name'] or document['run']} · {document['state']} · ipexctl"
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
"""
    # what the script of a section defines is unknown to the others
    scripts = [f"{{\n{assets[f'{name}.js']}}}\n" for name in SECTIONS if f"{name}.js" in assets]
    words = {
        name: {key.lower(): vars(section)[key] for key in WORDS if key in vars(section)}
        for name, section in SECTIONS.items()
    }
    script = "".join([*scripts, f"drawSections({embed_json(words)});"])
    return _frame_document(title, body, document, script, assets)


def render_runs_page(document: Mapping[str, Any], assets: Assets) -> str:
    """Return the page of many runs."""
    title = f"{document['project'] or 'Runs'} · {len(document['runs'])} runs · ipexctl"
    names = ("head", "table", "settings", "curves", "pair", "foot")
    boxes = "".join(f'<section id="{name}"><div class="body"></div></section>\n' for name in names)
    body = f"<noscript><p>This page needs JavaScript to show its data.</p></noscript>\n{boxes}"
    return _frame_document(title, body, document, assets["runs.js"], assets, ["runs.css"])


def _frame_document(
    title: str,
    body: str,
    document: Mapping[str, Any],
    script: str,
    assets: Assets,
    more_styles: Sequence[str] = (),
) -> str:
    """Return the page whose script draws what is in the document."""
    licence = html.escape(assets["uplot-license.txt"]).replace("--", "- -")
    data = f'<script type="application/json" id="data">{embed_json(document)}</script>'
    return frame_page(
        title,
        f"{body}{data}\n<!-- uPlot: {licence} -->\n",
        command="report",
        styles=[assets[name] for name in ("uplot.min.css", "page.css", *more_styles)],
        scripts=[
            assets["uplot.min.js"],
            f'"use strict";\n(() => {{\n{assets["page.js"]}{script}\n}})();\n',
        ],
    )


def _titled(tag: str, name: str, section: ModuleType, attributes: str) -> str:
    title = f'<h2 id="{name}-title">{section.TITLE}</h2>'
    return f'<{tag} id="{name}"{attributes}>{title}<div class="body"></div></{tag}>\n'


def embed_json(document: Mapping[str, Any]) -> str:
    """Return JSON that cannot end the block that contains it."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace").decode().translate(_ESCAPED)
