"""A run on the hosts, as `ipexctl.api` returns it. Its state is read from them each time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from html import escape
from pathlib import Path
from typing import Any

from ipexctl.base.secret_mask import SecretMask
from ipexctl.base.sizes import count, duration
from ipexctl.errors import IpexctlError, printable_text
from ipexctl.inventory.hostfile_text import fold
from ipexctl.machines.target import ROOT, Target
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.hang.diagnosis import stall_of
from ipexctl.run.jobs.metrics import RankPoint
from ipexctl.run.outcome.listed_runs import ListedRun
from ipexctl.run.outcome.run_state import RunState
from ipexctl.run.output.training_state import Training, TrainingProgress
from ipexctl.run.pace.run_speed import Speed
from ipexctl.run.watch.metric_formats import metric_formats

_LEFT = 'style="text-align:left"'


@dataclass(frozen=True, eq=False)
class RunStatus:
    """The status of a run. `losses` are those of the first rank, in the order of its lines."""

    run: ListedRun
    seconds: float
    progress: TrainingProgress = TrainingProgress()
    losses: tuple[float, ...] = ()
    speed: Speed | None = None

    @property
    def state(self) -> str:
        return self.run.phase.value

    @property
    def cause(self) -> str:
        """The first cause of a failure; "" if nothing has failed."""
        return self.run.cause

    @property
    def rate(self) -> float | None:
        """The steps per second."""
        return self.speed.steps_per_second if self.speed else None

    def __repr__(self) -> str:
        """Return one line, for a terminal."""
        rows = {name: text for name, text in self._list_rows() if text}
        rows.pop("command", None)
        first = f"{self.run.id}: {rows.pop('state')}"
        return ", ".join([first, *(f"{name} {text}" for name, text in rows.items())])

    def _repr_html_(self) -> str:
        title = self.run.id + (f" ({self.run.about.name})" if self.run.about.name else "")
        rows = [_labelled_row(name, escape(text)) for name, text in self._list_rows() if text]
        return notebook_table(f"run {title}", rows)

    def _list_rows(self) -> Iterator[tuple[str, str]]:
        """Yield rows without secrets: notebooks are shared with their output."""
        run, progress = self.run, self.progress
        mask = SecretMask((), run.about.command)
        ranks = count(run.about.ranks, "rank")
        where = f"{ranks} on {fold(run.about.hosts)}, {duration(self.seconds)}"
        yield "state", f"{self.state}, {where}"
        yield "command", mask.mask_text(printable_text(run.about.command))
        total = f" of {progress.total}" if progress.total else ""
        yield "step", "" if progress.step is None else f"{progress.step}{total}"
        yield "speed", str(self.speed or "")
        yield "loss", " -> ".join(f"{loss:.4g}" for loss in dict.fromkeys(self._end_losses()))
        yield "first cause", mask.mask_text(printable_text(run.cause))
        yield "held up by", printable_text(str(stall_of(run) or ""))
        yield "last line", mask.mask_text(printable_text(run.last)) if run.cause else ""

    def _end_losses(self) -> Sequence[float]:
        return (self.losses[0], self.losses[-1]) if self.losses else ()


def notebook_table(title: str, rows: Sequence[str]) -> str:
    """Return a table. `rows` are HTML, the title is text."""
    head = f"<caption {_LEFT}><b>{escape(title)}</b></caption>"
    return f"<table>{head}<tbody>{''.join(rows)}</tbody></table>"


def _labelled_row(name: str, html: str) -> str:
    return f'<tr><th scope="row" {_LEFT}>{name}</th><td {_LEFT}>{html}</td></tr>'


def table_row(texts: Sequence[str], tag: str = "td") -> str:
    row = (f"<{tag} {_LEFT}>{escape(printable_text(text))}</{tag}>" for text in texts)
    return f"<tr>{''.join(row)}</tr>"


WIDTH = 100  # width of texts
FIRST = (0,)  # the rank whose steps and losses a status has


class ShownText(str):
    """A text that is displayed without quotes. `document`: the same as the command's --json."""

    document: dict[str, Any]

    def __repr__(self) -> str:
        return str(self)


class RunHandle:
    """A run. `id` is that of the first attempt; the state is that of the last one."""

    def __init__(self, target: Target, run_id: str, root: str = ROOT) -> None:
        self._target, self._root = target, root
        self.id = run_id

    def __repr__(self) -> str:
        return f"<run {self.id}>"

    def _repr_html_(self) -> str:
        try:
            return self.status()._repr_html_()
        except IpexctlError as e:  # a representation must not raise
            return notebook_table(
                f"run {self.id}", [table_row([text]) for text in (e.what, e.why, e.hint)]
            )

    def status(self) -> RunStatus:
        """Return state, step, steps per second, losses and first cause."""
        from ipexctl.run.jobs.metrics import measure_rank_speed, read_metrics

        metrics = read_metrics(self._target, self.id, FIRST, self._root)
        training, last = Training(metric_formats()), 0.0
        for point in metrics.points:
            if point.time is not None:
                training.add(point.rank, point.point, point.time)
                last = point.time
        losses = tuple(point.point.loss for point in metrics.points if point.point.loss is not None)
        run = metrics.run
        progress, speed = training.progress(last), measure_rank_speed(metrics.points)
        return RunStatus(run, run.seconds_at(time.time()), progress, losses, speed)

    @property
    def state(self) -> str:
        """The state, as in `ipexctl ps`."""
        return self._read_state().phase.value

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self._read_state().over

    def _read_state(self) -> RunState:
        from ipexctl.machines.fleet import Fleet
        from ipexctl.run.jobs.ps import NEWEST, find_run

        with Fleet(self._target, self._root) as fleet:
            return find_run(fleet, self.id, newest=NEWEST).state

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """Steps, losses and rates of all ranks, from their output: one dict for each line that has
        one; missing values are left out."""
        from ipexctl.run.jobs.metrics import read_metrics

        return metric_rows(read_metrics(self._target, self.id, root=self._root).points)

    def logs(self, rank: int | None = None, lines: int | None = None) -> ShownText:
        """Return the output of the ranks, or of one rank; `lines`: the last ones of each rank."""
        from ipexctl.run.command.logs_text import rank_prefix
        from ipexctl.run.jobs.logs import Wanted, show_logs
        from ipexctl.run.output.rank_lines import without_colour

        shown: list[str] = []

        def show(run: ListedRun, host: str, number: int, texts: Sequence[str]) -> None:
            prefix = f"{rank_prefix(run, host, number)} | " if rank is None else ""
            shown.extend(prefix + without_colour(text) for text in texts)

        request = Wanted(self.id, () if rank is None else (rank,), lines)
        read = show_logs(self._target, request, show, self._root)
        shown += [f"{recap.host}: not read: {recap.detail}" for recap in read.recaps]
        return ShownText("\n".join(shown))

    def why(self) -> ShownText:
        """Return the rank the run waits for, and what its steps wait for; fields: `.document`."""
        from ipexctl.run.command.why_text import why_document, why_lines
        from ipexctl.run.jobs.why import explain_run_state

        state = explain_run_state(self._target, self.id, self._root)
        text = ShownText(printable_text("\n".join(why_lines(state, WIDTH))))
        text.document = why_document(state)
        return text

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code of the ended run. Raises RunContinues after `timeout` seconds."""
        from ipexctl.run.jobs.wait import wait_for_run

        outcome = wait_for_run(self._target, self.id, self._root, timeout)
        if not outcome.run.over:
            raise RunContinues(
                f"{self.id} is {outcome.run.phase.value} after {duration(timeout or 0)}",
                hint="run.status() shows it, run.stop() stops it",
                slug="run-continues",
            )
        return outcome.exit_code

    def stop(self, seconds: float = 10) -> str:
        """Stop the run: Ctrl-C to its ranks and `seconds` for them to end. Returns its state."""
        from ipexctl.run.jobs.ps import stop_run

        return stop_run(self._target, self.id, seconds, self._root).run.phase.value

    def report(self, path: str | Path | None = None) -> Path | None:
        """Write the report of the run, an HTML file, and return its path."""
        from ipexctl.report.run_report import report

        return report(self._target, self.id, self._root, to=str(path or "")).path


class RunContinues(IpexctlError):
    """The run has not ended within the timeout of `wait`."""


class RunList(list[RunHandle]):
    """The newest run is first. The table shows what was read when the list was made."""

    def __init__(self, target: Target, runs: tuple[ListedRun, ...], root: str) -> None:
        super().__init__(RunHandle(target, run.id, root) for run in runs)
        self._runs = runs

    def _repr_html_(self) -> str:
        head = table_row(["run", "name", "state", "ranks", "hosts", "first cause"], "th")
        rows = [
            table_row((run.id, a.name, run.phase.value, str(a.ranks), fold(a.hosts), cause))
            for run in self._runs
            for a in (run.about,)
            for cause in (SecretMask((), a.command).mask_text(run.cause),)
        ]
        return notebook_table(count(len(rows), "run"), [head, *rows])


def metric_rows(points: Iterable[RankPoint]) -> list[dict[str, Any]]:
    return [
        {"rank": p.rank, "host": p.host, "line": p.line, "time": _utc_time(p.time), **p.point.says}
        for p in points
    ]


def _utc_time(seconds: float | None) -> datetime | None:
    """Return the time to the second, its precision."""
    return None if seconds is None else datetime.fromtimestamp(round(seconds), timezone.utc)
