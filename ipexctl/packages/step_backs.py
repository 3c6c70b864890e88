"""Requested packages whose chosen version is far behind the newest one on their index, and why."""

from __future__ import annotations

import http.client
import json
import re
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from html import unescape

from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

from ipexctl.install.stack.requirements import Extra
from ipexctl.packages.http_opener import Opener
from ipexctl.quick_dataclass import dataclass

ACCEPT = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
TIMEOUT, LARGEST = 10.0, 16 << 20
_LINK = re.compile(r"<a\s([^<>]*)>([^<]+)</a>", re.IGNORECASE)
_NEEDS = re.compile(r'data-requires-python\s*=\s*["\']([^"\']*)')
FAR = (2, 5)  # majors behind, and minors behind while the major is 0


@dataclass(frozen=True)
class Offer:
    """A version on an index."""

    version: Version
    wheel: bool
    python: str = ""  # what it requires


def notes(
    chosen: Mapping[str, str], extra: Extra, homes: Mapping[str, str], python: str,
    opener: Opener, why_not: Callable[[str], str],
) -> list[str]:  # fmt: skip
    """`chosen`: versions by name; `homes`: the index of each. `why_not`: the resolver's words for a
    requirement. What an index does not tell is passed over."""
    names = {canonicalize_name(Requirement(text).name) for text in extra.requirements}
    asked = sorted(name for name in names if name in chosen and homes.get(name, "").strip())
    with ThreadPoolExecutor(8) as pool:
        pages = list(pool.map(lambda name: _page(opener, homes[name], name), asked))
    found = (
        note(name, Version(chosen[name]), offers(page), allowed(name, extra), python, why_not)
        for name, page in zip(asked, pages, strict=True)
    )
    return [text for text in found if text]


def note(
    name: str, chosen: Version, known: Iterable[Offer], wanted: SpecifierSet, python: str,
    why_not: Callable[[str], str],
) -> str:  # fmt: skip
    fitting = [o for o in known if not o.version.is_prerelease and wanted.contains(o.version)]
    if not fitting:
        return ""
    top = max(o.version for o in fitting)
    if not is_far(chosen, top):
        return ""
    newest = [o for o in fitting if o.version == top]
    if not any(o.wheel for o in newest):
        why = f"it has no wheel: pip wheel {name}=={top} -w FOLDER, then --find-links FOLDER"
    elif needs := [o.python for o in newest if o.wheel and not _runs(o.python, python)]:
        why = f"it needs Python {needs[0]}, and the environment has {python}"
    else:
        why = why_not(f"{name}=={top}")
    return f"{name} {chosen} is far behind the newest, {top}" + f"; {why}" * bool(why)


def is_far(chosen: Version, newest: Version) -> bool:
    if chosen >= newest:
        return False
    if chosen.is_prerelease or newest.major - chosen.major >= FAR[0]:
        return True
    return newest.major == chosen.major == 0 and newest.minor - chosen.minor >= FAR[1]


def allowed(name: str, extra: Extra) -> SpecifierSet:
    """What the user says of its version."""
    said = map(Requirement, (*extra.requirements, *extra.constraints))
    found = SpecifierSet()
    for one in said:
        if canonicalize_name(one.name) == name:
            found &= one.specifier
    return found


def offers(page: str) -> Iterator[Offer]:
    """Of an index's page, in JSON or HTML; without what was yanked."""
    for file, python in _files(page):
        try:
            if file.endswith(".whl"):
                yield Offer(parse_wheel_filename(file)[1], True, python)
            else:
                yield Offer(parse_sdist_filename(file)[1], False, python)
        except ValueError:
            continue


def _files(page: str) -> Iterator[tuple[str, str]]:
    if not page.lstrip().startswith("{"):
        for attributes, name in _LINK.findall(page):
            if "data-yanked" not in attributes:
                needs = _NEEDS.search(attributes)
                yield unescape(name).strip(), unescape(needs[1]) if needs else ""
        return
    try:
        files = json.loads(page)["files"]
        for one in files:
            if not one.get("yanked"):
                yield str(one["filename"]), str(one.get("requires-python") or "")
    except (ValueError, KeyError, TypeError, AttributeError):
        return


def _runs(needs: str, python: str) -> bool:
    try:
        return SpecifierSet(needs).contains(f"{python}.99")
    except InvalidSpecifier:
        return True


def _page(opener: Opener, index: str, name: str) -> str:
    request = urllib.request.Request(f"{index.rstrip('/')}/{name}/", headers={"Accept": ACCEPT})
    try:
        with opener.open(request, TIMEOUT) as answer:
            return str(answer.read(LARGEST).decode("utf-8", "replace"))
    except (OSError, http.client.HTTPException, ValueError):
        return ""
