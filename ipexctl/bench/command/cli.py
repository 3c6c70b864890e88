"""The options of bench."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ipexctl.bench.allreduce_options import LARGEST, AllreduceOptions
from ipexctl.bench.models_options import MODELS, PRECISIONS, ModelsOptions
from ipexctl.cli.help.help_layout import CommandGroup
from ipexctl.cli.options import Json, Root, end, note, on_hosts
from ipexctl.run.plan.run_options import Ports

bench_app = CommandGroup(name="bench", help="Measure all_reduce and the speed of models.")


@bench_app.callback()
def _bench() -> None:
    """Measure all_reduce and the speed of models."""


def _size(text: str | None) -> int:
    from ipexctl.bench.allreduce_result import read_size

    return LARGEST if text is None else read_size(text)


def _ports(text: str | None) -> Ports | None:
    from ipexctl.run.plan.port_plan import read_ports

    return None if text is None else read_ports(text)


def _models(text: str | None) -> tuple[str, ...]:
    from ipexctl.bench.models_result import read_names

    return MODELS if text is None else read_names("--models", text, MODELS)


def _precisions(text: str | None) -> tuple[str, ...]:
    """With fp32, to which the others are compared."""
    from ipexctl.bench.models_result import read_names

    return PRECISIONS if text is None else read_names("--precision", f"fp32,{text}", PRECISIONS)


@bench_app.command()
@on_hosts(readers={"max_size": _size, "ports": _ports})
def allreduce(
    *, target: Any, root: Root = "~/.ipexctl", options: AllreduceOptions, json: Json = False
) -> None:  # fmt: skip
    """Measure all_reduce, and name the slow host or link.

    The exit code is 1 if a slow host or link was found.
    """
    from ipexctl.bench.allreduce import bench
    from ipexctl.bench.command.allreduce_text import document, show
    from ipexctl.run.command.stream import PlainView
    from ipexctl.run.watch.run_watchers import counted_interrupts

    options = replace(options, root=root)
    found = bench(target, options, PlainView(aside=True), counted_interrupts, note)
    end(found, document, show, json=json)


@bench_app.command()
@on_hosts(readers={"models": _models, "precision": _precisions, "ports": _ports})
def models(
    *, target: Any, root: Root = "~/.ipexctl", options: ModelsOptions, json: Json = False
) -> None:  # fmt: skip
    """Measure ResNet-50 and BERT: training and inference, precisions, engines, hosts.

    The exit code is 1 if a result differs too much from fp32.
    """
    from ipexctl.bench.command.models_text import document, show
    from ipexctl.bench.models import bench_models
    from ipexctl.run.command.stream import PlainView
    from ipexctl.run.watch.run_watchers import counted_interrupts

    options = replace(options, root=root)
    found = bench_models(target, options, PlainView(aside=True), counted_interrupts, note)
    end(found, document, show, json=json)
