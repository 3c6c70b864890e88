"""--ports 40000-40100: what can be kept within a range of ports, and what can't."""

from __future__ import annotations

from collections.abc import Sequence

from ipexctl.core.inventory import fold
from ipexctl.core.plan.request import Node, Ports
from ipexctl.errors import InputError

FEWEST = 16  # MASTER_PORT, mpirun, and a few of each MPI process


def read_ports(text: str) -> Ports:
    """Raises InputError for what is no range that a run could use."""
    first, dash, last = text.partition("-")
    if not (dash and first.isascii() and last.isascii() and first.isdigit() and last.isdigit()):
        raise InputError(f"--ports {text}: not of the form 40000-40100")
    low, high = int(first), int(last)
    if not 1024 <= low <= high <= 65535:
        raise InputError(f"--ports {text}: ports from 1024 to 65535, the smaller one first")
    if high - low + 1 < FEWEST:
        raise InputError(
            f"--ports {text}: {high - low + 1} ports are too few",
            why="MASTER_PORT, mpirun and every process that uses MPI take some",
            hint=f"open at least {FEWEST} ports, better 100",
        )
    return low, high


def variables(ports: Ports) -> tuple[tuple[str, str], ...]:
    """For every MPI, and for libfabric below it; each reads its own names only."""
    low, high = ports
    pair = f"{low}:{high}"
    return (
        ("I_MPI_PORT_RANGE", pair),
        ("MPIEXEC_PORT_RANGE", pair),
        ("MPIR_CVAR_CH3_PORT_RANGE", pair),
        ("FI_TCP_PORT_LOW_RANGE", str(low)),
        ("FI_TCP_PORT_HIGH_RANGE", str(high)),
        ("PRTE_MCA_oob_tcp_dynamic_ipv4_ports", f"{low}-{high}"),
        ("OMPI_MCA_btl_tcp_port_min_v4", str(low)),
        ("OMPI_MCA_btl_tcp_port_range_v4", str(high - low + 1)),
    )


def note(nodes: Sequence[Node], backend: str) -> str:
    """gloo asks the kernel for any port, so only the kernel can bound it."""
    if backend != "gloo":
        return f"--ports does not bound what the backend {backend} opens beside MPI and libfabric"
    ranges: dict[str, list[str]] = {}
    for node in nodes:
        low_high = node.facts.net.port_range
        text = f"{low_high[0]}-{low_high[1]}" if low_high else "what the kernel gives"
        ranges.setdefault(text, []).append(node.host.name)
    where = "; ".join(f"{text} on {fold(hosts)}" for text, hosts in ranges.items())
    return (
        f"--ports cannot bound gloo, which takes any port of {where} "
        "(sysctl net.ipv4.ip_local_port_range): open those between the hosts, too"
    )
