"""What `bench models` prints: the fastest setting of each model, the table, what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.text import Text

from ipexctl.base.sizes import duration
from ipexctl.bench.models_result import ModelRow, ModelsBenchmark, fastest
from ipexctl.errors import EXIT_INTERRUPTED
from ipexctl.facts.host_facts import plain
from ipexctl.terminal.console import print_lines, stdout_console

_COLUMNS = (
    "Work", "Hosts", "Type", "Engine", "Samples/s", "+/-", "x fp32", "Scaling", "Error", "Same",
)  # fmt: skip
_HEADS = "# {:<8}{:>6} {:<5}{:<8}{:>10}{:>7}{:>8}{:>8}{:>8}{:>6}"
_SIZES = {"resnet50": "{0} images of {1} px", "bert": "{0} sequences of {1} tokens, {2} layers"}
_WHY = {
    "no-ipex": "intel_extension_for_pytorch is not installed on the first host",
    "no-compile": "this torch has no torch.compile",
    "no-compiler": "the first host has no C++ compiler (g++, or what CXX names)",
    "no-int8": "this torch has no engine for quantized layers",
    "memory": "the first host lacks memory",
    "time": "longer than --time allows",
}
_NOT_FAST = "the result differs too much from fp32 eager, so the speed is not a gain"


def show(found: ModelsBenchmark) -> None:
    console = stdout_console()
    print_lines(console, _answer(found))
    for model, size in found.sizes.items():
        own = [row for row in found.rows if row.key.model == model and row.rate]
        if own:
            console.print(Text(f"\n{model}: {_SIZES[model].format(*size)}, per host", "bold"))
            console.print(Text(_HEADS.format(*_COLUMNS), "bold"), soft_wrap=True)
        for row in own:
            style = "red" if row.state == "wrong" else ""
            console.print(Text(_numbers(row), style), soft_wrap=True)
    print_lines(console, _rest(found))


def _answer(found: ModelsBenchmark) -> Iterator[Text]:
    hosts = len(found.machines)
    about = f" · torch {plain(found.torch)} · {hosts} host{'s' * (hosts != 1)}"
    about += f" · {duration(found.seconds)}"
    wrong = sum(row.state == "wrong" for row in found.rows)
    if found.code:
        words = "interrupted" if found.code == EXIT_INTERRUPTED else "the run failed"
        yield Text(words, "bold red").append(about, "not bold default")
    elif wrong:
        words = f"{wrong} wrong result{'s' * (wrong != 1)}"
        yield Text(words, "bold red").append(about, "not bold default")
    else:
        yield Text("all results are correct", "bold green").append(about, "not bold default")
    for row in fastest(found.rows):
        what = f"{row.key.model} {row.key.work}: "
        if row.key.is_plain:
            yield Text(f"{what}nothing measured is faster than fp32 eager beyond the noise")
        else:
            setting = f"{row.key.precision} {row.key.engine}"
            yield Text(f"{what}{setting} is the fastest, {row.ratio:.2f} times fp32 eager")


def _numbers(row: ModelRow) -> str:
    key = row.key
    mark = "!" * (row.state == "wrong") + "~" * bool(row.disturbed)
    return (
        f"{key.work:<10}{key.hosts:>6} {key.precision:<5}{key.engine:<8}{_number(row.rate):>10}"
        f"{_number(row.spread):>7}{_number(row.ratio, 2):>8}{_number(row.scaling, 2):>8}"
        f"{f'{row.error:.0e}' if row.error else '-':>8}"
        f"{'-' if row.same is None else f'{row.same:.0%}':>6} {mark}"
    ).rstrip()


def _number(value: float | None, digits: int | None = None) -> str:
    if value is None:
        return "-"
    if digits is None:
        digits = 2 if value < 10 else 1 if value < 1000 else 0
    return f"{value:.{digits}f}"


def _rest(found: ModelsBenchmark) -> Iterator[Text]:
    yield Text()
    if any(row.state == "wrong" for row in found.rows):
        yield Text(f"! {_NOT_FAST}")
    seen = {(d.host, d.slug): d for row in found.rows for d in row.disturbed}
    for one in seen.values():
        yield Text(f"~ {plain(one.host)}: {one.slug} ({one.check}): {plain(one.evidence)}")
    for why, names in _missing(found).items():
        yield Text(f"not measured, {why}: {'; '.join(names)}", "dim")
    if found.one_machine and len(found.machines) > 1:
        yield Text("the hosts share one machine: Scaling is not that of a cluster")
    for machine in found.machines:
        about = f"{machine.cores or '?'} core{'s' * (machine.cores != 1)}, "
        about += f"{machine.threads or '?'} thread{'s' * (machine.threads != 1)} per rank"
        uses = machine.onednn_level or plain(machine.onednn) or "unknown"
        name = f"{plain(machine.host)}: {plain(machine.cpu) or 'unknown CPU'} ({machine.isa})"
        yield Text(f"{name}, {about}; oneDNN uses {uses}")
        for reason in machine.reasons:
            yield Text(f"  {reason.title} ({reason.check}): {plain(reason.evidence)}")


def _missing(found: ModelsBenchmark) -> dict[str, list[str]]:
    """Why -> what, as `bert training: bf16 eager, fp32 compile`."""
    grouped: dict[str, dict[str, list[str]]] = {}
    for row in found.rows:
        if row.state != "not-measured":
            continue
        key = row.key
        setting = f"{key.precision} {key.engine}"
        setting += f" on {key.hosts} hosts" if key.hosts > 1 else ""
        of_why = grouped.setdefault(_WHY.get(row.why) or plain(row.text), {})
        of_why.setdefault(f"{key.model} {key.work}", []).append(setting)
    return {
        why: [f"{what}: {', '.join(settings)}" for what, settings in of_why.items()]
        for why, of_why in grouped.items()
    }


def document(found: ModelsBenchmark) -> dict[str, Any]:
    names = ("batch", "length", "layers")
    return {
        "schema_version": 1,
        "benchmark": "models",
        "run_id": found.run_id,
        "torch": found.torch,
        "environment": found.environment,
        "small": found.small,
        "models": {
            model: dict(zip(names, size, strict=True)) for model, size in found.sizes.items()
        },
        "rows": [_row_document(row) for row in found.rows],
        "hosts": [asdict(machine) for machine in found.machines],
        "one_machine": found.one_machine,
        "seconds": round(found.seconds, 3),
        "exit_code": found.exit_code,
    }


def _row_document(row: ModelRow) -> dict[str, Any]:
    return {
        **asdict(row.key),
        "state": row.state,
        "reason": row.why or None,
        "message": row.text or None,
        "samples_per_second": row.rate,
        "half_iqr": row.spread,
        "rounds": row.rounds,
        "ratio_to_fp32": row.ratio,
        "scaling": row.scaling,
        "relative_error": row.error,
        "same_argmax": row.same,
        "disturbed": [asdict(one) for one in row.disturbed],
    }
