"""Choose one Stack from facts, a request and the version table, or report why no row fits.

One Stack serves all hosts: the same Python minor and the same wheels, so that rank 3 can unpickle
what rank 0 pickled. Where hosts differ in glibc, the wheels are those that the oldest can load;
hosts of two architectures are refused (docs/decisions/0009-one-lock.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from packaging.version import Version

from ipexctl.common.install_answers import EnvProof
from ipexctl.errors import NothingFits, unknown_value
from ipexctl.facts.facts import Facts
from ipexctl.facts.pythons_facts import Python
from ipexctl.inventory.hostfile_text import fold
from ipexctl.quick_dataclass import dataclass
from ipexctl.stack import mpi
from ipexctl.stack.version_table import (
    ISA,
    Minor,
    Request,
    StackRow,
    brings_ipex,
    is_version,
    nearest_torch,
    not_asked,
    rows_for_request,
)

# The platforms of `uv --python-platform`, newest first.
_GLIBC = re.compile(r"glibc (\d{1,3})\.(\d{1,3})")
_GLIBCS = (*((2, minor) for minor in range(40, 30, -1)), (2, 28), (2, 17))


@dataclass(frozen=True)
class Stack:
    """The choice. `interpreters` maps each host to the Python that makes its environment."""

    row: StackRow
    python: Minor
    platform: str
    mpi: str
    interpreters: tuple[tuple[str, str], ...]
    reason: str
    patch: int | None = None  # of the oldest of those Pythons

    @property
    def title(self) -> str:
        return self.row.title

    @property
    def python_text(self) -> str:
        return _dotted_version(self.python)

    @property
    def arch(self) -> str:
        return self.platform.split("-")[0]

    @property
    def python_full(self) -> str:
        return self.python_text + (f".{self.patch}" if self.patch is not None else "")

    def interpreter(self, host: str) -> str:
        return dict(self.interpreters)[host]


NUMPY_2 = Version("2.3")  # the first torch built for NumPy 2; older ones fail in from_numpy

Refused = tuple[StackRow, tuple[str, ...]]  # a row and why it doesn't fit


# --- the choice ----------------------------------------------------------------------------------


def choose_stacks(
    facts: Sequence[Facts], request: Request, rows: Sequence[StackRow]
) -> tuple[Stack, ...]:
    """Return the first row that fits all hosts, once for each Python they share, newest first.

    The package indexes decide between them. Raises NothingFits with each row's reasons.
    """
    rejected: list[Refused] = []
    passed_over: list[Refused] = []  # rows that were asked for, but do not fit the hosts
    for row in rows_for_request(rows, request):
        if reason := not_asked(row, request) or brings_ipex(row, request):
            rejected.append((row, (reason,)))
            continue
        reasons = tuple(_row_reasons(row, facts, request))
        if not reasons:
            return tuple(_stacks_of_row(row, facts, request, passed_over))
        passed_over.append((row, reasons))
    raise NothingFits(
        f"no row of the version table works on {_fold_hosts(facts)}",
        why="\n".join([*_refusal_lines(passed_over), *_refusal_lines(rejected)]),
        hint="\n".join([_nothing_fits_hint(request), *_carry_python_hints(passed_over)]),
        slug="no-row-fits",
    ).with_meant(request.torch, _nearest_fitting_torch(rows, facts, request))


def _nearest_fitting_torch(
    rows: Sequence[StackRow], facts: Sequence[Facts], request: Request
) -> str:
    other = replace(request, torch="")

    def fits(row: StackRow) -> bool:
        asked = not (not_asked(row, other) or brings_ipex(row, other))
        return asked and not any(_row_reasons(row, facts, other))

    return nearest_torch(rows_for_request(rows, other), request.torch, fits)


def _refusal_lines(refused: Sequence[Refused]) -> Iterator[str]:
    """Yield each reason once, with its rows."""
    rows: dict[str, list[str]] = {}
    for row, reasons in refused:
        rows.setdefault("; ".join(reasons), []).append(row.name)
    for reason, names in rows.items():
        span = f"{len(names)} rows, {names[0]} to {names[-1]}"
        yield f"{', '.join(names) if len(names) < 3 else span}: {reason}"


def _carry_python_hints(passed_over: Sequence[Refused]) -> Iterator[str]:
    """Suggest --python-from if another Python would make a row fit."""
    if any(
        all(": Python " in r or "no Python" in r for r in reasons) for _, reasons in passed_over
    ):
        yield "--python-from FOLDER   # copies a CPython to the hosts; see docs/install.md"


def _nothing_fits_hint(request: Request) -> str:
    if request.row:
        return "rm ipexctl.lock   # chooses again"
    if request.stack == "ipex":
        return "ipexctl install --stack stock   # without IPEX; or: ipexctl stacks"
    if request.torch:
        return "ipexctl stacks   # all versions of torch in the table"
    if request.names_a_stack or request.python:
        return "ipexctl stacks   # the whole table; without version options, ipexctl chooses a row"
    return "ipexctl doctor   # what each host has"


def _row_reasons(row: StackRow, facts: Sequence[Facts], request: Request) -> Iterator[str]:
    hosts: dict[str, list[str]] = {}
    for host in facts:
        if text := host_reason(row, host, request):
            hosts.setdefault(text, []).append(host.host)
    for text, names in hosts.items():
        yield f"{fold(tuple(names))}: {text}"
    yield from _across_hosts(row, facts, request)


def host_reason(row: StackRow, host: Facts, request: Request) -> str:
    """Return why the row does not fit this host, "" if it does."""
    if host.cpu.arch not in row.archs:
        return f"there are no wheels for {host.cpu.arch}"
    if request.mpi == "intel" and host.cpu.arch != "x86_64":
        return f"Intel MPI has no build for {host.cpu.arch} (--mpi none leaves it out)"
    if request.mpi == mpi.SYSTEM and host.software and not host.software.mpis:
        return "there is no mpirun on it"
    if missing := _lacking_flags(row, host):
        return f"the CPU lacks {', '.join(missing)}"
    if host.libc.startswith("musl"):
        return "the C library is musl, the wheels need glibc"
    version = _glibc_version(host)
    if version and version < row.glibc:
        return f"{host.libc}, the wheels need {_dotted_version(row.glibc)} or newer"
    if not _fitting_pythons(row, host, request):
        return _no_python(row, host, request)
    return ""


def _lacking_flags(row: StackRow, host: Facts) -> list[str]:
    """Return missing CPU flags; none for a host whose flags are unknown."""
    if host.cpu.arch != "x86_64" or not host.cpu.flags:
        return []
    return sorted(ISA[row.isa] - host.cpu.flags)


def _no_python(row: StackRow, f: Facts, request: Request) -> str:
    span = f"{_dotted_version(min(row.pythons))} to {_dotted_version(max(row.pythons))}"
    meant = [p for p in f.pythons if _is_wanted_python(p, request.python)] if request.python else []
    available = (
        ", ".join(dict.fromkeys(_dotted_version(p.version) for p in meant or f.pythons)) or "none"
    )
    if "/" in request.python and not meant:
        return f"{request.python} is not a Python that runs there; it has {available}"
    return f"Python {available}, but {span if meant else request.python or span} is required"


def _across_hosts(row: StackRow, facts: Sequence[Facts], request: Request) -> Iterator[str]:
    """Yield reasons why the row cannot serve all hosts together: architectures, Pythons."""
    kinds: dict[str, list[str]] = {}
    for host in facts:
        kinds.setdefault(host.cpu.arch, []).append(host.host)
    if len(kinds) > 1:
        archs = ", ".join(f"{arch}: {fold(tuple(kinds[arch]))}" for arch in sorted(kinds))
        yield f"a lock is for one architecture ({archs}; -l selects hosts)"
    per_host = [_fitting_pythons(row, host, request) for host in facts]
    if all(per_host) and not _common_minors(per_host):
        yield "the hosts have no Python version in common: " + ", ".join(
            f"{host.host} has {'/'.join(_dotted_version(m) for m in sorted(pythons))}"
            for host, pythons in zip(facts, per_host, strict=True)
        )


def _fitting_pythons(row: StackRow, host: Facts, request: Request) -> dict[Minor, Python]:
    """Return the host's Pythons that the row has wheels for: the newest patch of each minor."""
    fitting: dict[Minor, Python] = {}
    for python in sorted(host.pythons, key=lambda p: p.version):
        minor = python.version[:2]
        if minor in row.pythons and _is_wanted_python(python, request.python):
            fitting[minor] = python
    return fitting


def _is_wanted_python(python: Python, requested: str) -> bool:
    if "/" in requested:
        return python.path == requested
    return not requested or is_version(_dotted_version(python.version), requested)


def _common_minors(per_host: Iterable[Mapping[Minor, Python]]) -> set[Minor]:
    return set.intersection(*(set(pythons) for pythons in per_host))


def _stacks_of_row(
    row: StackRow, facts: Sequence[Facts], request: Request, passed_over: Sequence[Refused]
) -> Iterator[Stack]:
    per_host = [_fitting_pythons(row, f, request) for f in facts]
    for minor in sorted(_common_minors(per_host), reverse=True):
        yield Stack(
            row=row,
            python=minor,
            platform=_wheel_platform(row, facts),
            mpi=mpi.mpi_requirement(request.mpi, row.mpi),
            interpreters=tuple(
                (f.host, pythons[minor].path) for f, pythons in zip(facts, per_host, strict=True)
            ),
            reason=_reason_for_row(row, request, passed_over),
            patch=_least_patch([pythons[minor] for pythons in per_host]),
        )


def _least_patch(pythons: Sequence[Python]) -> int | None:
    """Return the oldest patch level: torch 1.10 needs 3.6.2, cryptography excludes 3.9.1."""
    patches = [python.version[2] for python in pythons if len(python.version) > 2]
    return min(patches, default=None)


def _reason_for_row(row: StackRow, request: Request, passed_over: Sequence[Refused]) -> str:
    why = [request.because or "asked for"] if request.because or request.torch else []
    if passed_over and not request.torch:
        first, reasons = passed_over[0]
        why.append(f"{first.name} does not fit: {reasons[0]}")
    return "; ".join(why) or row.notes or "the table's first choice"


def _wheel_platform(row: StackRow, facts: Sequence[Facts]) -> str:
    """Choose wheels for the hosts' oldest glibc; an unknown one counts as the row's minimum."""
    oldest = min(_glibc_version(host) or row.glibc for host in facts)
    newest_known = next(glibc for glibc in _GLIBCS if glibc <= oldest)
    return f"{facts[0].cpu.arch}-manylinux_{newest_known[0]}_{newest_known[1]}"


def _glibc_version(host: Facts) -> Minor | None:
    match = _GLIBC.fullmatch(host.libc)
    return (int(match[1]), int(match[2])) if match else None


def _dotted_version(version: Sequence[int]) -> str:
    return ".".join(str(n) for n in version)


def _fold_hosts(facts: Sequence[Facts]) -> str:
    return fold(tuple(host.host for host in facts))


# --- what the packages are asked for as ----------------------------------------------------------


def stack_requirements(stack: Stack) -> tuple[str, ...]:
    """Return what is resolved besides torch itself; numpy, as torch uses it only if installed."""
    row = stack.row
    requirements = ["numpy<2" if Version(row.torch) < NUMPY_2 else "numpy", *row.also]
    if row.ipex:
        requirements.append(f"{IPEX}=={row.ipex}")
    if row.oneccl:
        requirements.append(f"{row.oneccl_dist}=={row.oneccl}")
    if stack.mpi not in ("", mpi.SYSTEM):
        requirements.append(stack.mpi)
    return tuple(requirements)


IPEX = "intel_extension_for_pytorch"  # both the module and the distribution, in all versions


def stack_modules(row: StackRow, version: Callable[[str], str]) -> tuple[tuple[str, str, str], ...]:
    """Return (module, distribution, locked version) in the order in which they must be imported.

    IPEX patches torch, and the bindings register themselves with both.
    """
    modules = [("torch", "torch")]
    modules += [(IPEX, IPEX)] if row.ipex else []
    modules += [(row.oneccl_import, row.oneccl_dist)] if row.oneccl else []
    return tuple((name, dist, version(dist.replace("_", "-"))) for name, dist in modules)


def proved_text(proof: EnvProof) -> str:
    """Return what a host's proof has shown, in words."""
    words = [f"torch {proof.torch}"]
    words += [f"{name} {version}" for name, version in proof.modules[1:]]
    words += [f"{proof.step} step"] if proof.step else []
    words += [f"{proof.ranks} ranks agree"] if proof.ranks > 1 else []
    return ", ".join(words)


_WORDS = {"mpi": mpi.WORDS, "backend": ("ccl", "gloo"), "stack": ("ipex", "stock")}


def check_request(request: Request) -> Request:
    """Raise InputError for a value that an option does not have."""
    for option, words in _WORDS.items():
        value = getattr(request, option)
        if value and value not in words:
            raise unknown_value(f"--{option}", value, words)
    return request
