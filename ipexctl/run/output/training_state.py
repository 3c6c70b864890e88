"""Track where the ranks are in their training, by what they print. No clock here."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import field, replace
from math import isfinite

from ipexctl.quick_dataclass import dataclass
from ipexctl.run.output.metric_lines import Formats, LineReader, Point

STALE = 60.0  # seconds after which a bar or a rate that did not change is not shown
READ_EVERY = 0.2  # seconds, per rank: reading all lines of a flood would cost more than drawing
FEW = 8  # ranks; beyond this number, each is read less often
READ = 8  # last lines that are read
SETTLE = 2.0  # seconds in which old lines may come all at once: they give no rate
SPAN = 20  # last steps from which a rate is computed


@dataclass(frozen=True)
class TrainingProgress:
    """The content of a status line. None: unknown."""

    step: int | None = None
    total: int | None = None
    epoch: float | None = None
    epochs: int | None = None
    loss: float | None = None
    rate: float | None = None  # steps per second
    eta: float | None = None  # seconds
    of_epoch: bool = False  # the step, its total and the time left are those of this epoch
    nan: tuple[int, ...] = ()  # ranks whose loss is none, while others have one


@dataclass
class _Rank:
    last: Point = field(default_factory=Point)
    seen: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=SPAN))
    rated: float | None = None  # when a rate was printed
    rate: float | None = None
    read: float = float("-inf")  # when its lines were last read
    unread: tuple[str, ...] = ()
    unread_at: float = 0.0
    of_epoch: bool = False

    @property
    def progress(self) -> TrainingProgress:
        """Return the progress of this rank, without what is the same for all."""
        return TrainingProgress(self.last.step, None, self.last.epoch, None, self.last.loss)


@dataclass
class Training:
    """Fed with the lines and bars of each rank; queried now and then."""

    formats: Formats
    ranks: dict[int, _Rank] = field(default_factory=dict)
    _readers: dict[int, LineReader] = field(default_factory=dict)
    _began: float | None = None

    def lines(self, rank: int, texts: Sequence[str], now: float) -> bool:
        """Return whether the lines have metrics, or were too many to read."""
        state = self.ranks.get(rank)
        interval = READ_EVERY * max(1.0, len(self.ranks) / FEW)
        if state is not None and now - state.read < interval:
            state.unread, state.unread_at = (*state.unread, *texts[-READ:])[-READ:], now
            return True
        if state is not None and state.unread:
            if now - state.unread_at < interval:
                return self._read(rank, (*state.unread, *texts), now)
            self._read(rank, state.unread, state.unread_at)
        return self._read(rank, texts, now)

    def _read(self, rank: int, texts: Sequence[str], now: float) -> bool:
        reader = self._readers.setdefault(rank, LineReader(self.formats))
        points = [point for text in texts[-READ:] if (point := reader.point(text))]
        for point in points:
            self.add(rank, point, now)
        if rank in self.ranks:
            self.ranks[rank].read, self.ranks[rank].unread = now, ()
        return bool(points)

    def add(self, rank: int, point: Point, now: float) -> None:
        state = self.ranks.setdefault(rank, _Rank())
        previous = state.last
        self._began = now if self._began is None else self._began
        if point.step is not None:
            restarted = previous.step is not None and point.step < previous.step
            if restarted or (point.total and previous.total and point.total != previous.total):
                state.seen.clear()
            moved = not state.seen or state.seen[-1][1] != point.step
            if moved and now - self._began >= SETTLE:
                state.seen.append((now, point.step))
        if point.rate is not None:
            state.rate, state.rated = point.rate, now
        if point.total is not None and point.step is not None:
            state.of_epoch = point.epoch is not None and point.epoch == int(point.epoch)
        fresh = {name: value for name, value in vars(point).items() if value is not None}
        state.last = replace(previous, **fresh)

    def progress(self, now: float) -> TrainingProgress:
        """Return the progress of the first rank that prints steps, else metrics."""
        for rank, state in self.ranks.items():
            if state.unread and now - state.read >= READ_EVERY:
                self._read(rank, state.unread, state.unread_at)
        by_rank = sorted(self.ranks.items())
        if not by_rank:
            return TrainingProgress()
        lead = next((entry for _, entry in by_rank if entry.last.step is not None), by_rank[0][1])
        last, rate = lead.last, _step_rate(lead, now)
        remaining = last.total - last.step if last.total and last.step is not None else None
        losses = [entry.last.loss for _, entry in by_rank if entry.last.loss is not None]
        bad = [rank for rank, entry in by_rank if entry.last.loss and not isfinite(entry.last.loss)]
        return TrainingProgress(
            step=last.step,
            total=last.total,
            epoch=last.epoch,
            epochs=last.epochs,
            loss=_mean_loss(lead, by_rank),
            rate=rate,
            eta=remaining / rate if remaining is not None and remaining >= 0 and rate else None,
            of_epoch=lead.of_epoch,
            nan=tuple(bad) if len(bad) < len(losses) else (),
        )


def _mean_loss(lead: _Rank, ranks: list[tuple[int, _Rank]]) -> float | None:
    """Return the mean over ranks at the same step; without a step, the loss of one rank."""
    losses = [(rank.last.step, rank.last.loss) for _, rank in ranks if rank.last.loss is not None]
    if lead.last.loss is None or lead.last.step is None:
        return next((loss for _, loss in losses), None)
    same = [loss for step, loss in losses if step == lead.last.step]
    good = [loss for loss in same if isfinite(loss)] or same
    return sum(good) / len(good)


def _step_rate(state: _Rank, now: float) -> float | None:
    if state.rated is not None:
        return state.rate if now - state.rated < STALE else None
    if len(state.seen) < 2 or now - state.seen[-1][0] > STALE:
        return None
    (first, low), (last, high) = state.seen[0], state.seen[-1]
    return (high - low) / (last - first) if last > first and high > low else None
