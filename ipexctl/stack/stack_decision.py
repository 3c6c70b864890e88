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
    request: Request,
    lock: Lock | None,
    rows: Sequence[StackRow],
    carried: LockedPackage | None = None,
) -> Decision:
    """Decide: options win over the lock, and the lock over the table. The user's code is not read.

    `carried`: the Python that is copied to the hosts. Raises NothingFits, InputError.
    """
    facts = with_carried(facts, carried)
    completed = wanted_stack(facts, request, lock, rows)
    candidates = selection.choose_stacks(facts, completed, rows)
    if lock and completed.row:
        candidates = tuple(sorted(candidates, key=lambda stack: stack.python_text != lock.python))
    return Decision(candidates, choose_dtype(facts))


def choose_dtype(facts: Sequence[Facts]) -> str:
    """Return one data type for all ranks, since they exchange what they compute."""
    return BF16 if facts and all(isa.has_bf16(host.cpu) for host in facts) else FP32


def wanted_stack(
    facts: Sequence[Facts], request: Request, lock: Lock | None, rows: Sequence[StackRow]
) -> Request:
    """Return the request with what selects its rows, and the reason."""
    intel = mpi.INTEL.name if all(isa.is_x86(host.cpu) for host in facts) else mpi.NONE
    completed = replace(request, mpi=request.mpi or (mpi.word_of(lock.mpi) if lock else intel))
    if completed.names_a_stack:
        return replace(completed, because=_requested_options(completed))
    if lock:
        return _as_locked(completed, lock, rows)
    return replace(completed, stack="stock", because=DEFAULT)


def _requested_options(request: Request) -> str:
    options = ("torch", "ipex", "backend", "stack")
    flags = (f"--{name} {getattr(request, name)}" for name in options if getattr(request, name))
    return f"asked for with {' '.join(flags)}"


def _as_locked(request: Request, lock: Lock, rows: Sequence[StackRow]) -> Request:
    gloo = lock.row.endswith(GLOO)
    if lock.row.removesuffix(GLOO) not in {row.name for row in rows}:
        raise InputError(
            f"ipexctl.lock names the row {lock.row}, which is not in the version table",
            hint="rm ipexctl.lock   # chooses again; `ipexctl stacks` shows the table",
            slug="lock-row-unknown",
        )
    backend = "gloo" if gloo else ""
    return replace(request, row=lock.row, backend=backend, because="ipexctl.lock names it")


def with_carried(facts: Sequence[Facts], package: LockedPackage | None) -> tuple[Facts, ...]:
    """Give every host this Python and no other, so that all ranks have the same one.

    A host that runs no Python at all cannot run our agent either.
    """
    if not package:
        return tuple(facts)
    pythons = (Python("", tuple(int(n) for n in package.version.split("."))),)
    return tuple(replace(host, pythons=pythons if host.agent == "python" else ()) for host in facts)
