"""The version table to look at: what fits a host that somebody describes, and why not the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ipexctl.errors import InputError, unknown_value
from ipexctl.facts.facts import CpuFacts, DiskFacts, Facts, MemFacts, NetFacts, Python
from ipexctl.install.stack.version_table import (
    ISA,
    Minor,
    Request,
    Row,
    brings_ipex,
    nearest,
    not_asked,
    offered,
    stock,
    to_minor,
)
from ipexctl.quick_dataclass import dataclass

# The doctor's words for instruction sets, as far as the table has its own.
_LEVELS = {"sse": "x86-64-v2", "avx": "x86-64-v2", "avx512-bf16": "avx512", "amx": "avx512"}

_ORDER = list(ISA)


@dataclass(frozen=True)
class Query:
    """A host in words. Empty: not said, so no reason against any row."""

    python: Minor | None = None
    isa: str = ""
    glibc: Minor | None = None
    arch: str = ""


@dataclass(frozen=True)
class Offer:
    """`reasons` empty: it fits. `taken`: `install` takes it without being asked for IPEX."""

    row: Row
    reasons: tuple[str, ...]
    taken: bool = True


def offers(rows: Sequence[Row], query: Query, request: Request) -> tuple[Offer, ...]:
    """Every row of the table, in its order."""
    return tuple(
        Offer(row, tuple(_against(row, query, request)), not brings_ipex(row, request))
        for row in offered(rows, request)
    )


def first_choice(offers: Sequence[Offer]) -> Row | None:
    """What `install` takes."""
    return next((o.row for o in offers if not o.reasons and o.taken), None)


def near(rows: Sequence[Row], query: Query, request: Request) -> tuple[Row, ...]:
    """For a torch that no row has: the nearest row for such hosts, and the nearest stock one."""
    fitting = [o.row for o in offers(rows, query, replace(request, torch="")) if not o.reasons]
    found = [nearest(some, request.torch) for some in (fitting, stock(fitting))]
    return tuple(dict.fromkeys(row for row in found if row))


def query(python: str, isa: str, glibc: str, arch: str) -> Query:
    return Query(_minor("python", python), _isa(isa), _minor("glibc", glibc), arch)


def as_host(query: Query) -> Facts:
    """A host of which only this is known."""
    return Facts(
        host="such hosts",
        kernel="", os_name="", user="", uid=None, home="", boot_id="", agent="python", clock=None,
        libc=f"glibc {query.glibc[0]}.{query.glibc[1]}" if query.glibc else "",
        cpu=CpuFacts(query.arch or "x86_64", "", "", None, None, ISA[query.isa or "any"], (), None),
        mem=MemFacts(None, None, None, None, None),
        net=NetFacts("", (), "", (), ""),
        disk=DiskFacts("", None, None, "", None, None),
        pythons=(Python("", query.python),) if query.python else (),
    )  # fmt: skip


def _minor(option: str, text: str) -> Minor | None:
    try:
        return to_minor(text) if text else None
    except ValueError:
        raise InputError(
            f"--{option} {text} is not a version",
            hint="--python 3.11"
            if option == "python"
            else "--glibc 2.28   # as reported by `ldd --version`",
            slug="version-invalid",
        ) from None


def _isa(text: str) -> str:
    found = _LEVELS.get(text, text)
    if found and found not in ISA:
        raise unknown_value("--isa", text, dict.fromkeys((*list(ISA)[1:], *_LEVELS)))
    return found


def _against(row: Row, query: Query, request: Request) -> Iterator[str]:
    if other := not_asked(row, request):
        yield other
    if query.arch and query.arch not in row.archs:
        yield f"there are no wheels for {query.arch}"
    if query.python and query.python not in row.pythons:
        yield f"needs Python {span(row)}"
    if query.isa and _ORDER.index(row.isa) > _ORDER.index(query.isa):
        yield f"needs {row.isa}"
    if query.glibc and query.glibc < row.glibc:
        yield f"needs glibc {row.glibc[0]}.{row.glibc[1]}"


def span(row: Row) -> str:
    """3.9-3.13."""
    first, last = row.pythons[0], row.pythons[-1]
    return f"{first[0]}.{first[1]}-{last[0]}.{last[1]}"
