"""What the ranks of `bench models` printed, as a table: speeds, and whether results are correct.

Lines come from hosts, so everything in them is checked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from ipexctl.base.values import count_or_none, plain
from ipexctl.bench.host_reasons import (
    OF_HOST,
    Pressure,
    Reason,
    busy,
    known_checks,
    line_of,
    noticed,
    pressure_of,
    reason_of,
)
from ipexctl.bench.models_options import MODELS, PRECISIONS
from ipexctl.doctor.checks.registry import run
from ipexctl.doctor.report.cluster import Cluster
from ipexctl.errors import unknown_value
from ipexctl.facts import host_facts, isa
from ipexctl.facts.measurements import median, onednn_level
from ipexctl.facts.reader import positive
from ipexctl.quick_dataclass import dataclass

MARK = "ipexctl-models:"  # as in in_ranks/models_bench.py
WORKS = ("inference", "training")
ENGINES = ("eager", "compile", "ipex")
MISSING = ("no-ipex", "no-compile", "no-compiler", "no-int8", "memory", "failed", "time")
# Relative errors that pass, of outputs and of gradients; and the share of equal decisions.
# Batch normalization of few samples makes more of the rounding in ResNet-50's gradients.
OUTPUTS = {"fp32": 1e-3, "bf16": 0.05, "int8": 0.15}
GRADIENTS = {"resnet50": {"fp32": 0.02, "bf16": 0.5}, "bert": {"fp32": 1e-3, "bf16": 0.05}}
SAME = 0.75
GAIN = 1.05  # so much faster, and beyond the spreads, or it is not called a gain


# --- what the ranks printed ----------------------------------------------------------------------


@dataclass(frozen=True)
class Key:
    """What a row is about."""

    model: str
    work: str
    precision: str
    engine: str
    hosts: int

    @property
    def is_plain(self) -> bool:
        return (self.precision, self.engine) == ("fp32", "eager")

    @property
    def order(self) -> tuple[int, ...]:
        return (
            MODELS.index(self.model), WORKS.index(self.work), self.hosts,
            ENGINES.index(self.engine), PRECISIONS.index(self.precision),
        )  # fmt: skip


@dataclass
class Heard:
    """Lines of all ranks of a run with `ranks` ranks, one on each host."""

    ranks: int = 0
    torch: str = ""
    error: str = ""
    threads: dict[int, int] = field(default_factory=dict)
    onednn: dict[int, str] = field(default_factory=dict)
    sizes: dict[str, tuple[int, int, int]] = field(default_factory=dict)  # batch, length, layers
    rates: dict[Key, list[float]] = field(default_factory=dict)
    checks: dict[Key, tuple[float, float]] = field(default_factory=dict)
    left: dict[Key, tuple[str, str]] = field(default_factory=dict)
    pressures: dict[Key, dict[int, list[Pressure]]] = field(default_factory=dict)

    def add(self, rank: int, text: str) -> bool:
        """Whether it was a line of our script, or oneDNN's about its instruction set."""
        known = 0 <= rank < self.ranks
        if text.startswith(("onednn_verbose", "dnnl_verbose")) and ",cpu,isa:" in text:
            if known:
                self.onednn[rank] = plain(text.partition(",isa:")[2].strip(), 100)
            return True
        line = line_of(text, MARK)
        if line is not None and known:
            self._take(rank, line)
        return line is not None

    def _take(self, rank: int, line: Mapping[str, Any]) -> None:
        kind, key = line.get("kind"), _key(line)
        if kind == "rank":
            self.torch = plain(line.get("torch"), 60)
            self.threads[rank] = count_or_none(line.get("threads")) or 0
        elif kind == "model" and line.get("model") in MODELS:
            batch, length, layers = (
                count_or_none(line.get(k)) or 0 for k in ("batch", "length", "layers")
            )
            self.sizes[line["model"]] = batch, length, layers
        elif key is None or key.hosts > self.ranks:
            return
        elif kind == "turn":
            samples, seconds = positive(line.get("samples")), positive(line.get("seconds"))
            self.pressures.setdefault(key, {}).setdefault(rank, []).append(pressure_of(line))
            if rank == 0 and samples and seconds and math.isfinite(samples / seconds):
                self.rates.setdefault(key, []).append(samples / seconds)
        elif kind == "check" and rank == 0:
            error, same = _number(line.get("error")), _number(line.get("same"))
            self.checks[key] = error, same
        elif kind == "left" and rank == 0 and line.get("why") in MISSING:
            self.left[key] = line["why"], plain(line.get("text"), 200)


def _key(line: Mapping[str, Any]) -> Key | None:
    names = [line.get(k) for k in ("model", "work", "precision", "engine")]
    known = (MODELS, WORKS, PRECISIONS, ENGINES)
    hosts = count_or_none(line.get("hosts"))
    if not hosts or not all(name in some for name, some in zip(names, known, strict=True)):
        return None
    model, work, precision, engine = (str(name) for name in names)
    return Key(model, work, precision, engine, hosts)


def _number(value: Any) -> float:
    """NaN for what is none: no limit lets it pass."""
    found = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if found and math.isfinite(value) and value >= 0 else math.nan


# --- rows ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Disturbed:
    """What slowed down a host while a row was measured."""

    host: str
    slug: str
    check: str
    evidence: str


@dataclass(frozen=True)
class ModelRow:
    """One configuration. `spread`: half of the interquartile range of the rounds. `ratio`: to fp32
    eager on one host; None also for a row whose results are wrong, as its speed is no gain.

    state: ok, wrong, not-measured; `why`: a slug of MISSING. The error is that of the outputs, in
    training that of the gradients.
    """

    key: Key
    state: str
    why: str = ""
    text: str = ""
    rate: float | None = None  # samples per second, of all hosts together
    spread: float | None = None
    rounds: int = 0
    ratio: float | None = None
    scaling: float | None = None  # share of `hosts` times the speed of one host
    error: float | None = None
    same: float | None = None
    disturbed: tuple[Disturbed, ...] = ()


def rows(heard: Heard, cluster: Cluster, hosts: Sequence[str]) -> tuple[ModelRow, ...]:
    """`hosts`: by their ranks."""
    keys = sorted({*heard.rates, *heard.left}, key=lambda key: key.order)
    return tuple(_row(key, heard, cluster, hosts) for key in keys)


def _row(key: Key, heard: Heard, cluster: Cluster, hosts: Sequence[str]) -> ModelRow:
    rates = heard.rates.get(key)
    if not rates:
        why, text = heard.left[key]
        return ModelRow(key, "not-measured", why, text)
    rate = median(rates)
    error, same = heard.checks.get(key, (math.nan, math.nan))
    limits = GRADIENTS[key.model] if key.work == "training" else OUTPUTS
    right = error <= limits.get(key.precision, 0.0) and same >= SAME
    base = _rate(heard, key, "fp32")
    alone = _rate(heard, key, key.precision, key.engine)
    return ModelRow(
        key,
        "ok" if right else "wrong",
        rate=rate,
        spread=_spread(rates),
        rounds=len(rates),
        ratio=rate / base if base and right else None,
        scaling=rate / alone / key.hosts if alone and right and key.hosts > 1 else None,
        error=None if math.isnan(error) else error,
        same=None if math.isnan(same) else same,
        disturbed=tuple(_disturbed(heard.pressures.get(key, {}), cluster, hosts)),
    )


def _rate(heard: Heard, key: Key, precision: str, engine: str = "eager") -> float | None:
    """The same work on one host."""
    rates = heard.rates.get(Key(key.model, key.work, precision, engine, 1))
    return median(rates) if rates else None


def _spread(rates: Sequence[float]) -> float | None:
    if len(rates) < 2:
        return None
    ordered = sorted(rates)
    return (_quantile(ordered, 0.75) - _quantile(ordered, 0.25)) / 2


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def _disturbed(
    pressures: Mapping[int, Sequence[Pressure]], cluster: Cluster, hosts: Sequence[str]
) -> Iterator[Disturbed]:
    """In a typical round: a moment does not change the median."""
    shared = len(pressures) > 1 and on_one_machine(cluster)
    for rank, seen in sorted(pressures.items()):
        typical = (_typical(seen),)
        for slug, check, evidence in (*noticed(typical), *(() if shared else busy(typical))):
            yield Disturbed(hosts[rank] if rank < len(hosts) else "", slug, check, evidence)


def _typical(seen: Sequence[Pressure]) -> Pressure:
    return Pressure(
        paused=median(one.paused for one in seen),
        heat=sum(one.heat for one in seen),
        others=median(one.others for one in seen),
        stolen=median(one.stolen for one in seen),
    )


def on_one_machine(cluster: Cluster) -> bool:
    """Whether hosts share a machine's cores, so that more of them cannot be faster."""
    machines = [facts.boot_id for facts in cluster.hosts if facts.boot_id]
    return len(set(machines)) < len(machines)


# --- the outcome ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Machine:
    host: str
    cpu: str
    isa: str  # that the kernel reports
    onednn: str  # in oneDNN's words
    onednn_level: str
    cores: int | None
    threads: int | None  # of a rank
    memory: int | None  # bytes
    reasons: tuple[Reason, ...]  # why it may be slow, by the doctor's checks


def machines(heard: Heard, cluster: Cluster, hosts: Sequence[str]) -> tuple[Machine, ...]:
    checks = [check for name, check in known_checks().items() if name in OF_HOST]
    reasons = [(finding.host, reason_of(finding)) for finding in run(checks, cluster)]
    found = []
    for rank, host in enumerate(hosts):
        facts, said = cluster.facts_of(host), heard.onednn.get(rank, "")
        cpu = facts.cpu if facts else None
        found.append(
            Machine(
                host=host,
                cpu=cpu.model_name if cpu else "",
                isa=isa.level(cpu) if cpu else "",
                onednn=said,
                onednn_level=onednn_level(said),
                cores=host_facts.cores(facts) if facts else None,
                threads=heard.threads.get(rank) or None,
                memory=facts.mem.total if facts else None,
                reasons=tuple(reason for name, reason in reasons if name == host),
            )
        )
    return tuple(found)


@dataclass(frozen=True)
class ModelsBenchmark:
    """`code`: of the run; 0 if all ranks ended well."""

    run_id: str
    code: int
    torch: str
    environment: Mapping[str, Any] | None  # that the run used, with its key in ipexctl.lock
    small: bool
    sizes: Mapping[str, tuple[int, int, int]]
    rows: tuple[ModelRow, ...]
    machines: tuple[Machine, ...]
    one_machine: bool
    seconds: float

    @property
    def exit_code(self) -> int:
        return self.code or int(any(row.state == "wrong" for row in self.rows))


def fastest(found: Iterable[ModelRow]) -> tuple[ModelRow, ...]:
    """The best row of each model and work on one host: fp32 eager where nothing is a gain."""
    best: dict[tuple[str, str], ModelRow] = {}
    for row in found:  # fp32 eager comes first
        place = row.key.model, row.key.work
        if row.ratio is None or row.key.hosts > 1:
            continue
        base = best.get(place)
        if row.key.is_plain if base is None else _is_gain(row, base):
            best[place] = row
    return tuple(best.values())


def _is_gain(row: ModelRow, base: ModelRow) -> bool:
    rate, known, spreads = (
        row.rate or 0.0,
        base.rate or 0.0,
        (row.spread or 0.0, base.spread or 0.0),
    )
    return rate > max(GAIN * known, known + sum(spreads))


def read_names(option: str, text: str, known: Sequence[str]) -> tuple[str, ...]:
    """bert,resnet50 in the order of `known`. Raises InputError."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise unknown_value(option, name, known)
    return tuple(name for name in known if name in names)
