"""Paths in the output of ranks as the user knows them: train.py, torch/nn/module.py."""

from __future__ import annotations

import re

_FOLDER = re.compile(r"""/(?:runs/[\w.-]{1,80}/work|(?:envs|lib)/[^\s"']{1,200}?/site-packages)/""")
_BEFORE_PATH = re.compile(r"""[\s"'(<=:]""")


def shortened(text: str) -> str:
    """Without the folder of the run, or of the environment's packages."""
    if "/work/" not in text and "/site-packages/" not in text:
        return text
    kept, end = "", 0
    for found in _FOLDER.finditer(text):
        before = text[end : found.start()]
        kept += before[: max((m.end() for m in _BEFORE_PATH.finditer(before)), default=0)]
        end = found.end()
    return kept + text[end:]


def is_own_frame(text: str) -> bool:
    """Is this line of a traceback, as printed, in a file of the user's project?"""
    return text.startswith('  File "') and "/runs/" in text and "/work/" in text
