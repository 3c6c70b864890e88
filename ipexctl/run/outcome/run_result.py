"""Classes for how a run ended."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from ipexctl.base.sizes import duration
from ipexctl.common.run_events import HostLoad
from ipexctl.errors import EXIT_OK
from ipexctl.project.files.missing_file import LeftOut
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome.rank_exchange import Exchange
from ipexctl.run.outcome.rank_states import RankEnd
from ipexctl.run.output.rank_lines import without_rank_prefix
from ipexctl.run.output.slow_rank import Slow
from ipexctl.run.pace.slow_steps import SlowSteps
from ipexctl.run.plan.launch import LaunchPlan

EXIT_LOST = 121
EXIT_MPIRUN = 122
EXIT_HOST_FAILED = 123
EXIT_TIMEOUT = 124
EXIT_NOT_TOGETHER = 125
EXIT_NOT_KNOWN = 126


@dataclass(frozen=True)
class HostEnd:
    """What a host reported when the run was over. `survivors` None: it was unreachable."""

    host: str
    survivors: int | None
    logs: str
    load: HostLoad = HostLoad()  # the mean of its CPUs, the peak of its memory


@dataclass(frozen=True)
class LocalRunFolder:
    """The run's folder on this machine."""

    folder: str = ""
    trouble: tuple[str, ...] = ()  # what is missing in it, and why
    outputs: tuple[str, ...] = ()  # what was fetched, in words


@dataclass(frozen=True)
class Stall:
    """What holds up a run that makes no progress, or held it up when it was ended."""

    seconds: float
    kind: str  # of a diagnosis
    headline: str

    def __str__(self) -> str:
        return f"no progress for {duration(self.seconds)}: {self.headline}"

    def document(self) -> dict[str, object]:
        return {**vars(self), "seconds": round(self.seconds, 1)}


@dataclass(frozen=True)
class RunResult:
    run_id: str
    exit_code: int
    ended_by: str  # ranks rank-failed rank-frozen host-lost host-failed controller-lost interrupted
    # timeout mpirun not-together not-known unknown
    seconds: float
    plan: LaunchPlan
    hosts: tuple[HostEnd, ...]
    first: RankEnd | None = None
    tail: tuple[str, ...] = ()
    same: tuple[RankEnd, ...] = ()  # failed like the first one, on their own
    victims: tuple[RankEnd, ...] = ()  # failed after it, most likely because of it
    cause: str = ""
    stall: Stall | None = None  # None: it made progress until the end
    hidden: int = 0  # harmless warnings and frames of C++ that were not shown
    aborted: tuple[int, ...] = ()  # ranks whose Python crashed after the script had ended
    ends: tuple[RankEnd, ...] = ()
    kept: LocalRunFolder = LocalRunFolder()
    exchange: Exchange | None = None  # None: one rank
    again: str = ""  # the command that starts it again
    left_out: LeftOut | None = None
    gpu_check: str = ""  # the line with which the script ended itself, as it found no GPUs
    slow: Slow | None = None  # ranks that the others waited for, most of the time
    steps: SlowSteps | None = None  # what the last steps waited for
    tails: tuple[tuple[str, ...], ...] = ()  # the last lines of each rank
    warnings: tuple[str, ...] = ()  # of ipexctl's modules in the ranks, and a loss that became nan
    spell: Callable[[str], str] | None = None  # adds the user's options to a command in a text
    lost_host: str = ""  # the lost host that is the cause, as the hub or another host reported

    @property
    def lost(self) -> frozenset[str]:
        """The host that ended the run by being lost, unless it has answered since."""
        gone = {host.host for host in self.hosts if host.survivors is None}
        return frozenset({self.lost_host} & gone)

    @property
    def last_words(self) -> tuple[str, ...]:
        """The last lines of the first failed rank: from Python's traceback on, if there is one."""
        tail = tuple(without_rank_prefix(text) for text in self.tail)
        return tuple(from_traceback(tail))

    def spelled(
        self, spell: Callable[[str], str], spell_text: Callable[[str], str] | None = None
    ) -> RunResult:
        """Complete suggested commands. `spell`: adds the user's options to a command; `spell_text`:
        to those in a text."""
        steps = self.steps.spelled(spell) if self.steps else None
        return replace(self, steps=steps, spell=spell_text)

    def is_reachable(self, host: str) -> bool:
        """Return whether the host was reachable at the end of the run."""
        return any(h.host == host and h.logs for h in self.hosts)


@dataclass(frozen=True)
class DetachedRun:
    """The run continues without this command. `why`: "" if the user asked for that."""

    run_id: str
    why: str = ""
    queued: str = ""  # with --queue: its place, or where it has begun

    @property
    def exit_code(self) -> int:
        return EXIT_LOST if self.why else EXIT_OK


@dataclass(frozen=True)
class Tally:
    """The current state of a run, for status lines."""

    ranks: int
    alive: int
    done: int
    failed: int
    seconds: float
    loads: tuple[tuple[str, HostLoad], ...] = ()
    slow: Slow | None = None  # ranks that the others wait for
    busy: tuple[float, ...] = ()  # for each host: the share of its ranks' CPUs that they use
    start: str = ""  # what the ranks do until their first line


_LED_TO = re.compile(r"During handling of the above|The above exception was the direct cause")


def traceback_start(lines: Sequence[str]) -> int:
    """Return where the last traceback begins, with those that led to it; 0 if there is none."""
    starts = [i for i, text in enumerate(lines) if text.startswith(_TRACEBACK)]
    while len(starts) > 1 and any(map(_LED_TO.match, lines[starts[-2] : starts[-1]])):
        starts.pop()
    return starts[-1] if starts else 0


_TRACEBACK = "Traceback (most recent call last)"  # the script has survived earlier ones
_ABORTED = ("terminate called", "Fatal Python error: Aborted")


def from_traceback(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines from the last traceback on, if there is one, without the abort of Python
    that an exception leads to."""
    lines = lines[traceback_start(lines) :]
    if not lines or not lines[0].startswith(_TRACEBACK):
        return lines
    aborts = (i for i, text in enumerate(lines) if text.startswith(_ABORTED))
    return lines[: next(aborts, None)]


def exception_in(lines: Sequence[str]) -> str:
    """Return the first line of the last exception's message; "" if there is none."""
    lines = from_traceback(lines)
    starts = [i for i, text in enumerate(lines) if text.startswith(_TRACEBACK)]
    after = lines[starts[-1] + 1 :] if starts else ()
    return next((text for text in after if text[:1].strip()), "")
