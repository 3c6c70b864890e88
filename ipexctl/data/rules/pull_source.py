"""What `data pull` is told to fetch: a repository of the hub, or an address."""

from __future__ import annotations

import posixpath
import re

from ipexctl.data.rules.dataset_rules import data_name
from ipexctl.errors import InputError
from ipexctl.quick_dataclass import dataclass

MODELS, DATASETS = "models", "datasets"
MAIN = "main"
_HUB = re.compile(
    r"hf:(?://)?(?:(models|datasets)/)?([A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?)(?:@([\w./-]+))?",
    re.ASCII,
)
_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^/?\s]+(/[^?\s]*)?(\?\S*)?")
_SHA256 = re.compile(r"sha256=([0-9a-f]{64})")


@dataclass(frozen=True)
class HubSource:
    """`kind`: "models", "datasets", or "": the hub is asked."""

    kind: str
    repository: str
    revision: str = MAIN

    @property
    def name(self) -> str:
        return data_name(self.repository)


@dataclass(frozen=True)
class UrlSource:
    """`sha256`: what the user expects, "" if nothing."""

    url: str
    sha256: str = ""

    @property
    def file(self) -> str:
        found = _URL.fullmatch(self.url)
        return posixpath.basename(((found and found[1]) or "").rstrip("/")) or "data"

    @property
    def name(self) -> str:
        return data_name(self.file)


def read_source(text: str) -> HubSource | UrlSource:
    """Raises InputError."""
    found = _HUB.fullmatch(text)
    if found and not {"", ".", ".."} & {*(found[3] or MAIN).split("/")}:
        return HubSource(found[1] or "", found[2], found[3] or MAIN)
    url, _, fragment = text.partition("#")
    sha = _SHA256.fullmatch(fragment)
    if _URL.fullmatch(url) and (sha or not fragment):
        return UrlSource(url, sha[1] if sha else "")
    raise InputError(
        f"{text!r} is not a source of data",
        why="a source is hf:ORG/NAME[@REVISION], hf:datasets/ORG/NAME, hf:models/ORG/NAME, or an "
        "address such as https://example.org/data.tar#sha256=HASH",
        hint="ipexctl data pull hf:ORG/NAME",
        slug="source-invalid",
    )
