"""Installed software: torch and its companions, judged by metadata alone.

How bad a broken environment is depends on who would use it: `fail` for the one that `ipexctl run`
takes, `warn` for the one that a command over SSH finds.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import wraps

from packaging.version import InvalidVersion, Version

from ipexctl.doctor.checks.registry import Check, Evidence, cluster_check, evidence_list, host_check
from ipexctl.doctor.report.cluster import CheckedHosts, group_hosts, hosts_by_value
from ipexctl.doctor.report.finding import Command, Severity, do, ipexctl_command
from ipexctl.facts import package_changes
from ipexctl.facts.facts import Facts
from ipexctl.facts.software_facts import Prefix

IPEX = "intel-extension-for-pytorch"
CCL = "oneccl-bind-pt"
BY_USE = (Severity.FAIL, Severity.WARN)
# How severe a problem is in an environment of that kind, by the severities its check declares.
LEVELS: dict[tuple[Severity, ...], dict[str, Severity]] = {
    BY_USE: {"ipexctl": Severity.FAIL, "active": Severity.WARN},
    (Severity.WARN,): {"ipexctl": Severity.WARN, "active": Severity.WARN},
    (Severity.NOTE,): {"ipexctl": Severity.NOTE, "active": Severity.NOTE},
}
INSTALL = ipexctl_command("install")
REBUILT = do(INSTALL, "   # ", ipexctl_command("env diff"), " says how")
PROVED = "   # one matching set, tested before it is used"
REINSTALL = do(INSTALL, PROVED)

# The torch that an IPEX or its bindings were built for, where that is not X.Y.0 of the same X.Y.
_IPEX_FOR = {
    "1.12.100": "1.12.1",
    "1.12.300": "1.12.1",
    "2.0.100": "2.0.1",
    "2.1.100": "2.1.1",
}
_CCL_FOR = {"1.12.0": ("1.12.0",), "1.12.100": ("1.12.1",)}


def parse_version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def pip_command(prefix: str, *argv: str) -> Command:
    return Command((f"{prefix}/bin/python", "-m", "pip", *argv))


def torch_of(prefix: Prefix) -> Version | None:
    return parse_version(prefix.version("torch"))


class environment_check(Check):  # noqa: N801 - a decorator
    """Declare a check of each Python environment of a host."""

    def __call__(self, function: Callable[[Facts, Prefix], Evidence | str | None]) -> Check:
        levels = LEVELS[self.severities]

        @wraps(function)
        def look(facts: Facts) -> Iterator[Evidence]:
            for prefix in facts.software.prefixes if facts.software else ():
                for evidence in (
                    evidence_list(function(facts, prefix)) if prefix.kind in levels else ()
                ):
                    yield replace(evidence, severity=levels[prefix.kind])

        return host_check(**vars(self))(look)


# --- torch, IPEX, the oneCCL bindings ------------------------------------------------------------


@environment_check(
    "SOFT-001",
    title="IPEX was built for a different PyTorch version",
    severity=BY_USE,
    seen="the minor versions of torch and IPEX differ",
    why="IPEX compares them on import and ends the process: `needs to work with PyTorch "
    "X.Y.*`, then `module 'os' has no attribute 'exit'`. pip cannot detect this: IPEX's wheels do "
    "not declare torch as a dependency.",
    fix=REINSTALL,
)
def ipex_minor(facts: Facts, prefix: Prefix) -> str | None:
    torch, ipex = torch_of(prefix), parse_version(prefix.version(IPEX))
    if not torch or not ipex or torch.release[:2] == ipex.release[:2]:
        return None
    return f"IPEX {ipex} needs torch {ipex.major}.{ipex.minor}, there is {torch}, in {prefix.path}"


@environment_check(
    "SOFT-002",
    title="IPEX was built for another patch release of PyTorch",
    severity=Severity.WARN,
    seen="same minor version, but a different patch release of torch than IPEX was built for",
    why="IPEX does not notice; its libraries can still fail with `undefined symbol` or crash.",
    fix=REINSTALL,
)
def ipex_patch(facts: Facts, prefix: Prefix) -> str | None:
    torch, ipex = torch_of(prefix), parse_version(prefix.version(IPEX))
    if not torch or not ipex or torch.release[:2] != ipex.release[:2]:
        return None
    expected = _IPEX_FOR.get(ipex.base_version, f"{ipex.major}.{ipex.minor}.0")
    if torch.base_version == expected or ipex.release[:2] < (1, 12):
        return None
    return f"IPEX {ipex} was built for torch {expected}, there is {torch}, in {prefix.path}"


@environment_check(
    "SOFT-003",
    title="the oneCCL bindings are for another PyTorch",
    severity=BY_USE,
    seen="oneccl_bind_pt is not the same version as torch",
    why="They must match exactly; otherwise `undefined symbol: _ZN3c10...`, `Mismatch in kernel "
    "C++ signatures` or a crash on import. The 1.12.0 bindings fail with torch 1.12.1.",
    fix=REINSTALL | do("or without the bindings: gloo needs none"),
)
def ccl_version(facts: Facts, prefix: Prefix) -> str | None:
    torch, ccl = torch_of(prefix), parse_version(prefix.version(CCL))
    if not torch or not ccl:
        return None
    supported = _CCL_FOR.get(ccl.base_version)
    same_release = torch.release[:2] == ccl.release[:2]
    if same_release and (supported is None or torch.base_version in supported):
        return None
    return f"oneccl_bind_pt {ccl} with torch {torch}, in {prefix.path}"


@environment_check(
    "SOFT-004",
    title="IPEX or its bindings without PyTorch",
    severity=BY_USE,
    seen="IPEX or oneccl_bind_pt is installed and torch is not",
    why="Their wheels do not depend on torch, so the import fails.",
    fix=REINSTALL,
)
def no_torch(facts: Facts, prefix: Prefix) -> str | None:
    packages = [name for name in (IPEX, CCL) if prefix.version(name)]
    if not packages or prefix.version("torch"):
        return None
    return f"{' and '.join(packages)} but no torch, in {prefix.path}"


@environment_check(
    "SOFT-005",
    title="PyTorch is the CUDA build",
    severity=Severity.NOTE,
    seen="the torch in use has CUDA libraries, on a host that trains on its CPU",
    why="It works at the same speed, but takes about 6 GB more disk space and transfer per host. "
    "Packages that depend on torch pull it in.",
    fix=do(INSTALL, "   # installs the +cpu build where possible"),
)
def cuda_build(facts: Facts, prefix: Prefix) -> str | None:
    if not prefix.cuda:
        return None
    return f"torch {torch_of(prefix)} in {prefix.path} has libtorch_cuda.so"


@environment_check(
    "SOFT-006",
    title="IPEX and its oneCCL bindings have reached their end of life",
    severity=Severity.NOTE,
    seen="IPEX or oneccl_bind_pt is in use",
    why="IPEX ended with 2.8 (archived in March 2026, with known security issues), the bindings "
    "with 2.7 for CPUs. bf16, AMX and gloo's bf16 collectives are in stock PyTorch.",
    fix=do(INSTALL, "   # stock PyTorch; keep IPEX only if you need its own optimizations"),
)
def end_of_life(facts: Facts, prefix: Prefix) -> str | None:
    packages = [f"{name} {prefix.version(name)}" for name in (IPEX, CCL) if prefix.version(name)]
    return f"{', '.join(packages)} in {prefix.path}" if packages else None


@environment_check(
    "SOFT-007",
    title="this PyTorch's gloo has no bf16",
    severity=Severity.WARN,
    seen="torch is older than 2.2 and there are no oneCCL bindings",
    why="Collectives on bf16 tensors fail with `Invalid scalar type`. gloo has had bf16 since 2.2.",
    fix=REINSTALL | do("or reduce in fp32"),
)
def gloo_bf16(facts: Facts, prefix: Prefix) -> str | None:
    torch = torch_of(prefix)
    if not torch or torch.release >= (2, 2) or prefix.version(CCL):
        return None
    return f"torch {torch} in {prefix.path}"


@environment_check(
    "SOFT-008",
    title="this IPEX needs a newer processor",
    severity=BY_USE,
    seen="IPEX 1.8 to 1.10 without AVX-512, IPEX 1.12.0 on AVX2, or any IPEX below AVX2",
    why="IPEX exits without AVX2 (`instruction sets equal or newer than AVX2`). Wheels up to 1.10 "
    "contain AVX-512 code only, and 1.12.0 uses it by mistake: `Illegal instruction`, or "
    "`extension binary is AVX512 while current machine does not`.",
    fix=do("use IPEX 1.12.100 or newer: ", INSTALL, PROVED),
)
def ipex_isa(facts: Facts, prefix: Prefix) -> Evidence | None:
    ipex, flags = parse_version(prefix.version(IPEX)), facts.cpu.flags
    if not ipex or not flags or "avx512f" in flags:
        return None
    old = ipex.release[:2] <= (1, 10) or ipex.base_version == "1.12.0"
    if not old and "avx2" in flags:
        return None
    missing = "avx512f" if "avx2" in flags else "avx2"
    return Evidence(
        f"IPEX {ipex}, and the processor has no {missing}, in {prefix.path}",
        fix="" if "avx2" in flags else do(ipexctl_command("install", "--stack", "stock")),
    )


@environment_check(
    "SOFT-009",
    title="NumPy 2 with a PyTorch built for NumPy 1",
    severity=Severity.WARN,
    seen="torch is older than 2.3 and numpy is 2 or newer",
    why="`A module that was compiled using NumPy 1.x cannot be run in NumPy 2`; from_numpy and "
    "DataLoader workers then fail with `Numpy is not available`.",
    fix=do(pip_command("PREFIX", "install", "numpy<2"), "   or ", INSTALL, PROVED),
)
def numpy_two(facts: Facts, prefix: Prefix) -> Evidence | None:
    torch, numpy = torch_of(prefix), parse_version(prefix.version("numpy"))
    if not torch or not numpy or numpy.major < 2 or torch.release >= (2, 3):
        return None
    text = f"numpy {numpy} with torch {torch} in {prefix.path}"
    return Evidence(text, fix=pip_command(prefix.path, "install", "numpy<2"))


@environment_check(
    "SOFT-017",
    title="two OpenMP runtimes in one process",
    severity=Severity.WARN,
    seen="torch ships a second libiomp5",
    why="Two thread pools on the same cores: `OMP: Error #15: Initializing libiomp5.so, but found "
    "libiomp5.so already initialized`, or a slow run without any message.",
    fix=do("keep one of them: ", pip_command("PREFIX", "uninstall", "intel-openmp")),
)
def two_openmps(facts: Facts, prefix: Prefix) -> Evidence | None:
    paths = [path for path in prefix.omp if "libiomp5" in path]
    if len(paths) < 2:
        return None
    return Evidence(" and ".join(paths), fix=pip_command(prefix.path, "uninstall", "intel-openmp"))


# --- ipexctl's own environment -------------------------------------------------------------------


@host_check(
    "SOFT-012",
    title="the installed environment is incomplete",
    severity=Severity.FAIL,
    seen="`current` points to nothing, or to an unfinished build",
    why="`ipexctl run` would stop there, or fail when it imports torch.",
    fix=do(INSTALL, "   # rebuilds it"),
)
def not_whole(facts: Facts) -> Evidence | None:
    current = facts.software.current if facts.software else None
    if not current or not current.prefix:
        return None
    if not current.exists:
        return Evidence(f"{current.prefix} has no bin/python")
    if current.whole is False:
        return Evidence(f"{current.prefix} has no .ipexctl-ok: its build or removal was cut short")
    return None


@host_check(
    "SOFT-025",
    title="the environment was changed by hand",
    severity=(Severity.WARN, Severity.FAIL),
    seen="packages differ from those that `ipexctl install` put there (by metadata); FAIL: torch "
    "or a library of it is gone",
    why="The environment no longer matches the lock or what was tested, and differs from the "
    "other hosts. "
    "`ipexctl env diff` also finds changed files.",
    fix=do(INSTALL, "   # rebuilds it; manual changes are lost"),
)
def by_hand(facts: Facts) -> Evidence | None:
    current = facts.software.current if facts.software else None
    if not current or not current.changed:
        return None
    gone = any(row.package == "torch" and (row.gone or not row.now) for row in current.changed)
    return Evidence(
        f"{package_changes.describe_changes(current.changed)}, in {current.prefix}",
        severity=Severity.FAIL if gone else None,
    )


@host_check(
    "SOFT-026",
    title="the environment of ipexctl.lock is not installed",
    severity=Severity.WARN,
    seen="the host has environments, but not the one named in this folder's ipexctl.lock",
    why="`ipexctl run` uses the environment of the project's own lock, and starts nothing if a "
    "host lacks it.",
    fix=INSTALL,
)
def lock_not_installed(facts: Facts) -> Evidence | None:
    current = facts.software.current if facts.software else None
    if not current or not current.wanted:
        return None
    return Evidence(f"no {current.wanted} in {facts.disk.root}/envs")


@cluster_check(
    "SOFT-014",
    title="some hosts have no environment",
    severity=Severity.WARN,
    seen="`ipexctl install` has run on only some of the hosts",
    why="`ipexctl run` needs it on every host and starts nothing without it.",
    fix=do(INSTALL, "   # with the same hostfile"),
)
def not_everywhere(cluster: CheckedHosts) -> list[Evidence]:
    examined = [facts for facts in cluster.hosts if facts.software]
    having = [facts.host for facts in examined if facts.software and facts.software.used]
    if not having:
        return []
    return [
        Evidence(f"no environment in {facts.disk.root}/current", host=facts.host)
        for facts in examined
        if facts.host not in having and not _has_own_finding(facts)
    ]


def _has_own_finding(facts: Facts) -> bool:
    """Decide whether SOFT-012 or SOFT-026 reports the host."""
    current = facts.software.current if facts.software else None
    return bool(current and (current.prefix or current.wanted))


@cluster_check(
    "SOFT-015",
    title="the hosts' installed versions differ",
    severity=(Severity.FAIL, Severity.WARN),
    seen="torch, IPEX, the bindings, MPI or the Python minor version differ between hosts; warn: "
    "the "
    "versions are the same and the environments are not",
    why="Ranks exchange pickled objects and bytes whose format depends on the version: hangs, "
    "wrong results or `Mismatch` errors, far from their cause.",
    fix=do(INSTALL, "   # the same locked set on all hosts"),
)
def drift(cluster: CheckedHosts) -> Iterator[Evidence]:
    hosts = [f for f in cluster.hosts if f.software and f.software.used]
    equal = True
    for name in ("python", "torch", IPEX, CCL, "impi-rt", "numpy", "accelerate", "transformers"):
        values = group_hosts(hosts, lambda f, name=name: _of_used(f, name))  # type: ignore[misc]
        if len(values) > 1:
            equal = False
            grave = name in ("python", "torch", IPEX, CCL, "impi-rt")
            level = Severity.FAIL if grave else Severity.WARN
            yield Evidence(f"{name}: {hosts_by_value(values)}", severity=level)
    builds = group_hosts(hosts, _environment_build)
    if equal and len(builds) > 1:
        yield Evidence(
            f"environment: {hosts_by_value(builds)}", severity=Severity.WARN, fix=REBUILT
        )


def _environment_build(facts: Facts) -> str:
    """Return the name of the environment in use; an interrupted install may leave another one."""
    prefix = facts.software.used if facts.software else None
    return posixpath.basename(prefix.path) if prefix else ""


def _of_used(facts: Facts, name: str) -> str:
    prefix = facts.software.used if facts.software else None
    if not prefix:
        return ""
    return prefix.python if name == "python" else prefix.version(name) or "none"
