"""The active runs on a host, of any account."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import field, replace

from ipexctl.base.sizes import duration, format_bytes
from ipexctl.base.values import by, plain
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class LiveRun:
    """An active run. None: this account cannot see it (hidepid), or the ranks have not started."""

    id: str = field(metadata=by(plain, key="run", needed=True))
    owner: str = field(metadata=by(plain, needed=True))
    own: bool  # of this account
    name: str = ""
    command: str = ""  # of this account's runs
    ranks: int | None = None
    cpus: frozenset[int] | None = None
    cores: int | None = None
    memory: int | None = None  # bytes, without memory that processes share
    seconds: int | None = None

    def uses_any_of(self, cpus: Set[int] | None) -> bool:
        """Decide whether it uses some of these CPUs, or unknown ones."""
        return self.cpus is None or cpus is None or bool(self.cpus & cpus)

    @property
    def title(self) -> str:
        """Such as "run 20261122-122416-107233 (bert, train.py --epochs 3)"."""
        details = _join_parts(self.name, self.command)
        return f"run {self.id}" + f" ({details})" * bool(details)

    @property
    def usage_text(self) -> str:
        """Such as "ann, 4 ranks, 8 cores, 3.1 GB, for 2 h 5 min"."""
        memory = format_bytes(self.memory) if self.memory else ""
        return _join_parts(self.owner, *self._count_texts, memory, self._age_text)

    @property
    def use_of_cores(self) -> str:
        """The title and the use, which is mostly the same on each host of a run."""
        return f"{self.title} of {_join_parts(self.owner, *self._count_texts, self._age_text)}"

    @property
    def _count_texts(self) -> tuple[str, str]:
        return _count_text(self.ranks, "rank"), _count_text(self.cores, "core")

    @property
    def _age_text(self) -> str:
        return f"for {duration(self.seconds)}" if self.seconds is not None else ""


def add_usage(runs: Iterable[LiveRun]) -> LiveRun:
    """Return a run as its hosts report it together."""
    first, *others = runs
    for other in others:
        first = replace(
            first,
            ranks=_add_known(first.ranks, other.ranks),
            cores=_add_known(first.cores, other.cores),
            memory=_add_known(first.memory, other.memory),
            seconds=max(first.seconds or 0, other.seconds or 0) or first.seconds,
        )
    return first


def _add_known(*counts: int | None) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _join_parts(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def _count_text(number: int | None, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}" if number else ""
