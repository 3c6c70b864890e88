"""--ports 40000-40100: the ports that can be kept within a range, and those that cannot."""

from __future__ import annotations

from collections.abc import Sequence

from ipexctl.errors import InputError
from ipexctl.inventory.hostfile_text import fold
from ipexctl.local.run_options import Ports
from ipexctl.run.plan.launch import HostPlan, PlannedHost

FEWEST = 16  # for two runs at a time, and 10 for Hydra and the processes that use MPI


def read_ports(text: str) -> Ports:
    """Parse --ports. Raise InputError for a range that no run could use."""
    first, dash, last = text.partition("-")
    if not (dash and first.isascii() and last.isascii() and first.isdigit() and last.isdigit()):
        raise InputError(
            f"--ports {text}: expected a range such as 40000-40100", slug="ports-not-a-range"
        )
    low, high = int(first), int(last)
    if not 1024 <= low <= high <= 65535:
        raise InputError(
            f"--ports {text}: expected FIRST-LAST, with ports from 1024 to 65535",
            slug="ports-not-a-range",
        )
    if high - low + 1 < FEWEST:
        raise InputError(
            f"--ports {text}: {high - low + 1} ports are too few",
            why="MASTER_PORT, mpirun and every process that uses MPI take some",
            hint=f"open at least {FEWEST} ports, ideally 100",
            slug="ports-too-few",
        )
    return low, high


def reserved_ports(ports: Ports) -> Ports:
    """Return the quarter reserved for MASTER_PORT, Open MPI's daemon and its mpirun: three per run.

    The ports below are for all others. A host chooses its three: remote/run/run_environment.py.
    """
    low, high = ports
    return high + 1 - 3 * max(2, (high - low + 1) // 12), high


def port_variables(ports: Ports, port: int) -> tuple[tuple[str, str], ...]:
    """Return the variables of every MPI, of libfabric and of UCX; each reads only its own names.

    Open MPI's daemon listens on every port that it gets, so it gets one: the port below `port`, the
    free one that its host has reported.
    """
    low, high = ports[0], reserved_ports(ports)[0] - 1
    port_range, count, daemon = f"{low}:{high}", str(high - low + 1), str(port - 1)
    return (
        ("I_MPI_PORT_RANGE", port_range),
        ("MPIEXEC_PORT_RANGE", port_range),
        ("MPIR_CVAR_CH3_PORT_RANGE", port_range),
        ("FI_TCP_PORT_LOW_RANGE", str(low)),
        ("FI_TCP_PORT_HIGH_RANGE", str(high)),
        ("UCX_TCP_PORT_RANGE", f"{low}-{high}"),
        *((f"{name}_ipv{n}_ports", daemon) for name in _OF_DAEMONS for n in (4, 6)),
        *((f"OMPI_MCA_btl_tcp_port_min_v{n}", str(low)) for n in (4, 6)),
        *((f"OMPI_MCA_btl_tcp_port_range_v{n}", count) for n in (4, 6)),
    )


_OF_DAEMONS = ("PRTE_MCA_oob_tcp_dynamic", "OMPI_MCA_oob_tcp_dynamic")  # the second: Open MPI 4


def of_mpirun(first: HostPlan, flags: Sequence[str]) -> tuple[str, ...]:
    """Return flags for Open MPI's mpirun: it takes the port below that of the daemon beside it."""
    option = next((flag for flag in flags if flag.endswith("mca")), "")
    prefix = {"--prtemca": _OF_DAEMONS[0], "--mca": _OF_DAEMONS[1]}.get(option)
    ports = [(n, v) for n, v in first.env if prefix and n.startswith(prefix) and v.isdecimal()]
    return tuple(
        text for n, v in ports for text in (option, n.partition("_MCA_")[2], str(int(v) - 1))
    )


def port_note(nodes: Sequence[PlannedHost], backend: str) -> str:
    """Return a note for gloo, which asks the kernel for any port: only the kernel can limit it."""
    if backend != "gloo":
        return (
            f"--ports does not limit the ports that the backend {backend} opens in addition "
            "to MPI and libfabric"
        )
    ranges: dict[str, list[str]] = {}
    for node in nodes:
        low_high = node.facts.net.port_range
        text = f"{low_high[0]}-{low_high[1]}" if low_high else "the kernel's default range"
        ranges.setdefault(text, []).append(node.host.name)
    where = "; ".join(f"{text} on {fold(hosts)}" for text, hosts in ranges.items())
    return (
        f"--ports cannot limit gloo, which uses any port of {where} "
        "(sysctl net.ipv4.ip_local_port_range): open those between the hosts, too"
    )
