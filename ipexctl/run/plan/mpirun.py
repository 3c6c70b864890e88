"""The commands that start the ranks of a run: mpirun, and its machine file."""

from __future__ import annotations

from collections.abc import Sequence

from ipexctl.run.plan.launch import HostPlan
from ipexctl.stack.mpi import FLAVOURS, NONE

RANK = ("/bin/sh", "-c", 'exec "$IPEXCTL_PYTHON" -IS "$IPEXCTL_PROGRAMS/rank.pyc"')


def mpirun_command(
    first: HostPlan,
    name: str,
    n: int,
    run_dir: str,
    extra_flags: tuple[str, ...] = (),
    *,
    ipv6: bool = False,
) -> tuple[str, ...]:
    """Return the command on the first host; () if ipexctl's agents start the ranks themselves.

    `ipv6`: whether a host has no IPv4 address.
    """
    if name == NONE:
        return ()
    values = {"run": run_dir, "nic": first.nic, "n": str(n)}
    row = FLAVOURS[name]
    words = (*(row.ipv6 or ()), *row.flags) if ipv6 else row.flags
    flags = tuple(word.format_map(values) for word in words)
    return (f"{first.mpi_bin}/mpirun", *flags, *extra_flags, *RANK)


def rank_starter_command(host: HostPlan) -> tuple[str, ...]:
    """Return the command that starts the ranks of one host without MPI."""
    return (*RANK[:2], RANK[2] + ' "$@"', "sh", *(f"{p.rank}:{p.local_rank}" for p in host.ranks))


def machinefile_text(hosts: Sequence[HostPlan], name: str) -> str:
    if name == NONE:
        return ""
    slots = FLAVOURS[name].slots
    return "".join(slots.format(label=host.label, ranks=len(host.ranks)) + "\n" for host in hosts)
