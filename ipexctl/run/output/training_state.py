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
        known = self.ranks.get(rank)
        every = READ_EVERY * max(1.0, len(self.ranks) / FEW)
        if known is not None and now - known.read < every:
            known.unread, known.unread_at = (*known.unread, *texts[-READ:])[-READ:], now
            return True
        if known is not None and known.unread:
            if now - known.unread_at < every:
                return self._read(rank, (*known.unread, *texts), now)
            self._read(rank, known.unread, known.unread_at)
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
        known = self.ranks.setdefault(rank, _Rank())
        before = known.last
        self._began = now if self._began is None else self._began
        if point.step is not None:
            restarted = before.step is not None and point.step < before.step
            if restarted or (point.total and before.total and point.total != before.total):
                known.seen.clear()
            moved = not known.seen or known.seen[-1][1] != point.step
            if moved and now - self._began >= SETTLE:
                known.seen.append((now, point.step))
        if point.rate is not None:
            known.rate, known.rated = point.rate, now
        if point.total is not None and point.step is not None:
            known.of_epoch = point.epoch is not None and point.epoch == int(point.epoch)
        fresh = {name: value for name, value in vars(point).items() if value is not None}
        known.last = replace(before, **fresh)

    def progress(self, now: float) -> TrainingProgress:
        """Return the progress of the first rank that prints steps, else metrics."""
        for rank, one in self.ranks.items():
            if one.unread and now - one.read >= READ_EVERY:
                self._read(rank, one.unread, one.unread_at)
        found = sorted(self.ranks.items())
        if not found:
            return TrainingProgress()
        known = next((one for _, one in found if one.last.step is not None), found[0][1])
        last, rate = known.last, _step_rate(known, now)
        left = last.total - last.step if last.total and last.step is not None else None
        losses = [one.last.loss for _, one in found if one.last.loss is not None]
        bad = [rank for rank, one in found if one.last.loss and not isfinite(one.last.loss)]
        return TrainingProgress(
            step=last.step,
            total=last.total,
            epoch=last.epoch,
            epochs=last.epochs,
            loss=_mean_loss(known, found),
            rate=rate,
            eta=left / rate if left is not None and left >= 0 and rate else None,
            of_epoch=known.of_epoch,
            nan=tuple(bad) if len(bad) < len(losses) else (),
        )


def _mean_loss(known: _Rank, found: list[tuple[int, _Rank]]) -> float | None:
    """Return the mean over ranks at the same step; without a step, the loss of one rank."""
    losses = [(one.last.step, one.last.loss) for _, one in found if one.last.loss is not None]
    if known.last.loss is None or known.last.step is None:
        return next((loss for _, loss in losses), None)
    same = [loss for step, loss in losses if step == known.last.step]
    good = [loss for loss in same if isfinite(loss)] or same
    return sum(good) / len(good)


def _step_rate(known: _Rank, now: float) -> float | None:
    if known.rated is not None:
        return known.rate if now - known.rated < STALE else None
    if len(known.seen) < 2 or now - known.seen[-1][0] > STALE:
        return None
    (first, low), (last, high) = known.seen[0], known.seen[-1]
    return (high - low) / (last - first) if last > first and high > low else None
