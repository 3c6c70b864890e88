"""MPI installations: whether their files are complete and executable."""

from __future__ import annotations

from collections.abc import Iterator

from ipexctl.doctor.checks.registry import Evidence, host_check
from ipexctl.doctor.checks.software import (
    BY_USE,
    CCL,
    INSTALL,
    PROVED,
    REINSTALL,
    environment_check,
    pip_command,
)
from ipexctl.doctor.report.finding import Severity, Shell, command, do
from ipexctl.facts.facts import Facts
from ipexctl.facts.software_facts import Prefix


@environment_check(
    "MPI-001",
    title="Intel MPI's libfabric is missing",
    severity=BY_USE,
    seen="impi-rt is installed without libfabric.so.1 (as with impi-rt 2021.19)",
    why="MPI_Init ends with `failed to load libfabric: libfabric.so.1`. impi-rt 2021.19 needs a "
    "package `libfabric` that the public index does not have.",
    fix=REINSTALL,
)
def no_libfabric(facts: Facts, prefix: Prefix) -> Evidence | None:
    if not prefix.mpi or prefix.mpi.libfabric:
        return None
    text = f"impi-rt {prefix.version('impi-rt')} in {prefix.path} without libfabric.so.1"
    return Evidence(text, fix=pip_command(prefix.path, "install", "impi-rt<2021.19"))


@environment_check(
    "MPI-002",
    title="Intel MPI's network providers are missing",
    severity=BY_USE,
    seen="libfabric is installed without its tcp provider",
    why="MPI_Init ends with `OFI fi_getinfo() failed ... No data available`: libfabric has no "
    "provider for the network.",
    fix=REINSTALL,
)
def no_provider(facts: Facts, prefix: Prefix) -> str | None:
    files = prefix.mpi
    if not files or not files.libfabric or "tcp" in files.providers:
        return None
    providers = ", ".join(files.providers) or "none"
    return f"no libtcp-fi.so below {files.libfabric} (providers: {providers})"


@environment_check(
    "MPI-003",
    title="the Intel MPI installation is incomplete",
    severity=BY_USE,
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
    severity=BY_USE,
    seen="mpirun, mpiexec.hydra or Hydra's proxies have no x bit",
    why="`Permission denied`, or `unable to run bstrap_proxy` on every host. Wheels that were "
    "unpacked and repacked lose it.",
    fix=Shell("chmod +x PREFIX/bin/mpi* PREFIX/bin/hydra_*"),
)
def not_runnable(facts: Facts) -> Iterator[Evidence]:
    in_use = facts.software.used if facts.software else None
    for mpi in facts.software.mpis if facts.software else ():
        if not mpi.not_run:
            continue
        paths = tuple(f"{mpi.bin}/{name}" for name in mpi.not_run)
        yield Evidence(
            f"no x bit: {' '.join(paths)}",
            severity=Severity.FAIL if in_use and mpi.bin == f"{in_use.path}/bin" else Severity.WARN,
            fix=command("chmod +x", *paths),
        )


@environment_check(
    "MPI-005",
    title="the bindings' oneCCL library is missing",
    severity=BY_USE,
    seen="oneccl_bind_pt is installed, and its environment has no libccl.so.1",
    why="`libccl.so.1: cannot open shared object file` on import: the bindings were built "
    "against a system-wide oneCCL, whose setvars.sh must be sourced.",
    fix=do(
        command("source /opt/intel/oneapi/setvars.sh"), "   before, or use gloo: ", INSTALL, PROVED
    ),
)
def no_libccl(facts: Facts, prefix: Prefix) -> str | None:
    if prefix.ccl is not False:
        return None
    return f"oneccl_bind_pt {prefix.version(CCL)} in {prefix.path}, no libccl.so.1"
