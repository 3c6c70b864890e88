"""Bytes of ranks -> lines; events of a run -> its state and its first cause. No I/O, no clock."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ipexctl.core.model import LaunchPlan

MAX_LINE = 64 * 1024
TAIL = 20  # lines of each rank that are remembered
# colour passes; every other escape sequence and control character of a rank's output does not
_ESCAPE = re.compile(
    r"\x1b\[[0-9;:]*m"  # kept below
    r"|\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[P^_X][^\x1b]*(?:\x1b\\)?"
    r"|\x1b[ -/]*[0-~]?|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u2028\u2029]"
    r"|[\u202a-\u202e\u2066-\u2069]"
)
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_UNPLAIN = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


# warnings that a healthy run prints; the viewer leaves them out and says how many
_NOISE_WORDS = ("[c10d]", "[Gloo]")  # quicker to look for
_NOISE = re.compile(
    r"\[c10d\] The hostname of the client socket cannot be retrieved"
    r"|\[Gloo\] Rank \d+ is connected to \d+ peer ranks"
)


def clean(text: str) -> str:
    """What a terminal may be shown of it."""
    return _ESCAPE.sub(lambda m: m[0] if _COLOUR.fullmatch(m[0]) else "", text)


class Lines:
    """One stream of bytes -> whole lines. Of a progress bar (`\\r`) only the last state is kept."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        whole, newline, rest = (self._rest + data).rpartition(b"\n")
        lines = _texts(whole) if newline else []
        while len(rest) > MAX_LINE:
            lines += _texts(rest[:MAX_LINE])
            rest = rest[MAX_LINE:]
        self._rest = rest
        return lines

    def end(self) -> list[str]:
        rest, self._rest = self._rest, b""
        return _texts(rest) if rest else []


def _texts(block: bytes) -> list[str]:
    """Lines without their ends -> what may be shown. Almost always nothing has to be changed."""
    text = block.decode("utf-8", "replace")
    lines = text.split("\n")
    if _UNPLAIN.search(text):
        lines = [_text(line) for line in lines]
    if len(text) > MAX_LINE:
        lines = [piece for line in lines for piece in _pieces(line)]
    return lines


def _pieces(line: str) -> list[str]:
    return [line[i : i + MAX_LINE] for i in range(0, len(line) or 1, MAX_LINE)]


def _text(line: str) -> str:
    return clean(line.rstrip("\r").rsplit("\r", 1)[-1].replace("\t", "    "))


@dataclass(frozen=True)
class RankEnd:
    rank: int
    host: str
    code: int | None = None
    signal: int | None = None
    lost: bool = False  # its wrapper vanished without a word (killed with SIGKILL)
    hints: tuple[str, ...] = ()  # what its host saw beside: keys of _HINTS

    @property
    def ok(self) -> bool:
        return self.code == 0

    @property
    def exit_code(self) -> int:
        if self.signal is not None:
            return 128 + self.signal
        return 137 if self.lost else (self.code or 0)

    def __str__(self) -> str:
        return self._how() + "".join(f"; {_HINTS[h]}" for h in self.hints)

    def _how(self) -> str:
        if self.signal is not None:
            return f"was ended by signal {self.signal}{_SIGNALS.get(self.signal, '')}"
        return "was killed" if self.lost else f"exited with code {self.code}"


_HINTS = {
    "oom": "meanwhile the host had no memory left and its kernel killed a process (OOM)",
    "disk-full": "the disk of its folder and its log is full",
}
_SIGNALS = {
    2: " (SIGINT)", 4: " (SIGILL: an instruction this CPU does not have)", 6: " (SIGABRT)",
    7: " (SIGBUS: often a full /dev/shm)", 8: " (SIGFPE)", 9: " (SIGKILL)",
    11: " (SIGSEGV)", 15: " (SIGTERM)",
}  # fmt: skip


@dataclass
class RunState:
    """Fed with what hosts report, in the order of arrival here: never by comparing their clocks."""

    plan: LaunchPlan
    started: set[int] = field(default_factory=set)
    ends: dict[int, RankEnd] = field(default_factory=dict)
    tails: dict[int, list[str]] = field(default_factory=dict)
    _streams: dict[int, Lines] = field(default_factory=dict)
    interrupted: bool = False
    stopping: bool = False  # what ends from now on ends because we asked for it
    first: RankEnd | None = None
    lost: str = ""  # which host was lost, and how we know
    mpi: str = ""  # how mpirun or a daemon of its ended before the ranks did
    hidden: int = 0

    def rank_started(self, rank: int) -> None:
        self.started.add(rank)

    def rank_ended(self, end: RankEnd) -> None:
        self.ends[end.rank] = end
        if not end.ok and self._undecided:
            self.first = end

    def host_lost(self, host: str, why: str) -> None:
        if self._undecided:
            self.lost = f"{host} was lost: {why}"

    def controller_away(self, seconds: float, lease: float) -> None:
        """We were suspended; what comes from the hosts now is about their ends, not the cause."""
        if self._undecided:
            self.lost = (
                f"this machine stood still for {seconds:.0f} s, "
                f"and hosts end a run when they hear nothing for {lease:.0f} s"
            )

    def mpi_ended(self, how: str, *, killed: bool = False) -> None:
        """One of MPI's programs; one that was killed is why the others gave up."""
        if (self._undecided and not self.all_ended) or (killed and self.mpi and not self.stopping):
            self.mpi = how

    @property
    def _undecided(self) -> bool:
        """Nothing has failed yet, and nobody asked for the end."""
        asked = self.stopping or self.interrupted
        return not (asked or self.first or self.lost or self.mpi)

    def output(self, rank: int, data: bytes) -> list[str]:
        lines = self._streams.setdefault(rank, Lines()).feed(data)
        return self._remember(rank, lines)

    def output_end(self, rank: int) -> list[str]:
        stream = self._streams.get(rank)
        return self._remember(rank, stream.end()) if stream else []

    def _remember(self, rank: int, lines: list[str]) -> list[str]:
        if lines:
            told = _without_noise(lines)
            self.hidden += len(lines) - len(told)
            self.tails[rank] = (self.tails.get(rank, []) + told[-TAIL:])[-TAIL:]
            return told
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

    @property
    def victims(self) -> tuple[RankEnd, ...]:
        """Ranks that failed after the first one, most likely because of it."""
        return tuple(
            e for e in self.ends.values() if not e.ok and self.first and e.rank != self.first.rank
        )


def _without_noise(lines: list[str]) -> list[str]:
    if not any(word in line for line in lines for word in _NOISE_WORDS):
        return lines
    return [line for line in lines if not _NOISE.search(line)]
