"""What `bench allreduce` prints: slow parts and reasons, OSU's table, limits of links and hosts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.text import Text

from ipexctl.base.sizes import binary_size, bit_rate, duration
from ipexctl.bench.allreduce_result import AllreduceRow, Benchmark, SlowPart, slowest_rate
from ipexctl.doctor_command.measured import links_line
from ipexctl.errors import EXIT_INTERRUPTED
from ipexctl.facts.host_facts import plain
from ipexctl.inventory.hostfile_text import fold
from ipexctl.terminal.console import print_lines, stdout_console

_HEADS = ("Avg (us)", "Min (us)", "Max (us)", "Iterations", "Mbit/s")
_LEFT = {"time": "they would take longer than --time", "memory": "the hosts lack memory for them"}


def show_benchmark(result: Benchmark) -> None:
    console = stdout_console()
    print_lines(console, _answer_lines(result))
    for row in _osu_table(result):
        console.print(row, soft_wrap=True)
    print_lines(console, _closing_lines(result))


def _answer_lines(result: Benchmark) -> Iterator[Text]:
    ranks = f"{result.ranks} ranks on {len(result.hosts)} host{'s' * (len(result.hosts) != 1)}"
    details = f" · {result.backend} · {ranks} · {duration(result.seconds)}"
    if result.code:
        words = "interrupted" if result.code == EXIT_INTERRUPTED else "the run failed"
        yield Text(words, "bold red").append(details, "not bold default")
    elif not result.slow:
        yield Text("no slow host or link", "bold green").append(details, "not bold default")
    else:
        names = fold(dict.fromkeys(part.host for part in result.slow if part.host))
        text = f"slow: {plain(names) or 'the network'}"
        yield Text(text, "bold yellow").append(details, "not bold default")
    for part in result.slow:
        yield from _slow_part_lines(part)


def _slow_part_lines(part: SlowPart) -> Iterator[Text]:
    where = f"{plain(part.host)}: " if part.host else ""
    yield Text(f"{where}{part.title} ({part.check}): {plain(part.evidence)}")
    for reason in part.reasons:
        yield Text(f"  why {reason.title} ({reason.check}): {plain(reason.evidence)}")
    for fix in dict.fromkeys(f for f in (*(r.fix for r in part.reasons), part.fix) if f):
        for line in fix.splitlines():
            yield Text(f"  fix {plain(line)}")


def _osu_table(result: Benchmark) -> Iterator[Text]:
    """Yield the table in OSU's format: a # before the heads, then numbers."""
    if not result.rows:
        return
    with_link = any(row.of_link is not None for row in result.rows)
    heads = "".join(f"{head:>13}" if i < 3 else f"{head:>11}" for i, head in enumerate(_HEADS))
    yield Text()
    yield Text(f"{'# Size':<10}{heads}{'  % link' if with_link else ''}", "bold")
    for row in result.rows:
        yield Text(_row_numbers(row))
    yield Text()


def _row_numbers(row: AllreduceRow) -> str:
    times = "".join(f"{number:>13.2f}" for number in (row.average, row.least, row.most))
    share = "" if row.of_link is None else f"{row.of_link * 100:>8.0f}"
    rate = row.bus / 1e6
    return f"{row.size:<10}{times}{row.iterations:>11}{rate:>11.{1 if rate < 100 else 0}f}{share}"


def _closing_lines(result: Benchmark) -> Iterator[Text]:
    if result.left:
        sizes = ", ".join(binary_size(n) if n >= 1024 else f"{n} bytes" for n in result.left)
        yield Text(f"not measured: {sizes}; {_LEFT.get(result.left_why, 'unknown reason')}", "dim")
    if result.rows:
        best = max(result.rows, key=lambda row: row.bus)
        text = f"bus bandwidth  {bit_rate(best.bus)} at best, with {best.size:,} bytes"
        if link := slowest_rate(result.links):
            text += f"; the slowest link: {bit_rate(link)}"
        yield Text(text)
    yield from links_line(result.links)
    rates = sorted((h.gflops, h.host, h.threads) for h in result.hosts if h.gflops)
    if rates:
        (least, slowest, threads), (most, fastest, _) = rates[0], rates[-1]
        text = f"compute  {least:.0f} GFLOP/s fp32 on {plain(slowest)}"
        text += f", {most:.0f} on {plain(fastest)}" if len(rates) > 1 else ""
        count = f"{threads or '?'} thread{'s' * (threads != 1)}"
        yield Text(f"{text}; {count} per rank")


def benchmark_document(result: Benchmark) -> dict[str, Any]:
    return {
        "benchmark": "allreduce",
        "run_id": result.run_id,
        "backend": result.backend,
        "torch": result.torch,
        "ranks": result.ranks,
        "sizes": [
            {
                "size": row.size,
                "average_us": round(row.average, 3),
                "min_us": round(row.least, 3),
                "max_us": round(row.most, 3),
                "iterations": row.iterations,
                "bus_bits_per_second": round(row.bus),
                "share_of_link": None if row.of_link is None else round(row.of_link, 4),
            }
            for row in result.rows
        ],
        "not_measured": {"sizes": list(result.left), "reason": result.left_why or None},
        "hosts": [asdict(host) for host in result.hosts],
        "links": [asdict(link) for link in result.links],
        "slow": [asdict(part) for part in result.slow],
        "seconds": round(result.seconds, 3),
        "exit_code": result.exit_code,
    }
