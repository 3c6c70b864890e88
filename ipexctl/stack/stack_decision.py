"""The stack, Python and dtype for the hosts; both `doctor` and `install` decide here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ipexctl.errors import InputError
from ipexctl.facts import isa
from ipexctl.facts.facts import Facts
from ipexctl.facts.pythons_facts import Python
from ipexctl.quick_dataclass import dataclass
from ipexctl.stack import mpi, selection
from ipexctl.stack.lock_file import Lock, LockedPackage
from ipexctl.stack.selection import Stack
from ipexctl.stack.version_table import GLOO, Request, StackRow

BF16, FP32 = "bf16", "fp32"
DEFAULT = "the default (IPEX is discontinued and needs --stack ipex)"


@dataclass(frozen=True)
class Decision:
    """`candidates`: one row, once per Python that all hosts share, the preferred one first.

    The package indexes decide between them.
    """

    candidates: tuple[Stack, ...]
    dtype: str

    @property
    def stack(self) -> Stack:
        return self.candidates[0]


def decide_stack(
    facts: Sequence[Facts],
    asked: Request,
    lock: Lock | None,
    rows: Sequence[StackRow],
    carried: LockedPackage | None = None,
) -> Decision:
    """Decide: options win over the lock, and the lock over the table. The user's code is not read.

    `carried`: the Python that is copied to the hosts. Raises NothingFits, InputError.
    """
    facts = with_carried(facts, carried)
    wanted = wanted_stack(facts, asked, lock, rows)
    found = selection.choose_stacks(facts, wanted, rows)
    if lock and wanted.row:
        found = tuple(sorted(found, key=lambda stack: stack.python_text != lock.python))
    return Decision(found, choose_dtype(facts))


def choose_dtype(facts: Sequence[Facts]) -> str:
    """Return one data type for all ranks, since they exchange what they compute."""
    return BF16 if facts and all(isa.has_bf16(f.cpu) for f in facts) else FP32


def wanted_stack(
    facts: Sequence[Facts], asked: Request, lock: Lock | None, rows: Sequence[StackRow]
) -> Request:
    """Return the request with what selects its rows, and the reason."""
    intel = mpi.INTEL.name if all(isa.is_x86(f.cpu) for f in facts) else mpi.NONE
    wanted = replace(asked, mpi=asked.mpi or (mpi.word_of(lock.mpi) if lock else intel))
    if wanted.names_a_stack:
        return replace(wanted, because=_requested_options(wanted))
    if lock:
        return _as_locked(wanted, lock, rows)
    return replace(wanted, stack="stock", because=DEFAULT)


def _requested_options(wanted: Request) -> str:
    options = ("torch", "ipex", "backend", "stack")
    said = (f"--{name} {getattr(wanted, name)}" for name in options if getattr(wanted, name))
    return f"asked for with {' '.join(said)}"


def _as_locked(wanted: Request, lock: Lock, rows: Sequence[StackRow]) -> Request:
    gloo = lock.row.endswith(GLOO)
    if lock.row.removesuffix(GLOO) not in {row.name for row in rows}:
        raise InputError(
            f"ipexctl.lock names the row {lock.row}, which is not in the version table",
            hint="rm ipexctl.lock   # chooses again; `ipexctl stacks` shows the table",
            slug="lock-row-unknown",
        )
    backend = "gloo" if gloo else ""
    return replace(wanted, row=lock.row, backend=backend, because="ipexctl.lock names it")


def with_carried(facts: Sequence[Facts], package: LockedPackage | None) -> tuple[Facts, ...]:
    """Give every host this Python and no other, so that all ranks have the same one.

    A host that runs no Python at all cannot run our agent either.
    """
    if not package:
        return tuple(facts)
    there = (Python("", tuple(int(n) for n in package.version.split("."))),)
    return tuple(replace(f, pythons=there if f.agent == "python" else ()) for f in facts)
