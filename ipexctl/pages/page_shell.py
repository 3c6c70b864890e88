"""The frame of an HTML page: one file that loads nothing else.

The browser runs only scripts, and applies only styles, that the policy names by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Sequence


def frame_page(
    title: str, body: str, *, command: str, styles: Sequence[str], scripts: Sequence[str] = ()
) -> str:
    """Return the page. `body` is markup; `command` is the one that writes the page."""
    style = "".join(f"<style>{text}</style>\n" for text in styles)
    script = "".join(f"<script>{text}</script>\n" for text in scripts)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{content_policy(styles, scripts)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
{generator_tag(command)}
<meta name="referrer" content="no-referrer">
<title>{html.escape(title)}</title>
{style}</head>
<body>
{body}{script}</body>
</html>
"""


def generator_tag(command: str) -> str:
    """Return the mark of a file that the command may replace."""
    return f'<meta name="generator" content="ipexctl {command}">'


def content_policy(styles: Sequence[str], scripts: Sequence[str]) -> str:
    allowed = [("script-src", scripts), ("style-src", styles)]
    parts = [f"{name} {' '.join(map(_policy_hash, texts))}; " for name, texts in allowed if texts]
    return f"default-src 'none'; {''.join(parts)}base-uri 'none'; form-action 'none'"


def _policy_hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
