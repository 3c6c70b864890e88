"""Which TCP ports a host's firewall lets in, from its rules: nft, iptables-save, ufw, firewalld."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

Range = tuple[int, int]

_NFT = re.compile(r"\btcp dport (?:\{([^}]*)\}|(\d+(?:-\d+)?)).*\baccept\b")
_IPTABLES = re.compile(r"--dports? ([\d:,]+)")
_FIREWALLD = re.compile(r"<port\s[^>]*>")
_ELSEWHERE = re.compile(r"forward|output|fwd|_out|postrouting|docker", re.IGNORECASE)
_HOOK = re.compile(r"\bhook (\w+)")


def read_rules(text: str) -> tuple[Range, ...]:
    """The ranges that a rule about incoming packets accepts. Where a rule stands, and from whom it
    takes them, is not judged: what is named open may still be closed to some."""
    found: dict[Range, None] = {}
    chain = ""
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["chain"] and len(words) > 1:
            chain = words[1]
        elif hook := _HOOK.search(line):
            chain = hook[1]
        elif words[:1] == ["-A"] and len(words) > 1:
            if not _ELSEWHERE.search(words[1]):
                found |= dict.fromkeys(_iptables(line))
        elif not _ELSEWHERE.search(chain) and (rule := _NFT.search(line)):
            found |= dict.fromkeys(_ranges(rule[1] or rule[2]))
        found |= dict.fromkeys(_firewalld(line))
    return tuple(found)


def _iptables(line: str) -> Iterator[Range]:
    if "-j ACCEPT" in line and "-p tcp" in line:
        for ports in _IPTABLES.findall(line):
            yield from _ranges(ports.replace(":", "-"))


def _firewalld(line: str) -> Iterator[Range]:
    for element in _FIREWALLD.findall(line):
        given = dict(re.findall(r"(\w+)=\"([^\"]*)\"", element))
        if given.get("protocol") == "tcp":
            yield from _ranges(given.get("port", ""))


def _ranges(text: str) -> Iterator[Range]:
    for low, high in re.findall(r"(\d{1,5})(?:-(\d{1,5}))?", text):
        if int(low) <= int(high or low) <= 65535:
            yield int(low), int(high or low)


def in_common(hosts: Iterable[Sequence[Range]], fewest: int) -> Range | None:
    """The widest range above 1023 of at least `fewest` ports that all of these hosts let in."""
    common: list[Range] | None = None
    for ranges in hosts:
        before = [(1024, 65535)] if common is None else common
        common = [(max(a, c), min(b, d)) for a, b in before for c, d in ranges]
    wide = [r for r in common or () if r[1] - r[0] + 1 >= fewest]
    return max(wide, key=lambda r: r[1] - r[0], default=None)
