"""The version table as values: its rows, and what each requires of hosts and requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from packaging.utils import canonicalize_name

from ipexctl.base import toml
from ipexctl.quick_dataclass import dataclass

Minor = tuple[int, int]

IPEX = "intel-extension-for-pytorch"
# Intel's names that anyone can, or once could, register on the default index. Only rows use them.
RESERVED = frozenset({IPEX, "oneccl-bind-pt", "torch-ccl", "torch-ipex"})

_V2 = frozenset({"cx16", "popcnt", "ssse3", "sse4_1", "sse4_2"})
# Worst first.
ISA: Mapping[str, frozenset[str]] = {
    "any": frozenset(),
    "x86-64-v2": _V2,
    "avx2": _V2 | {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma"},
    "avx512": _V2 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}
END_OF_LIFE = (
    "IPEX and the oneCCL bindings are discontinued: no fixes since March 2026, security holes "
    "stay open (--stack stock is maintained)"
)
NEVER_RUN = "oneccl_bind_pt itself has never been run with ipexctl"
NEWEST = "newest"  # `--ipex` without a version
GLOO = "-gloo"  # suffix of an IPEX row that is used without the bindings


@dataclass(frozen=True)
class StackRow:
    """One line of the version table; stacks.toml says what each field means."""

    name: str
    torch: str
    pythons: tuple[Minor, ...]
    archs: tuple[str, ...]
    isa: str
    glibc: Minor
    backend: str
    torch_index: str
    mpi: str
    ipex: str = ""
    oneccl: str = ""
    oneccl_dist: str = ""
    oneccl_import: str = ""
    links: str = ""
    flat: tuple[str, ...] = ()
    public: bool = False
    also: tuple[str, ...] = ()
    notes: str = ""
    uncertain: str = ""
    oneccl_run: str = ""
    source: str = ""
    era: str = ""

    @property
    def doubts(self) -> tuple[str, ...]:
        """What was not tested about the row."""
        run = (self.oneccl_run or NEVER_RUN,) if self.oneccl else ()
        return run + tuple(filter(None, self.uncertain.split("; ")))

    @property
    def title(self) -> str:
        ipex = f" + IPEX {self.ipex}" if self.ipex else ""
        return f"torch {self.torch}{ipex}" + (f" + oneCCL {self.oneccl}" if self.oneccl else "")


@dataclass(frozen=True)
class Request:
    """What the user asked for; "" leaves it to the table. `python`: "3.11" or a path.

    The rest is not from options: `row` is the lock's, `because` is the reason for the request.
    """

    torch: str = ""
    mpi: str = "intel"
    python: str = ""
    ipex: str = ""  # a version, or NEWEST
    backend: str = ""  # ccl or gloo
    stack: str = ""  # ipex or stock
    row: str = ""
    because: str = ""

    @property
    def names_a_stack(self) -> bool:
        return bool(self.torch or self.ipex or self.backend or self.stack)

    @property
    def names_ipex(self) -> bool:
        """Whether IPEX is requested: it is discontinued, with known security issues."""
        return bool(self.ipex or self.row) or self.stack == "ipex" or self.backend == "ccl"


def parse_table(text: str) -> tuple[StackRow, ...]:
    table = toml.loads(text)
    eras = table.get("era", {})
    return tuple(
        _read_row({**table["defaults"], **eras.get(row.get("era", ""), {}), **row})
        for row in table["row"]
    )


def _read_row(raw: Mapping[str, Any]) -> StackRow:
    tuples = {name: tuple(raw.get(name, ())) for name in ("archs", "flat", "also")}
    pythons = tuple(to_minor(text) for text in raw["pythons"])
    return StackRow(**{**raw, **tuples, "pythons": pythons, "glibc": to_minor(raw["glibc"])})


def to_minor(text: str) -> Minor:
    first, second = text.split(".")[:2]
    return int(first), int(second)


def of_intel(row: StackRow) -> dict[str, str]:
    """Return the row's packages that only Intel provides, and their versions."""
    versions = ((IPEX, row.ipex), (canonicalize_name(row.oneccl_dist), row.oneccl))
    return {name: version for name, version in versions if version}


def maintained_rows(rows: Iterable[StackRow]) -> tuple[StackRow, ...]:
    """Return the maintained rows, which are the default for hosts."""
    return tuple(row for row in rows if not row.ipex)


def rows_for_request(rows: Sequence[StackRow], request: Request) -> tuple[StackRow, ...]:
    """Return the rows as this request uses them: gloo leaves out the oneCCL bindings."""
    if request.backend != "gloo":
        return tuple(rows)
    return tuple(_without_bindings(row) if row.oneccl else row for row in rows)


def _without_bindings(row: StackRow) -> StackRow:
    return replace(
        row, name=row.name + GLOO, backend="gloo", oneccl="", oneccl_dist="", oneccl_import=""
    )


def not_asked(row: StackRow, request: Request) -> str:
    """Return why this row is not what was requested, "" if it is."""
    if request.row and row.name != request.row:
        return f"{request.row} was requested"
    if request.torch and not is_version(row.torch, request.torch):
        return f"torch is not {request.torch}"
    if request.stack == "stock" and row.ipex:
        return "it has IPEX, not stock PyTorch"
    if (request.ipex or request.stack == "ipex") and not row.ipex:
        return "it has no IPEX"
    if request.ipex not in ("", NEWEST) and not is_version(row.ipex, request.ipex):
        return f"IPEX is not {request.ipex}"
    if request.backend == "ccl" and not row.oneccl:
        return "it has no oneCCL bindings"
    return ""


def brings_ipex(row: StackRow, request: Request) -> str:
    """Return why a row that matches the request is not taken, "" if it is."""
    return "it has IPEX, which needs --stack ipex" * bool(row.ipex and not request.names_ipex)


def is_version(version: str, requested: str) -> bool:
    """Compare complete numbers, so that 1.12.100 does not match 1.12.1."""
    requested = requested.split("+")[0]
    return version == requested or version.startswith(requested + ".")


def nearest_torch(
    rows: Sequence[StackRow], requested: str, fits: Callable[[StackRow], bool]
) -> str:
    """Return the torch to ask for instead of one that the table does not have: the newest that fits
    and is not newer, as 2.13, else the oldest. "": the table has it, it is no version, or none
    fits."""
    try:
        wanted = to_minor(requested.partition("+")[0])
    except ValueError:
        return ""
    if any(is_version(row.torch, requested) for row in rows):
        return ""
    minors = sorted({to_minor(row.torch) for row in rows if fits(row)})
    older = [minor for minor in minors if minor <= wanted]
    return "{}.{}".format(*(older[-1] if older else minors[0])) if minors else ""
