"""Recommended settings for each group of equal hosts, with the reasons.

Ranks and threads are the defaults of `ipexctl run`, from the same functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ipexctl.doctor.report.cluster import CheckedHosts
from ipexctl.errors import InputError, NothingFits
from ipexctl.facts import core_pinning, isa, processors, usable_cores
from ipexctl.facts.facts import Facts
from ipexctl.inventory.hostfile_text import fold
from ipexctl.quick_dataclass import dataclass
from ipexctl.stack import stack_decision
from ipexctl.stack.stack_decision import Decision
from ipexctl.stack.version_table import Request


@dataclass(frozen=True)
class Recommendation:
    """A recommendation. `row` "": no row of the version table fits; then `verdict` says why.

    `verdict` is also set if training works, but without some features of x86 hosts.
    """

    hosts: tuple[str, ...]
    row: str
    title: str  # "torch 2.13.0"
    python: str
    dtype: str  # bf16 or fp32
    ranks: int  # per host
    threads: int  # per rank
    why: tuple[str, ...]
    verdict: str = ""
    processor: str = ""  # its generation: Sapphire Rapids; "" if it is not in the table


def recommend_settings(cluster: CheckedHosts) -> tuple[Recommendation, ...]:
    """Return one recommendation for each group of equal hosts, in the order of the hosts."""
    together = _decide_as_install(cluster.hosts, cluster)
    groups: dict[object, list[Facts]] = {}
    for facts in cluster.hosts:
        groups.setdefault(_advice_key(facts), []).append(facts)
    return tuple(_recommendation(hosts, cluster, together) for hosts in groups.values())


def _advice_key(facts: Facts) -> object:
    """Return a key that is equal for hosts that get the same advice for the same reasons."""
    cpu = facts.cpu
    shape = len(usable_cores.list_cores(cpu)), _ranks_reason(facts), _threads_reason(facts)
    minors = frozenset(python.version[:2] for python in facts.pythons)
    system = facts.libc, minors, facts.agent
    return cpu.arch, isa.cpu_level(cpu), processors.processor_generation(cpu), shape, system


def _recommendation(
    hosts: Sequence[Facts], cluster: CheckedHosts, together: Decision | str
) -> Recommendation:
    first = hosts[0]
    ranks = usable_cores.default_ranks(first.cpu)
    chosen = together if isinstance(together, Decision) else _decide_as_install(hosts, cluster)
    dtype = chosen.dtype if isinstance(chosen, Decision) else stack_decision.choose_dtype(hosts)
    row = chosen.stack if isinstance(chosen, Decision) else None
    reasons = [_dtype_reason(first, cluster, dtype), _ranks_reason(first), _threads_reason(first)]
    reasons += _stack_reasons(chosen) if isinstance(chosen, Decision) else ()
    return Recommendation(
        hosts=tuple(facts.host for facts in hosts),
        row=row.row.name if row else "",
        title=row.title if row else "",
        python=row.python_text if row else "",
        dtype=dtype,
        ranks=ranks,
        threads=core_pinning.place_ranks(first, ranks).threads or 1,
        why=tuple(reasons),
        verdict="; ".join(_verdict_reasons(first, chosen)),
        processor=processors.processor_generation(first.cpu),
    )


def _decide_as_install(hosts: Sequence[Facts], cluster: CheckedHosts) -> Decision | str:
    """Return what `install` would choose in this folder without options, or why nothing fits."""
    if not hosts or not cluster.rows:
        return "no version table available"
    lock = cluster.lock
    carried = lock.cpython if lock else None
    try:
        return stack_decision.decide_stack(hosts, Request(mpi=""), lock, cluster.rows, carried)
    except NothingFits as none:
        return none.why.partition("\n")[0]
    except InputError as e:
        return e.what


def _verdict_reasons(facts: Facts, chosen: Decision | str) -> Iterator[str]:
    if not isa.is_x86(facts.cpu):
        yield (
            f"{facts.cpu.arch} is not x86: stock PyTorch with gloo, without IPEX, oneCCL and Intel "
            "MPI (ipexctl install --mpi none)"
        )
    elif isa.cpu_level(facts.cpu) in ("sse", "avx") and not isinstance(chosen, str):
        yield "no AVX2: PyTorch runs, but slowly; leave this host out if the others have AVX2"
    if isinstance(chosen, str):
        yield f"no stack fits: {chosen}"


# --- why -----------------------------------------------------------------------------------------


def _stack_reasons(decision: Decision) -> Iterator[str]:
    yield decision.stack.reason
    if pythons := [stack.python_text for stack in decision.candidates[1:]]:
        yield (
            f"Python {decision.stack.python_text}: the newest on all hosts; `install` takes "
            f"{' or '.join(pythons)} where the index has no CPU build of torch for it"
        )


def _dtype_reason(facts: Facts, cluster: CheckedHosts, dtype: str) -> str:
    hidden = processors.underreported_processor(facts.cpu)
    who = "the virtual machine" if processors.is_guest(facts.cpu) else "this system"
    if not isa.has_bf16(facts.cpu):
        if not hidden or not hidden.bf16:
            return f"fp32: {isa.cpu_level(facts.cpu) or 'this processor'} has no fast bf16"
        name = "AMX" if hidden.level == "amx" else "AVX-512 BF16"
        return (
            f"fp32: {who} hides the {name} of its {hidden.name}; once it is exposed (CPU-005), bf16"
        )
    unit = "AMX" if isa.cpu_level(facts.cpu) == "amx" else "AVX-512"
    if dtype == stack_decision.FP32:
        return (
            f"fp32: all ranks train in one dtype, and {_without_bf16(cluster)}; "
            f"else bf16, which {unit} computes here"
        )
    note = f"; {who} hides AMX, which is faster (CPU-005)" if hidden else ""
    return (
        f"bf16: {unit} computes it in hardware, and its range is that of fp32, unlike fp16's{note}"
    )


def _without_bf16(cluster: CheckedHosts) -> str:
    slow = [f for f in cluster.hosts if not isa.has_bf16(f.cpu)]
    hiding = [f.host for f in slow if (p := processors.underreported_processor(f.cpu)) and p.bf16]
    without = [f.host for f in slow if f.host not in hiding]
    parts = [f"{fold(hiding)} hides bf16 (CPU-005 exposes it)"] if hiding else []
    parts += [f"{fold(without)} has no fast bf16"] if without else []
    return " and ".join(parts)


def _ranks_reason(facts: Facts) -> str:
    nodes, ranks = usable_cores.numa_nodes(facts.cpu), usable_cores.default_ranks(facts.cpu)
    memory_only = sum(not n.cpus for n in facts.nodes)
    if facts.nodes_contradict:
        return "1 rank per host: the NUMA information contradicts itself"
    text = f"{ranks} rank{'s' if ranks > 1 else ''} per host: "
    if ranks < nodes:
        return f"{text}the control group's {facts.cpu.quota:g} CPUs fill no more NUMA nodes"
    text += "one per NUMA node with CPUs"
    return f"{text} ({memory_only} more have memory only)" if memory_only else text


def _threads_reason(facts: Facts) -> str:
    cpu = facts.cpu
    places = core_pinning.place_ranks(facts, usable_cores.default_ranks(cpu))
    threads = places.threads or 1
    text = f"{threads} thread{'s' * (threads != 1)} per rank"
    if places.capped:
        return f"{text}: the control group allows {cpu.quota:g} CPUs' worth of time"
    fast, every = len(usable_cores.fast_cores(cpu)), len(usable_cores.list_cores(cpu))
    kind = "fast core" if fast < every else "core"
    limited = cpu.allowed is not None and len(cpu.allowed) < len(cpu.cpus)
    return f"{text}: one per {'allowed ' * limited}{kind} of its node"
