"""Handle what the ranks of a run print, exchange and use: keep it, show it, and note problems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING

from ipexctl.common.run_events import RanksLooked, Stalled
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome import rank_exchange
from ipexctl.run.outcome.event_reader import Output
from ipexctl.run.outcome.rank_states import RankEnd, RankStates
from ipexctl.run.outcome.run_result import Stall
from ipexctl.run.outcome.silent_hosts import SHOWN_AFTER, Health
from ipexctl.run.output.rank_lines import Lines
from ipexctl.run.pace.live_speed import LiveSpeed
from ipexctl.run.watch.host_link import WatchedRun
from ipexctl.run.watch.metric_formats import metric_formats
from ipexctl.run.watch.run_folder import RunFolder
from ipexctl.run.watch.run_notices import Teller
from ipexctl.run.watch.run_watchers import Painter

if TYPE_CHECKING:
    from ipexctl.common.rank_looks import RankLook

    Looks = dict[str, list[RankLook]]  # by host

MPI_TAIL = 20  # lines of mpirun and its daemons that are shown if a run fails
PATIENCE = 3.0  # seconds for the looks of slow or unreachable hosts


@dataclass
class RunOutput:
    """Handle the events of all hosts. No clock is read: callers pass `now`."""

    run: WatchedRun
    painter: Painter
    record: RunFolder = field(default_factory=lambda: RunFolder(None))

    def __post_init__(self) -> None:
        plan, options = self.run.plan, self.run.options
        self.state = RankStates(plan)
        self.exchange = rank_exchange.ExchangeWatch(plan)
        self.health = Health(plan, options.host_timeout)
        self.speed = LiveSpeed(metric_formats)
        self.mpi_tail: list[str] = []  # the last words of mpirun and its daemons, of all hosts
        self._mpi_lines: dict[str, Lines] = {}
        self.teller = Teller(self.state, self.painter)
        self.stall = StallNotes(self.state, self.painter, options.name or self.run.run_id)

    def rank_ended(self, end: RankEnd, now: float) -> None:
        self.state.rank_ended(end)
        self.health.ended(end.rank)
        self.teller.last_end = now

    def handle_output(self, host: str, event: Output, now: float) -> None:
        """Record output of a host, and show it unless the terminal is behind."""
        size = len(event.data)
        self.record.append_log(host, event.rank, event.data)
        if event.rank is None:
            lines = self._mpi_lines.setdefault(host, Lines()).feed(event.data)
            tail = [line for line in lines if line.strip()]
            self.mpi_tail = [*self.mpi_tail, *tail][-MPI_TAIL:]
            self.painter.paint_lines(host, -1, (), size)
            return
        if self.painter.is_full:
            self.painter.drop_lines(host, event.rank, self.state.skim(event.rank, event.data), size)
        else:
            texts = self.state.output(event.rank, event.data)
            self.health.printed()
            self.exchange.printed(event.rank, event.data, texts, now)
            self.painter.paint_lines(host, event.rank, texts, size)
            self.speed.add_lines(event.rank, texts, now)
            self.teller.note_bad_loss(event.rank, self.teller.loss.lines(event.rank, texts))

    def handle_log_end(self, host: str, rank: int) -> None:
        last = self.state.final_output(rank)
        if self.painter.has_missed_lines(rank):  # after a flood, its last lines are shown
            last = self.state.tails.get(rank, [])
        self.painter.paint_lines(host, rank, last, 0)
        self.painter.end_rank_output(host, rank)
        self.teller.note_bad_loss(
            rank, self.teller.loss.lines(rank, last) or self.teller.loss.end(rank)
        )

    def note_silence(self, now: float, heard: Mapping[str, float], *, exchange: bool) -> None:
        """Note silent hosts and stopped ranks. `heard`: when each host last sent a message.
        `exchange`: also note ranks that exchange nothing."""
        for text in self.health.news(now, heard):
            self.painter.note(text)
        for text in self.exchange.news(now) if exchange else ():
            self.painter.note(text)
        quiet = ((host, now - when) for host, when in heard.items() if now - when >= SHOWN_AFTER)
        self.stall.note_new_stall(now, tuple(quiet))


@dataclass
class StallNotes:
    """Notes once per stall which rank hangs, from the looks of all hosts. Fed with events, called
    ten times a second. No clock here: `now` is given."""

    state: RankStates
    painter: Painter
    run: str  # its name, or its ID
    looks: dict[int, Looks] = field(default_factory=dict)  # by their number
    stalled: Stalled | None = None
    since: float = 0.0  # when this command received it
    noted: Stall | None = None
    ended: float | None = None  # when the run was told to end
    ends: dict[int, str] = field(default_factory=dict)  # of ranks; later ones were ended

    def add_look(self, host: str, event: RanksLooked) -> None:
        self.looks.setdefault(event.number, {})[host] = event.ranks

    def begin_stall(self, event: Stalled, now: float) -> None:
        self.stalled, self.since, self.noted = event, now, None
        self.ends = {rank: end.short for rank, end in self.state.ends.items()}

    def end_stall(self) -> None:
        if self.stalled and self.noted:
            self.painter.note("the run makes progress again")
        self.stalled = self.noted = None
        self.looks.clear()

    def note_new_stall(self, now: float, silent: tuple[tuple[str, float], ...]) -> None:
        """Note a new stall. `silent`: hosts that do not respond, and for how many seconds."""
        if self.stalled is None or self.noted:
            return
        late = self._find_active_hosts() - self._find_looks(self.stalled).keys()
        if not late or now - self.since >= PATIENCE:
            self.note_stall(now, silent)

    def note_stall(self, now: float, silent: tuple[tuple[str, float], ...] = ()) -> None:
        """Note a stall unless it was noted; also at the end of a run that stalled before."""
        if self.stalled is None or self.noted:
            return
        self.noted = self._diagnose_stall(
            self._find_looks(self.stalled), self._count_seconds(now), silent
        )
        self.painter.note(f"{self.noted} (ipexctl why {self.run})")

    def finish_stall(self, now: float) -> Stall | None:
        """Return what held the run up when it was told to end; all looks have been sent."""
        self.note_stall(now)
        return replace(self.noted, seconds=self._count_seconds(now)) if self.noted else None

    def _count_seconds(self, now: float) -> float:
        until = now if self.ended is None else self.ended
        return (self.stalled.seconds if self.stalled else 0.0) + until - self.since

    def _find_looks(self, stalled: Stalled) -> Looks:
        return self.looks.get(stalled.number, {})

    def _find_active_hosts(self) -> set[str]:
        host_of = self.state.plan.host_of
        return {host_of(rank) for rank in self.state.started - self.state.ends.keys()}

    def _diagnose_stall(
        self, looks: Looks, seconds: float, silent: tuple[tuple[str, float], ...]
    ) -> Stall:
        from ipexctl.run.hang.diagnosis import diagnose_run
        from ipexctl.run.hang.hang_report import situation_from_looks

        diagnosis = diagnose_run(
            situation_from_looks(self.state.plan, looks, self.ends, seconds, silent)
        )
        return Stall(seconds, diagnosis.kind.name, diagnosis.headline)
