"""A file of an index or another source, and the result of its download."""

from __future__ import annotations

from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class RemoteFile:
    """`content`: its sha256, or its SHA-1 as Git computes it, or "" if unknown; `local`: the path
    of its copy in a local folder; `size`: -1 if unknown."""

    path: str
    url: str
    local: str
    size: int = -1
    content: str = ""


@dataclass(frozen=True)
class Content:
    sha256: str
    size: int
