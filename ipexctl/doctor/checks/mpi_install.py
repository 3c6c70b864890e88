"""MPIs: their files, and which one a shell finds."""

from __future__ import annotations

from collections.abc import Iterator

from ipexctl.doctor.checks.account_environment import BY_HAND, by_hand_check, variable
from ipexctl.doctor.checks.registry import Sight, cluster_check, host_check
from ipexctl.doctor.checks.software_stack import (
    ALL,
    CCL,
    INSTALL,
    LEVELS,
    PROVED,
    REINSTALL,
    environment_check,
    pip,
)
from ipexctl.doctor.report.cluster import Cluster, groups, hosts_by_value
from ipexctl.doctor.report.finding import Severity
from ipexctl.doctor.report.suggested_fix import Shell, command, do
from ipexctl.facts.facts import Facts
from ipexctl.facts.software_facts import Mpi, Prefix

# --- files ---------------------------------------------------------------------------------------


@environment_check(
    "MPI-001",
    title="Intel MPI's libfabric is missing",
    severity=ALL,
    seen="impi-rt is installed without libfabric.so.1 (as with impi-rt 2021.19)",
    why="MPI_Init ends with `failed to load libfabric: libfabric.so.1`. impi-rt 2021.19 needs a "
    "package `libfabric` that the public index does not have.",
    fix=REINSTALL,
)
def no_libfabric(facts: Facts, prefix: Prefix) -> Sight | None:
    if not prefix.mpi or prefix.mpi.libfabric:
        return None
    text = f"impi-rt {prefix.version('impi-rt')} in {prefix.path} without libfabric.so.1"
    return Sight(text, fix=pip(prefix.path, "install", "impi-rt<2021.19"))


@environment_check(
    "MPI-002",
    title="Intel MPI's network providers are missing",
    severity=ALL,
    seen="libfabric is installed without its tcp provider",
    why="MPI_Init ends with `OFI fi_getinfo() failed ... No data available`: libfabric has no "
    "provider for the network.",
    fix=REINSTALL,
)
def no_provider(facts: Facts, prefix: Prefix) -> str | None:
    files = prefix.mpi
    if not files or not files.libfabric or "tcp" in files.providers:
        return None
    have = ", ".join(files.providers) or "none"
    return f"no libtcp-fi.so below {files.libfabric} (providers: {have})"


@environment_check(
    "MPI-003",
    title="the Intel MPI installation is incomplete",
    severity=ALL,
    seen="impi-rt is installed, but libmpi.so.12, mpirun or mpiexec.hydra is missing",
    why="`libmpi.so.12: cannot open shared object file`, or `mpiexec.hydra: not found`.",
    fix=REINSTALL,
)
def no_libmpi(facts: Facts, prefix: Prefix) -> str | None:
    if not prefix.mpi:
        return None
    library = [] if prefix.mpi.libmpi else [f"{prefix.path}/lib/libmpi.so.12"]
    absent = [*library, *prefix.mpi.absent]
    return f"missing: {', '.join(absent)}" if absent else None


@host_check(
    "MPI-004",
    title="MPI's programs are not executable",
    severity=ALL,
    seen="mpirun, mpiexec.hydra or Hydra's proxies have no x bit",
    why="`Permission denied`, or `unable to run bstrap_proxy` on every host. Wheels that were "
    "unpacked and repacked lose it.",
    fix=Shell("chmod +x PREFIX/bin/mpi* PREFIX/bin/hydra_*"),
)
def not_runnable(facts: Facts) -> Iterator[Sight]:
    kinds = {p.path + "/bin": p.kind for p in facts.software.prefixes} if facts.software else {}
    for mpi in facts.software.mpis if facts.software else ():
        if not mpi.not_run:
            continue
        kind = kinds.get(mpi.bin, "active" if mpi.path is not None else "other")
        paths = tuple(f"{mpi.bin}/{name}" for name in mpi.not_run)
        yield Sight(
            f"no x bit: {' '.join(paths)}",
            severity=LEVELS[ALL][kind],
            fix=command("chmod +x", *paths),
        )


@environment_check(
    "MPI-005",
    title="the bindings' oneCCL library is missing",
    severity=ALL,
    seen="oneccl_bind_pt is installed, and its environment has no libccl.so.1",
    why="`libccl.so.1: cannot open shared object file` on import: the bindings were built "
    "against a system-wide oneCCL, whose setvars.sh must be sourced.",
    fix=do(
        command("source /opt/intel/oneapi/setvars.sh"), "   before, or use gloo: ", INSTALL, PROVED
    ),
)
def no_libccl(facts: Facts, prefix: Prefix) -> str | None:
    if prefix.ccl is not False or "/ccl" in variable(facts, "LD_LIBRARY_PATH"):
        return None
    return f"oneccl_bind_pt {prefix.version(CCL)} in {prefix.path}, no libccl.so.1"


# --- which MPI a shell finds ---------------------------------------------------------------------


def _first(facts: Facts) -> Mpi | None:
    found = [m for m in (facts.software.mpis if facts.software else ()) if m.path is not None]
    return min(found, key=lambda m: m.path or 0, default=None)


@by_hand_check(
    "MPI-006",
    title="several MPIs in PATH",
    seen="two flavors of mpirun are in the PATH of a command over SSH",
    why="The order decides which one starts, and the mpirun of one with the library of another "
    "gives ranks that each believe they are rank 0 of 1, or `Missing hostname or invalid "
    "host/port`. `ipexctl run` starts its own by its full path.",
    fix="keep one in PATH: see ~/.bashrc, ~/.profile and `module list`",
)
def several_mpis(facts: Facts) -> Sight | None:
    found = [m for m in (facts.software.mpis if facts.software else ()) if m.path is not None]
    if len({m.flavour for m in found}) < 2:
        return None
    return Sight("first " + ", then ".join(f"{m} ({m.bin})" for m in found))


@cluster_check(
    "MPI-007",
    title="the hosts have different MPIs in PATH",
    severity=BY_HAND,
    seen="the first mpirun in PATH differs between hosts, or is missing on some",
    why="A manual mpirun starts the daemons on the other hosts from their own PATH: `orted: "
    "command not found`, `hydra_bstrap_proxy: No such file or directory`. `ipexctl run` does "
    "not.",
    fix="load the same MPI on all hosts, in ~/.bashrc before its early return",
)
def different_mpis(cluster: Cluster) -> Sight | None:
    hosts = [f for f in cluster.hosts if f.software]
    found = groups(hosts, lambda f: str(mpi) if (mpi := _first(f)) else "none")
    own = all(f.software and f.software.used for f in hosts)
    level = Severity.NOTE if own else Severity.WARN
    return Sight(hosts_by_value(found), severity=level) if len(found) > 1 else None


@cluster_check(
    "MPI-008",
    title="the environments have different paths",
    severity=Severity.NOTE,
    seen="ipexctl's environment is at a different path on some hosts",
    why="A manual mpirun looks for its proxies and for python at the path used on the launching "
    "host: "
    "`hydra_bstrap_proxy: No such file or directory`, `execvp error on file`. `ipexctl run` "
    "rewrites the paths for each host.",
    fix="use the same --root on all hosts, a path that exists everywhere",
)
def different_paths(cluster: Cluster) -> Sight | None:
    hosts = [f for f in cluster.hosts if f.software and f.software.used]
    found = groups(hosts, lambda f: f"{f.disk.root}/current")
    return Sight(hosts_by_value(found)) if len(found) > 1 else None


@host_check(
    "MPI-020",
    title="Open MPI refuses to run as root",
    severity=Severity.NOTE,
    seen="the account is root and Open MPI is the first mpirun in PATH",
    why="`prterun has detected an attempt to run as root` and exits. `ipexctl run` uses Intel MPI.",
    fix=do("log in as an ordinary user, or ", command("mpirun --allow-run-as-root")),
)
def open_mpi_root(facts: Facts) -> Sight | None:
    mpi = _first(facts)
    if facts.uid != 0 or not mpi or mpi.flavour != "openmpi":
        return None
    return Sight(f"{mpi} in {mpi.bin}")
