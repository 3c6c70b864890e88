"""What the level std measured: a row per host, a line about links, and the slowest ones by name."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from ipexctl.base.sizes import bit_rate
from ipexctl.doctor.report.report import Report
from ipexctl.doctor_command.report_lines import fold_hosts
from ipexctl.facts.host_facts import plain
from ipexctl.facts.speed_facts import HostBench, MeasuredLink, median

ROWS = 12
_HEADS = ("fp32 GFLOP/s", "bf16 GFLOP/s", "ratio", "copy GB/s", "threads")


def measurement_lines(report: Report, *, verbose: bool) -> list[Text]:
    if report.level == "quick":
        return []
    text = _compute_lines(report.measured.hosts, verbose=verbose)
    links = links_line(report.measured.links, verbose=verbose)
    return [*text, *([Text()] if links else []), *links]


def _compute_lines(hosts: Sequence[HostBench], *, verbose: bool) -> list[Text]:
    """Return the table of measured speeds, slowest host first, and hosts that were not measured."""
    benches = [bench for bench in hosts if bench.status == "ok"]
    text: list[Text] = []
    if benches:
        size = max(len("measured"), *(len(plain(bench.host)) for bench in benches))
        heads = "  ".join(f"{head:>{len(head)}}" for head in _HEADS)
        text += [Text(), Text(f"{'measured':{size}}  {heads}")]
        text[-1].stylize("bold")
        order = sorted(benches, key=lambda bench: bench.fp32 or 0.0)  # the slowest first
        for bench in order if verbose else order[:ROWS]:
            text.append(Text(f"{plain(bench.host):{size}}  {_host_numbers(bench)}"))
        if len(order) > ROWS and not verbose:
            text.append(Text(f"… and {len(order) - ROWS} faster hosts: -v", "dim"))
    for status, words in (("no-torch", "no torch there yet"), ("skipped", "taking turns")):
        names = [bench.host for bench in hosts if bench.status == status]
        if names:
            text += [Text(), Text(f"not measured  {fold_hosts(names, 48)}: {words}", "dim")]
    return text


def _host_numbers(bench: HostBench) -> str:
    ratio = f"×{bench.bf16 / bench.fp32:.1f}" if bench.bf16 and bench.fp32 else ""
    cells = (
        _format_gflops(bench.fp32),
        _format_gflops(bench.bf16),
        ratio,
        _format_gflops(bench.copy),
        str(bench.threads or "?"),
    )
    return "  ".join(f"{cell:>{len(head)}}" for cell, head in zip(cells, _HEADS, strict=True))


def _format_gflops(number: float | None) -> str:
    if number is None:
        return "?"
    return f"{number:.0f}" if number >= 20 else f"{number:.1f}"


def links_line(links: Sequence[MeasuredLink], *, verbose: bool = False) -> list[Text]:
    """Return the line about the links; [] if none was measured."""
    measured = [link for link in links if link.rate and link.latency]
    if not measured:
        return []
    rate = median(link.rate or 0.0 for link in measured)
    latency = median(link.latency or 0.0 for link in measured)
    slowest = min(measured, key=lambda link: link.rate or 0.0)
    words = f"{len(measured)} links  {bit_rate(rate)} and {latency_ms(latency)} median"
    if len(measured) > 1:
        words += f", slowest {_link_ends(slowest)} {bit_rate(slowest.rate or 0.0)}"
    text = [Text(words)]
    if verbose:
        for link in sorted(measured, key=lambda link: link.rate or 0.0):
            line = (
                f"  {_link_ends(link)}  {bit_rate(link.rate or 0)}  {latency_ms(link.latency or 0)}"
            )
            text.append(Text(line))
    return text


def _link_ends(link: MeasuredLink) -> str:
    return f"{plain(link.source)} → {plain(link.target)}"


def latency_ms(time: float) -> str:
    return f"{time * 1e3:.2f} ms"
