"""Choose the variables that the ranks of one host get, each with its reason."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ipexctl.errors import InputError
from ipexctl.facts.core_pinning import Places
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.plan import rank_variables
from ipexctl.run.plan.launch import YOURS, PlannedHost, Prepared, RunRequest
from ipexctl.user_code.frameworks import Frameworks
from ipexctl.user_code.source import SHARE

BINDINGS = ("oneccl-bind-pt", "torch-ccl")  # the second is older


@dataclass(frozen=True)
class Variable:
    name: str
    value: str
    why: str


@dataclass(frozen=True)
class Backend:
    """The backend of torch.distributed, and the communication threads of each rank."""

    name: str
    why: str
    workers: int = 0  # CPUs to set apart
    count: int = 0  # CCL_WORKER_COUNT


@dataclass(frozen=True)
class Site:
    """One host of the run, as far as it is planned."""

    node: PlannedHost
    places: Places
    backend: Backend
    nic: str
    nic_why: str
    alone: bool
    frameworks: Frameworks = Frameworks()
    cpu_only: bool = True  # whether no host of the run has an accelerator that its torch could use


def choose_backend(nodes: Sequence[PlannedHost], request: RunRequest) -> Backend:
    """Choose `ccl` if all hosts have the bindings, else gloo; the user's choice comes first."""
    env = dict(request.env)
    lacking = [node.host.name for node in nodes if not _oneccl_bindings(node.prepared)]
    name, why = "ccl", f"{_oneccl_bindings(nodes[0].prepared)} is installed"
    if lacking:
        name, why = "gloo", "no oneCCL bindings are installed"
        if len(lacking) < len(nodes):
            why = f"{lacking[0]} has no oneCCL bindings"
    if "IPEXCTL_BACKEND" in env:
        name, why = env["IPEXCTL_BACKEND"], f"{YOURS} {request.origin_of('IPEXCTL_BACKEND')}"
    if name != "ccl":
        return Backend(name, why)
    count = _parse_workers(env.get("CCL_WORKER_COUNT", "1"))
    return Backend(name, why, 0 if "CCL_WORKER_AFFINITY" in env else count, count)


def _parse_workers(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= 64):
        raise InputError(
            f"CCL_WORKER_COUNT={text}: must be a number from 1 to 64",
            why="oneCCL needs a thread to communicate; older Trainers refuse 0",
            slug="ccl-workers-invalid",
        )
    return int(text)


def _oneccl_bindings(prepared: Prepared) -> str:
    packages = dict(prepared.packages)
    return next((f"{name} {packages[name]}" for name in BINDINGS if name in packages), "")


def planned_vars(site: Site) -> tuple[Variable, ...]:
    """Return the variables that the plan sets unless the user does."""
    return (
        *_thread_variables(site),
        *_network_variables(site),
        *_ccl_variables(site),
        *_preload_variables(site),
        *_framework_variables(site),
        *_other_variables(site),
    )


def _thread_variables(site: Site) -> Iterator[Variable]:
    places, cpu = site.places, site.node.facts.cpu
    if places.threads is None:
        return
    why = "one per core of the rank"
    if places.shared:
        why = "more ranks than cores"
    elif places.capped:
        why = f"the control group allows {cpu.quota:g} CPUs' worth of time"
    if site.backend.workers and not places.crowded:
        why += f", {site.backend.workers} more for communication"
    yield Variable("OMP_NUM_THREADS", str(places.threads), why)


def _network_variables(site: Site) -> Iterator[Variable]:
    yield Variable("GLOO_SOCKET_IFNAME", site.nic, site.nic_why)
    if not site.alone or site.backend.name == "ccl":
        yield Variable("FI_PROVIDER", "tcp", "for MPI and ccl; works on every network")
        yield Variable("FI_TCP_IFACE", site.nic, "on another interface, libfabric may hang")


def _ccl_variables(site: Site) -> Iterator[Variable]:
    if site.backend.name != "ccl":
        return
    yield Variable("CCL_WORKER_COUNT", str(site.backend.count), "communication threads per rank")
    yield Variable("CCL_ATL_TRANSPORT", "ofi", "the same for every MPI")
    yield Variable("CCL_KVS_IFACE", site.nic, "on another interface, oneCCL may wait 120 s")
    comm = [cpu for part in site.places.parts for cpu in part.comm]
    if comm:
        why = "too few cores to reserve any" if site.places.crowded else "no rank computes there"
        yield Variable("CCL_WORKER_AFFINITY", ",".join(map(str, comm)), why)


def _preload_variables(site: Site) -> Iterator[Variable]:
    """Yield LD_PRELOAD for libiomp5 and an allocator, with their settings."""
    # the loader takes a space and a colon for the end of a path
    usable = (path for path in site.node.prepared.preload if not set(path) & set(" :"))
    libraries = {path.rpartition("/")[2].partition(".")[0]: path for path in usable}
    openmp = libraries.get("libiomp5")
    allocator = next((libraries[n] for n in ("libtcmalloc", "libjemalloc") if n in libraries), None)
    paths = [path for path in (openmp, allocator) if path]
    if paths:
        yield Variable("LD_PRELOAD", ":".join(paths), "it is in the environment")
    if allocator and "libjemalloc" in allocator:
        settings = "oversize_threshold:1,background_thread:true,metadata_thp:auto"
        yield Variable("MALLOC_CONF", settings, "as Intel advises for jemalloc")
    if not openmp:
        return
    yield Variable("KMP_BLOCKTIME", "1", "idle threads sleep after 1 ms, not 200")
    deepspeed = "deepspeed" in dict(site.node.prepared.packages)  # it refuses KMP_AFFINITY
    if not (site.places.capped or site.places.shared or site.places.threads is None or deepspeed):
        yield Variable(
            "KMP_AFFINITY", "granularity=fine,compact,1,0", "libiomp5: a core for each thread"
        )


def joins_by_variable(site: Site) -> bool:
    """Return whether ACCELERATE_USE_CPU is safe: it disables Accelerate's DeepSpeed and FSDP."""
    return site.cpu_only and not site.frameworks.sharding


def _framework_variables(site: Site) -> Iterator[Variable]:
    packages = dict(site.node.prepared.packages)
    if "accelerate" in packages and joins_by_variable(site):
        why = "without it, Accelerator() and Trainer would train alone on each rank"
        old = re.match(r"0\.(\d|1[0-4])\.", packages["accelerate"])
        yield Variable("USE_CPU" if old else "ACCELERATE_USE_CPU", "true", why)
    if "deepspeed" in packages and site.cpu_only:
        yield Variable("DS_ACCELERATOR", "cpu", "DeepSpeed may assume another one")


def usable_accelerators(prepared: Prepared) -> tuple[str, ...]:
    """Return the accelerators that the host's torch can use; a CPU build uses none."""
    built_for = dict(prepared.packages).get("torch", "").partition("+")[2]
    kinds = next((k for name, k in _DEVICES.items() if built_for.startswith(name)), _CUDA)
    return tuple(path for path in prepared.accelerators if path.startswith(kinds))


# by the tag of the torch build; builds of the default index have no tag and are for CUDA
_CUDA = ("/dev/nvidia", "/dev/hl", "/dev/accel/")
_DEVICES: Mapping[str, tuple[str, ...]] = {"cpu": (), "rocm": ("/dev/kfd",), "xpu": ("/dev/dri/",)}


def _other_variables(site: Site) -> Iterator[Variable]:
    yield Variable("IPEXCTL_BACKEND", site.backend.name, site.backend.why)
    yield Variable("PYTHONUNBUFFERED", "1", "print lines as they are written")
    if share := site.node.share:
        yield Variable(SHARE, f"{share.value:.12g}", share.why)


ROOTS_WHY = "the packages of your project"


def of_project(roots: Sequence[str]) -> tuple[Variable, ...]:
    """Return PYTHONPATH with these folders, relative to where Python starts, as do the ranks."""
    return (Variable("PYTHONPATH", ":".join(roots), ROOTS_WHY),) if roots else ()


def of_compression(mode: str) -> tuple[Variable, ...]:
    if mode == "off":
        return ()
    return (Variable("IPEXCTL_COMPRESS", mode, "--compress: precision of gradients sent by DDP"),)


def merge_variables(
    planned: Sequence[Variable], request: RunRequest, env: Mapping[str, str]
) -> tuple[Variable, ...]:
    """Merge variables. The user's win, except those that differ in each rank. Variables that only
    the user has set come last, without a reason."""
    origin_of = request.origin_of
    first = [
        Variable(v.name, env[v.name], f"{YOURS} {origin_of(v.name)}, instead of {v.value}")
        if v.name in env and env[v.name] != v.value
        else v
        for v in planned
    ]
    planned_names = rank_variables.FIXED | {v.name for v in planned}
    return (*first, *(Variable(k, v, "") for k, v in env.items() if k not in planned_names))
