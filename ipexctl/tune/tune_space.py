"""The settings that `tune` tries, from facts of the hosts and of a first trial, best first."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ipexctl.facts.facts import Facts
from ipexctl.facts.usable_cores import fast_cores
from ipexctl.local.run_options import BUCKET
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.plan.launch import LaunchPlan, Prepared

ALLOW = ("batch", "numerics")
LEFT_OUT = ("torch.compile and autocast: they need changes to your code",)
_JEMALLOC = "oversize_threshold:1,background_thread:true,metadata_thp:auto"
_MALLOCS = ("tcmalloc", "jemalloc")


@dataclass(frozen=True)
class SettingChange:
    """One candidate. A variable without a value (None) is left to the plan of `run`."""

    label: str
    env: tuple[tuple[str, str | None], ...] = ()
    options: tuple[tuple[str, Any], ...] = ()  # of `run`


@dataclass(frozen=True)
class Dimension:
    name: str
    candidates: tuple[SettingChange, ...]
    first_wins: bool = False  # the others are tried only if it gains nothing
    offered: bool = False  # measured, but never part of the best


@dataclass(frozen=True)
class Profile:
    """The differences from the run as the user typed it: one change of each dimension, by name."""

    changes: tuple[tuple[str, SettingChange], ...] = ()

    def replaced(self, dimension: str, change: SettingChange) -> Profile:
        return Profile(tuple(sorted({**dict(self.changes), dimension: change}.items())))

    @property
    def env(self) -> dict[str, str | None]:
        return {name: value for _, change in self.changes for name, value in change.env}

    @property
    def options(self) -> dict[str, Any]:
        return {name: value for _, change in self.changes for name, value in change.options}

    def __str__(self) -> str:
        return ", ".join(change.label for _, change in self.changes) or "baseline"

    def applied_to(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of a run with this profile, in place of those in `env`."""
        unchanged = {name: value for name, value in env.items() if name not in self.env}
        return unchanged | {name: value for name, value in self.env.items() if value is not None}


@dataclass(frozen=True)
class TrialRanks:
    """What the ranks of a trial reported about themselves."""

    ranks: int
    libraries: frozenset[str] = frozenset()  # OpenMP runtimes and allocators that they have loaded
    ddp: str = ""  # what sets DistributedDataParallel's bucket size: default, script; "": nothing


@dataclass(frozen=True)
class Setup:
    """The run before anything is changed."""

    hosts: int
    ppn: int  # on the host that has most
    cores: int | None  # of the rank that has fewest; None: unknown
    smt: int  # hardware threads of a core
    quota: bool  # a control group limits the CPU time
    nic: str  # "": hosts have different ones
    backend: str
    env: Mapping[str, str]  # as the user typed or configured it
    preload: str  # LD_PRELOAD of the plan
    variables: frozenset[str]  # that the plan sets on every host
    allocators: tuple[str, ...]  # paths that exist on every host
    options: frozenset[str]  # names of the options of `run`
    n: int | None  # as the user typed it


def setup_of(
    plan: LaunchPlan,
    facts: Sequence[Facts],
    prepared: Sequence[Prepared],
    env: Mapping[str, str],
    options: Collection[str],
    n: int | None,
) -> Setup:
    """Collect from the plan what the candidates depend on."""
    first = plan.hosts[0]
    counts = [host.threads for host in plan.hosts]
    nics, envs = {host.nic for host in plan.hosts}, [dict(host.rank_env) for host in plan.hosts]
    mallocs = [{*entry.preload, *entry.allocators} for entry in prepared]
    shared = set.intersection(*mallocs) if mallocs else set[str]()
    return Setup(
        hosts=len(plan.hosts),
        ppn=max(len(host.ranks) for host in plan.hosts),
        cores=None if None in counts else min(filter(None, counts), default=None),
        smt=min((len(core) for entry in facts for core in fast_cores(entry.cpu)), default=1),
        quota=any(entry.cpu.quota is not None for entry in facts),
        nic=first.nic if len(nics) == 1 else "",
        backend=plan.backend,
        env=dict(env),
        preload=envs[0].get("LD_PRELOAD", ""),
        variables=frozenset.intersection(*map(frozenset, envs)),
        allocators=tuple(sorted(path for path in shared if any(kind in path for kind in _MALLOCS))),
        options=frozenset(options),
        n=n,
    )


def search_space(
    setup: Setup, seen: TrialRanks, allow: Collection[str] = ()
) -> tuple[Dimension, ...]:
    """Return dimensions, the most promising first; one without candidates is left out."""
    changes = {
        "threads": _thread_changes(setup),
        "compression": _compression_changes(setup, seen, allow),
        "connections": _connection_changes(setup),
        "bucket": _bucket_changes(setup, seen),
        "ranks": _rank_changes(setup) if "batch" in allow else (),
        "allocator": _allocator_changes(setup, seen),
        "openmp": _openmp_changes(setup, seen),
    }
    halves = {"compression": {"first_wins": True, "offered": "numerics" not in allow}}
    rows = (
        Dimension(name, tuple(values), **halves.get(name, {})) for name, values in changes.items()
    )
    return tuple(dimension for dimension in rows if dimension.candidates)


def left_out(setup: Setup, seen: TrialRanks, allow: Collection[str] = ()) -> tuple[str, ...]:
    """Return what is not tried at all, with the reason."""
    reasons = []
    if "batch" not in allow:
        reasons.append("ranks per host: they change the global batch (--allow batch)")
    tried = any(_compression_changes(setup, seen, allow))
    if "numerics" not in allow and "compress" in setup.options and seen.ranks > 1 and not tried:
        reasons.append("compressed gradients: they change the results (--allow numerics)")
    if setup.hosts > 1 and not setup.nic:
        reasons.append("gloo connections: the hosts' network interfaces have different names")
    if seen.ddp == "script":
        reasons.append("bucket size: the script sets bucket_cap_mb")
    preset = [name for name in ("LD_PRELOAD", "GLOO_SOCKET_IFNAME") if name in setup.env]
    reasons += [f"{name}: you have set it" for name in preset]
    return (*reasons, *LEFT_OUT)


def _variable_change(name: str, value: str | None, note: str = "") -> SettingChange:
    label = f"{name}={value}" if value else f"without {name}"
    return SettingChange(f"{label} {note}".rstrip(), ((name, value),))


def _thread_changes(setup: Setup) -> Iterator[SettingChange]:
    """Yield first the computed number, if the user has set something else."""
    name, cores = "OMP_NUM_THREADS", setup.cores
    current = setup.env.get(name)
    if current is not None and current != str(cores):
        label = f"{name}={cores} (computed)" if cores else f"{name} of torch"
        yield SettingChange(label, ((name, None),))
    if cores is None:
        return
    counts = [cores * setup.smt] if setup.smt > 1 and not setup.quota else []
    counts += [max(1, cores // 2), cores - 1, cores // 4 if cores >= 16 else 0]
    for count in dict.fromkeys(counts):
        if count > 0 and count != cores and str(count) != current:
            yield _variable_change(name, str(count))


def _compression_changes(
    setup: Setup, seen: TrialRanks, allow: Collection[str]
) -> Iterator[SettingChange]:
    """Yield candidates; fp16 loses small gradients, so it is for a gloo that cannot sum bf16."""
    kinds = ("bf16", "fp16") if "numerics" in allow else ("bf16",) * (setup.hosts > 1)
    if "compress" in setup.options and seen.ranks > 1 and seen.ddp:
        for kind in kinds:
            yield SettingChange(f"--compress {kind}", options=(("compress", kind),))


def _connection_changes(setup: Setup) -> Iterator[SettingChange]:
    name = "GLOO_SOCKET_IFNAME"
    if setup.hosts > 1 and setup.nic and setup.backend == "gloo" and name not in setup.env:
        for count in (2, 4):
            value = ",".join([setup.nic] * count)
            yield SettingChange(f"{count} gloo connections", ((name, value),))


def _bucket_changes(setup: Setup, seen: TrialRanks) -> Iterator[SettingChange]:
    if seen.ranks > 1 and seen.ddp == "default":
        for size in ("100", "5", "400"):
            if size != setup.env.get(BUCKET):
                yield SettingChange(f"{size} MB buckets", ((BUCKET, size),))


def _rank_changes(setup: Setup) -> Iterator[SettingChange]:
    counts = [setup.ppn * 2] if (setup.cores or 0) > 1 else []
    counts += [setup.ppn // 2] if setup.ppn > 1 else []
    for count in counts:
        of_all = (("n", count * setup.hosts),) if setup.n is not None else ()
        words = f"{count} ranks per host" if count > 1 else "1 rank per host"
        yield SettingChange(words, options=(*of_all, ("ppn", count)))


def _allocator_changes(setup: Setup, seen: TrialRanks) -> Iterator[SettingChange]:
    if "LD_PRELOAD" in setup.env:
        return
    loaded = {kind for kind in _MALLOCS if f"lib{kind}" in seen.libraries}
    openmp = [path for path in setup.preload.split(":") if "libiomp5" in path]
    for kind in _MALLOCS:
        path = next((path for path in setup.allocators if kind in path), "")
        if path and kind not in loaded:
            extra = (("MALLOC_CONF", _JEMALLOC),) if kind == "jemalloc" else ()
            yield SettingChange(kind, (("LD_PRELOAD", ":".join([*openmp, path])), *extra))
    if loaded:
        yield SettingChange("malloc of glibc", (("LD_PRELOAD", ":".join(openmp)),))


def _openmp_changes(setup: Setup, seen: TrialRanks) -> Iterator[SettingChange]:
    """Yield settings of the runtime the ranks have loaded; a single thread has none."""
    if setup.cores == 1:
        return
    if "libiomp5" in seen.libraries:
        for time in ("0", "200"):
            if setup.env.get("KMP_BLOCKTIME", "1") != time:
                yield _variable_change("KMP_BLOCKTIME", time)
        if "KMP_AFFINITY" in setup.variables and "KMP_AFFINITY" not in setup.env:
            yield _variable_change("KMP_AFFINITY", "disabled")
    elif "libgomp" in seen.libraries:
        if "OMP_PROC_BIND" not in setup.env:
            bound = (("OMP_PROC_BIND", "close"), ("OMP_PLACES", "cores"))
            yield SettingChange("OMP_PROC_BIND=close", bound)
        if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & setup.env.keys():
            yield _variable_change("GOMP_SPINCOUNT", "10000")
            yield _variable_change("OMP_WAIT_POLICY", "passive")
