"""What the level std measured: a row per host, a line about links, and the slowest ones by name."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from ipexctl.base.sizes import bit_rate
from ipexctl.doctor.command.report_lines import folded
from ipexctl.doctor.report.report import Report
from ipexctl.facts.host_facts import plain
from ipexctl.facts.measurements import HostBench, Link, median

ROWS = 12
_HEADS = ("fp32 GFLOP/s", "bf16 GFLOP/s", "ratio", "copy GB/s", "threads")


def measured(report: Report, *, verbose: bool) -> list[Text]:
    if report.level == "quick":
        return []
    text = _compute(report.measured.hosts, verbose=verbose)
    links = links_line(report.measured.links, verbose=verbose)
    return [*text, *([Text()] if links else []), *links]


def _compute(hosts: Sequence[HostBench], *, verbose: bool) -> list[Text]:
    done = [h for h in hosts if h.status == "ok"]
    text: list[Text] = []
    if done:
        size = max(len("measured"), *(len(plain(h.host)) for h in done))
        heads = "  ".join(f"{head:>{len(head)}}" for head in _HEADS)
        text += [Text(), Text(f"{'measured':{size}}  {heads}")]
        text[-1].stylize("bold")
        order = sorted(done, key=lambda h: h.fp32 or 0.0)  # the slowest first
        for h in order if verbose else order[:ROWS]:
            text.append(Text(f"{plain(h.host):{size}}  {_numbers(h)}"))
        if len(order) > ROWS and not verbose:
            text.append(Text(f"… and {len(order) - ROWS} faster hosts: -v", "dim"))
    for status, words in (("no-torch", "no torch there yet"), ("skipped", "taking turns")):
        names = [h.host for h in hosts if h.status == status]
        if names:
            text += [Text(), Text(f"not measured  {folded(names, 48)}: {words}", "dim")]
    return text


def _numbers(h: HostBench) -> str:
    ratio = f"×{h.bf16 / h.fp32:.1f}" if h.bf16 and h.fp32 else ""
    cells = (_one(h.fp32), _one(h.bf16), ratio, _one(h.copy), str(h.threads or "?"))
    return "  ".join(f"{c:>{len(head)}}" for c, head in zip(cells, _HEADS, strict=True))


def _one(number: float | None) -> str:
    if number is None:
        return "?"
    return f"{number:.0f}" if number >= 20 else f"{number:.1f}"


def links_line(links: Sequence[Link], *, verbose: bool = False) -> list[Text]:
    """Return the line about the links; [] if none was measured."""
    good = [link for link in links if link.rate and link.latency]
    if not good:
        return []
    rate = median(link.rate or 0.0 for link in good)
    latency = median(link.latency or 0.0 for link in good)
    slowest = min(good, key=lambda link: link.rate or 0.0)
    words = f"{len(good)} links  {bit_rate(rate)} and {seconds(latency)} median"
    if len(good) > 1:
        words += f", slowest {_pair(slowest)} {bit_rate(slowest.rate or 0.0)}"
    text = [Text(words)]
    if verbose:
        for link in sorted(good, key=lambda link: link.rate or 0.0):
            line = f"  {_pair(link)}  {bit_rate(link.rate or 0)}  {seconds(link.latency or 0)}"
            text.append(Text(line))
    return text


def _pair(link: Link) -> str:
    return f"{plain(link.source)} → {plain(link.target)}"


def seconds(time: float) -> str:
    return f"{time * 1e3:.2f} ms"
