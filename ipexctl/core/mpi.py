"""The MPIs that start the ranks: where their files are, and how each is told to use our agents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import dropwhile

from packaging.version import Version

from ipexctl.core.model import HostPlan, LaunchPlan
from ipexctl.errors import RunFailed

DAEMONS = frozenset({"hydra_bstrap_proxy", "hydra_pmi_proxy"})


def mpirun(first: HostPlan, n: int, run_dir: str) -> tuple[str, ...]:
    """-genvnone: each host's processes get that host's own environment, from its agent."""
    return (
        f"{first.prefix}/bin/mpirun",
        "-genvnone",
        *("-bootstrap", "ssh", "-bootstrap-exec", f"{run_dir}/bootstrap"),
        *("-iface", first.nic),
        *("-machinefile", f"{run_dir}/hosts"),
        *("-n", str(n)),
        *("/bin/sh", "-c", 'exec "$IPEXCTL_PYTHON" -IS "$IPEXCTL_RUN_DIR/rank.py"'),
    )


# --- what mpirun asks for while it starts ---------------------------------------------------------


@dataclass(frozen=True)
class Launch:
    """One per-host daemon: which host, and its command with that host's own prefix."""

    host: str
    argv: tuple[str, ...]


def read_launch(plan: LaunchPlan, argv: Sequence[str]) -> Launch:
    """`-q -x HOST PREFIX/bin//hydra_bstrap_proxy ...` -> Launch; only what is of this run."""
    words = list(dropwhile(lambda word: word in ("-q", "-x"), argv))
    if len(words) < 2:
        raise RunFailed(f"mpirun asked for something that is not a launch: {tuple(argv)}")
    label, command = words[0], words[1:]
    target = next((h for h in plan.hosts if h.label == label), None)
    if target is None:
        raise RunFailed(f"mpirun asked for a host that is not in this run: {label}")
    own = plan.hosts[0].prefix
    folder, _, program = command[0].rpartition("/")
    if program not in DAEMONS or folder.rstrip("/") != f"{own}/bin":
        raise RunFailed(f"mpirun asked for a program that is not its daemon: {command[0]}")
    return Launch(target.host, tuple(_moved(w, own, target.prefix) for w in command))


def _moved(word: str, own: str, other: str) -> str:
    return other + word[len(own) :] if word == own or word.startswith(own + "/") else word


# --- where the wheels put things ------------------------------------------------------------------


def env_vars(prefix: str, impi_version: str) -> tuple[tuple[str, str], ...]:
    """The variables a process needs to use the environment at `prefix` and the impi-rt in it.

    PATH and LD_LIBRARY_PATH are to be put before what is there; "" for `impi_version`: no MPI.
    """
    path = ("PATH", f"{prefix}/bin")
    if not impi_version:
        return (path,)
    old_layout = Version(impi_version) < Version("2021.15")
    libraries = [f"{prefix}/lib"] + [f"{prefix}/lib/libfabric"] * old_layout
    provider = ("FI_PROVIDER_PATH", f"{prefix}/lib/libfabric/prov")
    return (
        path,
        ("LD_LIBRARY_PATH", ":".join(libraries)),
        ("I_MPI_ROOT", prefix),
        *([provider] if old_layout else []),
    )
