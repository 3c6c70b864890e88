"""The options of bench."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ipexctl.bench.allreduce_options import LARGEST, AllreduceOptions
from ipexctl.cli.declared_command import command_group
from ipexctl.cli.options import Json, Root, end_command, on_hosts, print_note
from ipexctl.run.typed_values import READERS


@command_group("Hosts", 50)
def bench() -> None:
    """Measure all_reduce between the hosts.

    Examples:
      ipexctl bench allreduce -f hosts --json
    """


def _read_size_option(text: str | None) -> int:
    from ipexctl.bench.allreduce_result import read_size

    return LARGEST if text is None else read_size(text)


@bench.command()
@on_hosts(readers={**READERS, "max_size": _read_size_option})
def allreduce(
    *, target: Any, root: Root = "~/.ipexctl", options: AllreduceOptions, json: Json = False
) -> None:
    """Measure all_reduce, and name the slow host or link.

    The exit code is 1 if a slow host or link was found.

    Examples:
      ipexctl bench allreduce -f hosts
      ipexctl bench allreduce -f hosts --max-size 16M --time 10s
    """
    from ipexctl.bench.allreduce import bench_allreduce
    from ipexctl.bench.command.allreduce_text import benchmark_document, show_benchmark
    from ipexctl.run.command.stream import PlainView
    from ipexctl.run.watch.run_watchers import count_interrupts

    options = replace(options, root=root)
    result = bench_allreduce(target, options, PlainView(aside=True), count_interrupts, print_note)
    end_command(result, benchmark_document, show_benchmark, json=json)
