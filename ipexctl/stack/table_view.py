"""The version table for a described host: which rows fit, and why others do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ipexctl.errors import InputError, unknown_value
from ipexctl.facts.cpu_facts import CpuFacts
from ipexctl.facts.facts import Facts, NetFacts
from ipexctl.facts.memory_and_swap_facts import MemFacts
from ipexctl.facts.pythons_facts import Python
from ipexctl.facts.storage_facts import DiskFacts
from ipexctl.quick_dataclass import dataclass
from ipexctl.stack import mpi
from ipexctl.stack.selection import host_reason
from ipexctl.stack.version_table import (
    ISA,
    Minor,
    Request,
    StackRow,
    brings_ipex,
    nearest_torch,
    not_asked,
    rows_for_request,
    to_minor,
)

# The doctor's words for instruction sets that the table has as well.
_LEVELS = {"sse": "x86-64-v2", "avx": "x86-64-v2", "avx512-bf16": "avx512", "amx": "avx512"}


@dataclass(frozen=True)
class Offer:
    """`reasons` empty: it fits. `taken`: `install` takes it without a request for IPEX."""

    row: StackRow
    reasons: tuple[str, ...]
    taken: bool = True


def stack_offers(rows: Sequence[StackRow], host: Facts, request: Request) -> tuple[Offer, ...]:
    """Return every row of the table in its order; if no Python of the host is known, any fits."""
    offers = []
    for row in rows_for_request(rows, request):
        one = host if host.pythons else replace(host, pythons=(Python("", row.pythons[0]),))
        reasons = not_asked(row, request), host_reason(row, one, replace(request, mpi=mpi.NONE))
        offers.append(Offer(row, tuple(filter(None, reasons)), not brings_ipex(row, request)))
    return tuple(offers)


def first_choice(offers: Sequence[Offer]) -> StackRow | None:
    """Return the row that `install` takes."""
    return next((offer.row for offer in offers if not offer.reasons and offer.taken), None)


def nearest_fitting_torch(rows: Sequence[StackRow], host: Facts, request: Request) -> str:
    """Return the torch to ask for instead of one that the table does not have; "" for none."""
    offers = stack_offers(rows, host, replace(request, torch=""))
    fitting = {offer.row for offer in offers if offer.taken and not offer.reasons}
    return nearest_torch([offer.row for offer in offers], request.torch, fitting.__contains__)


def as_host(python: str, isa: str, glibc: str, arch: str) -> Facts:
    """Return a host with only these facts; "" rules out no row."""
    level = _LEVELS.get(isa, isa)
    if level and level not in ISA:
        raise unknown_value("--isa", isa, dict.fromkeys((*list(ISA)[1:], *_LEVELS)))
    levels = list(ISA)[: list(ISA).index(level or "any") + 1]
    libc, minor = _read_minor("glibc", glibc), _read_minor("python", python)
    return Facts(
        host="such hosts",
        kernel="",
        os_name="",
        user="",
        uid=None,
        home="",
        boot_id="",
        agent="python",
        clock=None,
        libc=f"glibc {libc[0]}.{libc[1]}" if libc else "",
        cpu=CpuFacts(
            arch or "x86_64",
            "",
            "",
            None,
            None,
            frozenset().union(*(ISA[name] for name in levels)),
            (),
            None,
        ),
        mem=MemFacts(None, None, None, None, None),
        net=NetFacts("", (), "", (), ""),
        disk=DiskFacts("", None, None, "", None, None),
        pythons=(Python("", minor),) if minor else (),
    )


def _read_minor(option: str, text: str) -> Minor | None:
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


def python_span(row: StackRow) -> str:
    """Return the Python versions of the row, such as "3.9-3.13"."""
    first, last = row.pythons[0], row.pythons[-1]
    return f"{first[0]}.{first[1]}-{last[0]}.{last[1]}"
