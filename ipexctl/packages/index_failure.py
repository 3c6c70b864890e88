"""What to do about a package index, by what it answered."""

from __future__ import annotations

import re

from ipexctl.packages.indexes import CERT_HINT, LOGIN_HINT

_ANSWERED = re.compile(r"https?://([^/\s:]+)\S* answered (401|403)")
_STATUS = re.compile(r"\((5\d\d|429) [^)]*\) for url \(https?://([^/\s)]+)")
_NO_ANSWER = re.compile(r"timed out|gave no answer")
_HIDDEN = re.compile(r"`([a-z0-9-]+)` was found on \S+, but not at the requested version")
_UNREACHED = re.compile(r"Failed to fetch: \S*?//([^/\s`]+)")


def no_answer(why: str) -> bool:
    """Whether a package is available there is not known."""
    return bool(_NO_ANSWER.search(why))


def hint(why: str) -> str:
    """The next step for a failure in uv's words; "" where the index is not the reason."""
    if refused := _ANSWERED.search(why):
        host, status = refused.groups()
        allowed = "; or ask the index's owner for access" * (status == "403")
        return LOGIN_HINT.format(host) + allowed
    if "invalid peer certificate" in why:
        site = _UNREACHED.search(why)
        return CERT_HINT.format(site[1].partition(":")[0] if site else "HOST")
    if busy := _STATUS.search(why):
        return f"run the same command again later: {busy[2]} answers {busy[1]} now"
    if _NO_ANSWER.search(why):
        return "run the same command again; UV_HTTP_TIMEOUT=120 waits longer for a slow index"
    if hidden := [name for name in _HIDDEN.findall(why) if name != "torch"]:
        then = f"also searches the next index for {hidden[0]}: only if you trust that index"
        return f"export UV_INDEX_STRATEGY=unsafe-first-match   # {then}"
    if site := _UNREACHED.search(why):
        reached = "look at the address, the proxy (HTTPS_PROXY) and firewalls"
        return f"curl -I https://{site[1]}/   # {reached}; or --index-url URL"
    return ""
