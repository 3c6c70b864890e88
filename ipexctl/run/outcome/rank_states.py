"""Track the state of ranks by their events. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from itertools import islice
from typing import TYPE_CHECKING

from ipexctl.common.described_ends import describe_rank_end
from ipexctl.common.run_events import Usage
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.output.rank_lines import TAIL, WARNING, Lines, without_noise

if TYPE_CHECKING:
    from ipexctl.run.plan.launch import LaunchPlan

MOST_WARNINGS = 8


@dataclass(frozen=True)
class RankEnd:
    rank: int
    host: str
    code: int | None = None
    signal: int | None = None
    lost: bool = False  # its wrapper ended without a report (killed with SIGKILL)
    hints: tuple[str, ...] = ()  # what its host noticed: keys of _HINTS
    usage: Usage | None = None
    at_exit: int | None = None  # the signal that ended Python after the script had ended

    @property
    def ok(self) -> bool:
        return self.code == 0

    @property
    def exit_code(self) -> int:
        if self.signal is not None:
            return 128 + self.signal
        if self.lost:
            return 137
        return 1 if self.code is None else self.code  # None: not known, and so no success

    @property
    def short(self) -> str:
        if self.signal is not None or self.lost:
            return f"signal {self.signal or 9}"
        return f"exit code {'unknown' if self.code is None else self.code}"

    def __str__(self) -> str:
        """Describe the end. A host's count of OOM kills explains it if one rank was killed."""
        killed = self.lost or self.signal == 9
        hints = [hint for hint in self.hints if killed or hint != "oom"]
        return describe_rank_end(self.code, self.signal, self.lost) + "".join(
            f"; {_HINTS[hint]}" for hint in hints if hint in _HINTS
        )


_HINTS = {
    "oom-rank": "the kernel killed it because memory ran out (OOM)",
    "oom-limit": "its control group reached its memory limit, and the kernel killed one of its "
    "processes (OOM)",
    "oom": "meanwhile the host ran out of memory and its kernel killed a process (OOM)",
    "disk-full": "the disk with its folder and its log is full",
}


@dataclass
class RankStates:
    """What the ranks of a run do and print, as hosts report it."""

    plan: LaunchPlan
    started: set[int] = field(default_factory=set)
    ends: dict[int, RankEnd] = field(default_factory=dict)
    tails: dict[int, list[str]] = field(default_factory=dict)
    _streams: dict[int, Lines] = field(default_factory=dict)
    hidden: int = 0
    warnings: list[str] = field(default_factory=list)  # of our modules in the ranks

    def rank_ended(self, end: RankEnd) -> None:
        self.ends[end.rank] = end

    def output(self, rank: int, data: bytes) -> list[str]:
        lines = self._streams.setdefault(rank, Lines()).feed(data)
        return self._remember(rank, lines)

    def skim(self, rank: int, data: bytes) -> int:
        """Process output too fast to be read: only the last lines are remembered."""
        if WARNING.encode() in data:
            return len(self.output(rank, data))
        passed, lines = self._streams.setdefault(rank, Lines()).skim(data)
        return passed + len(self._remember(rank, lines))

    def final_output(self, rank: int) -> list[str]:
        stream = self._streams.get(rank)
        return self._remember(rank, stream.end()) if stream else []

    def bars(self, wanted: Callable[[int, str], bool], most: int) -> list[tuple[int, str]]:
        """Return up to `most` of the wanted progress bars that have moved since the last call."""
        bars = ((rank, stream.bar()) for rank, stream in sorted(self._streams.items()))
        moved = ((rank, bar) for rank, bar in bars if bar and wanted(rank, bar))
        shown = list(islice(moved, most))
        for rank, bar in shown:
            self._streams[rank].told(bar)
        return shown

    def _remember(self, rank: int, lines: list[str]) -> list[str]:
        if lines:
            shown = without_noise(lines)
            warnings = (text[len(WARNING) :] for text in lines if text.startswith(WARNING))
            room = MOST_WARNINGS - len(self.warnings)
            self.warnings += [f"rank {rank}: {text[:400]}" for text in islice(warnings, room)]
            self.hidden += len(lines) - len(shown)
            self.tails[rank] = (self.tails.get(rank, []) + shown[-TAIL:])[-TAIL:]
            return shown
        return lines

    @property
    def alive(self) -> int:
        return len(self.started - self.ends.keys())

    @property
    def all_ended(self) -> bool:
        return len(self.ends) == self.plan.world_size

    @property
    def all_ok(self) -> bool:
        return self.all_ended and all(e.ok for e in self.ends.values())
