"""Paths in the output of ranks as the user knows them: train.py, torch/nn/module.py."""

from __future__ import annotations

import re

_PATH = re.compile(
    r"""[^\s"'(<=:]*/(?:runs/[\w.-]{1,80}/work|(?:envs|lib)/[^\s"']{1,200}?/site-packages)/"""
)


def shortened(text: str) -> str:
    """Without the folder of the run, or of the environment's packages."""
    return _PATH.sub("", text) if "/work/" in text or "/site-packages/" in text else text


def is_own_frame(text: str) -> bool:
    """Is this line of a traceback, as printed, in a file of the user's project?"""
    return text.startswith('  File "') and "/runs/" in text and "/work/" in text
