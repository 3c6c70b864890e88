"""The variables that steer MPI, libfabric and oneCCL, as a command over SSH gets them.

`ipexctl run` gives its ranks an environment of its own: these hurt what is started by hand
(account_environment.by_hand_check).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ipexctl.doctor.checks.account_environment import by_hand_check, missing_paths, variable
from ipexctl.doctor.checks.interfaces import SEE_ADDRESSES
from ipexctl.doctor.checks.registry import Sight
from ipexctl.doctor.checks.software_stack import CCL, INSTALL, IPEX, environment_check
from ipexctl.doctor.report.finding import Severity
from ipexctl.doctor.report.suggested_fix import Shell, command, do
from ipexctl.facts import host_facts as of
from ipexctl.facts.facts import Facts
from ipexctl.facts.reader import cpu_list
from ipexctl.facts.software_facts import Prefix

_HARDWARE = {
    "verbs": ("InfiniBand or RoCE", ""),
    "psm3": ("InfiniBand or RoCE", ""),
    "efa": ("an EFA device", ""),
    "mlx": ("InfiniBand", ""),
    "psm2": ("Omni-Path", "hfi1"),
    "cxi": ("Slingshot", "cxi"),
}
_ANYWHERE = ("tcp", "shm", "rxm", "udp", "sm2", "self", "hook")


@by_hand_check(
    "MPI-009",
    title="FI_PROVIDER names a provider that this host does not have",
    seen="FI_PROVIDER or I_MPI_OFI_PROVIDER names sockets, or hardware that this host does not "
    "have",
    why="MPI_Init ends with `OFI fi_getinfo() failed ... No data available`. Intel MPI 2021.11 "
    "removed `sockets`; verbs, psm and efa need their hardware. `ipexctl run` does not pass it "
    "on.",
    fix=do(
        command("export FI_PROVIDER=tcp"),
        "   instead, or remove it from ~/.bashrc and ~/.profile",
    ),
)
def provider(facts: Facts) -> Iterator[Sight]:
    for name in ("FI_PROVIDER", "I_MPI_OFI_PROVIDER"):
        for word in re.split("[;,]", variable(facts, name)):
            if word == "sockets":
                yield Sight(f"{name}={word}: no longer in Intel MPI")
            elif word in _HARDWARE and not _has(facts, _HARDWARE[word][1]):
                yield Sight(f"{name}={word}, and there is no {_HARDWARE[word][0]}")


def _has(facts: Facts, device: str) -> bool:
    found = facts.software.fabrics if facts.software else ()
    return any(f.startswith(device) for f in found)


@by_hand_check(
    "MPI-010",
    title="a variable names a folder that does not exist",
    seen="I_MPI_ROOT, CCL_ROOT or FI_PROVIDER_PATH names a path that does not exist",
    why="MPI finds no tuning files and no providers: `OFI fi_getinfo() failed`, `could not "
    "initialize any transport library`.",
    fix=Shell("grep -nE 'I_MPI_ROOT|CCL_ROOT|FI_PROVIDER_PATH|setvars' ~/.bashrc ~/.profile"),
)
def dangling(facts: Facts) -> Sight | None:
    found = [
        f"{name}={path}"
        for name in ("I_MPI_ROOT", "CCL_ROOT", "FI_PROVIDER_PATH")
        for path in missing_paths(facts, name)
        if path != "/usr/lib64/libfabric"  # Intel's own script puts it there on every host
    ]
    return Sight(", ".join(found)) if found else None


@by_hand_check(
    "MPI-011",
    title="CCL_WORKER_COUNT has an unusable value",
    seen="CCL_WORKER_COUNT is 0, or not less than the number of cores",
    why='accelerate up to 1.12 reads 0 as "do not use ccl" and silently trains with gloo; '
    "older Trainers stop: `CCL_WORKER_COUNT is not correctly set`. Too many: `exceeds the number "
    "of available cores per process`.",
    fix=command("export CCL_WORKER_COUNT=1"),
)
def workers(facts: Facts) -> Sight | None:
    text, count = variable(facts, "CCL_WORKER_COUNT"), of.cores(facts)
    if text == "0" or (text.isdecimal() and count and int(text) >= max(2, count)):
        return Sight(f"CCL_WORKER_COUNT={text}, {count} cores")
    return None


@by_hand_check(
    "MPI-012",
    title="CCL_WORKER_AFFINITY names CPUs that are not allowed",
    seen="CCL_WORKER_AFFINITY names CPUs that this user may not use",
    why="`failed to start worker # 0 ... pthread_create returns 22`.",
    fix=do(command("unset CCL_WORKER_AFFINITY"), "   (auto takes the last cores of each rank)"),
)
def worker_cpus(facts: Facts) -> Sight | None:
    mine, text = of.usable(facts), variable(facts, "CCL_WORKER_AFFINITY")
    outside = sorted(set(cpu_list(text)) - mine) if mine and text else []
    if not outside:
        return None
    return Sight(f"CCL_WORKER_AFFINITY={text}; not allowed: {', '.join(map(str, outside[:8]))}")


@by_hand_check(
    "MPI-013",
    title="I_MPI_PIN_DOMAIN names CPUs that are not allowed",
    seen="a mask in I_MPI_PIN_DOMAIN includes CPUs that this user may not use",
    why="`unable to bind process` and `error creating process`: the mask was made for another "
    "host, or for one without a cpuset.",
    fix=do(command("export I_MPI_PIN_DOMAIN=numa"), "   or leave it out"),
)
def pin_domain(facts: Facts) -> Sight | None:
    mine, text = of.usable(facts), variable(facts, "I_MPI_PIN_DOMAIN")
    masks = re.findall(r"0x([0-9A-Fa-f]{1,512})", text) if text.startswith("[") else []
    cpus = {bit for mask in masks for bit in range(len(mask) * 4) if int(mask, 16) >> bit & 1}
    outside = sorted(cpus - mine) if mine else []
    if not outside:
        return None
    return Sight(f"I_MPI_PIN_DOMAIN={text[:80]}; not allowed: {', '.join(map(str, outside[:8]))}")


_NICS = ("I_MPI_HYDRA_IFACE", "FI_TCP_IFACE", "GLOO_SOCKET_IFNAME", "CCL_KVS_IFACE")


@by_hand_check(
    "MPI-014",
    title="a variable names a network interface that this host does not have",
    seen="I_MPI_HYDRA_IFACE, FI_TCP_IFACE, GLOO_SOCKET_IFNAME or CCL_KVS_IFACE: no such interface",
    why="`unable to find interface X`, or `Unable to find address for: X`. Interface names "
    "differ between hosts. `ipexctl run` sets them for each host.",
    fix=do(SEE_ADDRESSES, "   and export the name of an interface of this host"),
)
def interfaces(facts: Facts) -> Iterator[Sight]:
    have = {nic.name for nic in facts.net.nics}
    for name in _NICS if have else ():
        wanted = variable(facts, name)
        if re.fullmatch(r"[A-Za-z][\w.-]*", wanted) and wanted not in have:
            yield Sight(f"{name}={wanted}; there are {', '.join(sorted(have))}")


@by_hand_check(
    "MPI-015",
    title="setvars.sh is executed instead of sourced, or sourced by sh or dash",
    seen="a startup file runs setvars.sh as a program, or with sh or dash",
    why="Executed, it fails with `this script must be sourced`. Sourced by sh or dash, it prints "
    "`source: not found`, sets nothing and still exits with 0.",
    fix=do(command("source DIR/setvars.sh"), "   in ~/.bashrc, which bash reads"),
)
def not_sourced(facts: Facts) -> Iterator[Sight]:
    for file, line in facts.software.startup if facts.software else ():
        if not _sourced(line):
            yield Sight(f"~/{file}: {line}", fix=f"in ~/{file}: source {_script(line)}")


def _sourced(command: str) -> bool:
    return re.match(r"((then|do|else)\s+)?(source|\.)\s", command) is not None


def _script(line: str) -> str:
    found = re.search(r"\S*(setvars|mpivars|vars)\.c?sh", line)
    return found[0] if found else "setvars.sh"


# Scripts that set MPI or oneCCL up, and a variable of what each of them leaves behind. An
# installation need not have all parts: setvars.sh is known by any. Those of the compiler, MKL and
# others set neither MPI nor oneCCL, and are no trouble of ours.
_OF_MPI = ("I_MPI_ROOT", "CCL_ROOT")
_LEFT = (
    (r"setvars\.sh", (*_OF_MPI, "SETVARS_COMPLETED", "ONEAPI_ROOT", "CMPLR_ROOT", "MKLROOT")),
    (r"mpivars\.sh|/(mpi|ccl)/\S*env/vars\.sh", _OF_MPI),
)


@by_hand_check(
    "MPI-016",
    title="setvars.sh has no effect for commands over SSH",
    seen="a start-up file sources setvars.sh, or env/vars.sh of MPI or oneCCL, but nothing that "
    "it sets is there (I_MPI_ROOT, CCL_ROOT; for setvars.sh, also SETVARS_COMPLETED and "
    "others)",
    why="~/.bashrc returns early for shells that are not interactive, and ~/.profile is not read "
    "at all; mpirun started by hand then finds nothing on this host: `libccl.so.1` or "
    "`libmpi.so.12: "
    "cannot open shared object file`.",
    fix="move the line to the top of ~/.bashrc, before `case $- in *i*)`",
)
def no_effect(facts: Facts) -> Iterator[Sight]:
    for file, line in facts.software.startup if facts.software else ():
        left = next((names for script, names in _LEFT if re.search(script, line)), ())
        if _sourced(line) and left and not any(variable(facts, name) for name in left):
            yield Sight(f"~/{file}: {line}")


@by_hand_check(
    "MPI-017",
    title="MPI is restricted to one host",
    seen="I_MPI_FABRICS or FI_PROVIDER is shm",
    why="Ranks on different hosts cannot communicate through shared memory: MPI_Init fails or "
    "hangs. `ipexctl run` does not pass it on.",
    fix=do(command("export I_MPI_FABRICS=shm:ofi FI_PROVIDER=tcp"), "   or remove them"),
)
def only_shm(facts: Facts) -> Sight | None:
    names = ("I_MPI_FABRICS", "FI_PROVIDER", "I_MPI_OFI_PROVIDER")
    found = [f"{name}=shm" for name in names if variable(facts, name) == "shm"]
    return Sight(", ".join(found)) if found else None


@environment_check(
    "MPI-018",
    title="ccl is requested, but its bindings are not installed",
    severity=Severity.NOTE,
    seen="CCL_WORKER_COUNT is exported, and IPEX is installed without oneccl_bind_pt",
    why="`No module named 'oneccl_bindings_for_pytorch'`, or gloo is silently used instead.",
    fix=do("use gloo: ", INSTALL, ", and ", command("unset CCL_WORKER_COUNT")),
)
def no_bindings(facts: Facts, prefix: Prefix) -> str | None:
    wanted = variable(facts, "CCL_WORKER_COUNT") and prefix.version(IPEX)
    if not wanted or prefix.version(CCL):
        return None
    return f"CCL_WORKER_COUNT is set; {prefix.path} has no oneccl_bind_pt"


_RANK = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "PMI_RANK", "PMI_SIZE")


@by_hand_check(
    "MPI-019",
    title="the login environment sets a rank's variables",
    seen="RANK, WORLD_SIZE, MASTER_ADDR or similar variables are set for commands over SSH",
    why="A script started by hand reads them: all ranks believe they are the same one, or wait "
    "for a master that does not exist (127.0.0.1: `connectFullMesh failed`). `ipexctl run` sets "
    "its own.",
    fix=do(
        Shell("grep -nE 'RANK|WORLD_SIZE|MASTER_|PMI_' ~/.bashrc ~/.profile"),
        "   and remove them",
    ),
)
def rank_variables(facts: Facts) -> Sight | None:
    found = [f"{n}={variable(facts, n)}" for n in _RANK if variable(facts, n)]
    return Sight(", ".join(found)) if found else None
