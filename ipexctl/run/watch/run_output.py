"""What the ranks of a run print, exchange and use: kept here, shown, and noted where it is odd."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome import rank_exchange
from ipexctl.run.outcome.run_events import Output
from ipexctl.run.outcome.run_state import RankEnd, RunState
from ipexctl.run.outcome.silent_hosts import SHOWN_AFTER, Health
from ipexctl.run.output.rank_lines import Lines
from ipexctl.run.watch.host_link import WatchedRun
from ipexctl.run.watch.run_folder import Record
from ipexctl.run.watch.run_notices import Teller
from ipexctl.run.watch.run_watchers import Painter
from ipexctl.run.watch.stall_notes import StallNotes
from ipexctl.user_code.frameworks import Frameworks

MPI_TAIL = 20  # lines of mpirun and its daemons that a failed run shows


@dataclass
class RunOutput:
    """Fed with the events of all hosts. No clock here: `now` is given."""

    run: WatchedRun
    painter: Painter
    record: Record = field(default_factory=lambda: Record(None))
    frameworks: Frameworks | None = None

    def __post_init__(self) -> None:
        plan, options = self.run.plan, self.run.options
        self.state = RunState(plan)
        self.exchange = rank_exchange.Watch(plan, self.frameworks)
        self.health = Health(plan, options.host_timeout)
        self.mpi_tail: list[str] = []  # the last words of mpirun and its daemons, of all hosts
        self._mpi_lines: dict[str, Lines] = {}
        self.teller = Teller(self.state, self.painter)
        self.stall = StallNotes(self.state, self.painter, options.name or self.run.run_id)

    @property
    def all_started(self) -> bool:
        return len(self.state.started) == self.run.plan.world_size

    def rank_ended(self, end: RankEnd, now: float) -> None:
        self.state.rank_ended(end)
        self.health.ended(end.rank)
        self.teller.last_end = now

    def printed(self, host: str, event: Output, now: float) -> None:
        size = len(event.data)
        self.record.log(host, event.rank, event.data)
        if event.rank is None:
            lines = self._mpi_lines.setdefault(host, Lines()).feed(event.data)
            said = [line for line in lines if line.strip()]
            self.mpi_tail = [*self.mpi_tail, *said][-MPI_TAIL:]
            self.painter.output(host, -1, (), size)
            return
        if self.painter.full:
            self.painter.drop(host, event.rank, self.state.skim(event.rank, event.data), size)
        else:
            texts = self.state.output(event.rank, event.data)
            self.exchange.printed(event.rank, event.data, texts, now)
            self.painter.output(host, event.rank, texts, size)
            self.teller.bad_loss(event.rank, self.teller.loss.lines(event.rank, texts))

    def log_ended(self, host: str, rank: int) -> None:
        last = self.state.output_end(rank)
        if self.painter.missed(rank):  # a flood, but its last words are shown
            last = self.state.tails.get(rank, [])
        self.painter.output(host, rank, last, 0)
        self.painter.ended(host, rank)
        self.teller.bad_loss(rank, self.teller.loss.lines(rank, last) or self.teller.loss.end(rank))

    def note_silence(self, now: float, heard: Mapping[str, float], *, exchange: bool) -> None:
        """Hosts and ranks that stand still. `heard`: when each host was last heard. `exchange`:
        also ranks that exchange nothing, where all of their connections are known."""
        for text in self.health.news(now, heard):
            self.painter.note(text)
        for text in self.exchange.news(now) if exchange else ():
            self.painter.note(text)
        quiet = ((host, now - at) for host, at in heard.items() if now - at >= SHOWN_AFTER)
        self.stall.tick(now, tuple(quiet))
