"""The options of bench."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ipexctl.bench.allreduce_options import LARGEST, AllreduceOptions
from ipexctl.cli.help.help_layout import CommandGroup
from ipexctl.cli.options import Json, Root, end_command, on_hosts, print_note
from ipexctl.run.plan.run_options import Ports

bench_app = CommandGroup(name="bench", help="Measure all_reduce between the hosts.")


@bench_app.callback()
def _bench() -> None:
    """Measure all_reduce between the hosts."""


def _read_size_option(text: str | None) -> int:
    from ipexctl.bench.allreduce_result import read_size

    return LARGEST if text is None else read_size(text)


def _read_ports_option(text: str | None) -> Ports | None:
    from ipexctl.run.plan.port_plan import read_ports

    return None if text is None else read_ports(text)


@bench_app.command()
@on_hosts(readers={"max_size": _read_size_option, "ports": _read_ports_option})
def allreduce(
    *, target: Any, root: Root = "~/.ipexctl", options: AllreduceOptions, json: Json = False
) -> None:  # fmt: skip
    """Measure all_reduce, and name the slow host or link.

    The exit code is 1 if a slow host or link was found.
    """
    from ipexctl.bench.allreduce import bench_allreduce
    from ipexctl.bench.command.allreduce_text import benchmark_document, show_benchmark
    from ipexctl.run.command.stream import PlainView
    from ipexctl.run.watch.run_watchers import counted_interrupts

    options = replace(options, root=root)
    found = bench_allreduce(target, options, PlainView(aside=True), counted_interrupts, print_note)
    end_command(found, benchmark_document, show_benchmark, json=json)
