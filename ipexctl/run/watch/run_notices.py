"""Notes about a run while it lasts: each one once, and not too often."""

from __future__ import annotations

import time
from dataclasses import field
from pathlib import Path

from ipexctl.base import quoting
from ipexctl.base.sizes import duration, format_bytes
from ipexctl.common import run_events
from ipexctl.inventory.hostfile_text import fold
from ipexctl.local.memory import Memory
from ipexctl.local.run_options import RunOptions
from ipexctl.machines.suggested_commands import spell_hint
from ipexctl.machines.target import Target
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome.rank_states import RankStates
from ipexctl.run.outcome.run_result import DetachedRun, Tally
from ipexctl.run.outcome.silent_hosts import Health
from ipexctl.run.output.loss_check import BadLoss, LossWatch
from ipexctl.run.watch.fetch_outputs import compose_fetch_words
from ipexctl.run.watch.metric_formats import metric_formats
from ipexctl.run.watch.run_watchers import Painter

BARS_EVERY, BARS_REDRAWN = 10.0, 0.5  # seconds between bars: as lines, and redrawn in place
MOST_BARS, MOST_REDRAWN = 8, 256  # at once
STRAGGLE = 30.0  # seconds after others ended until a note names the ranks that still run
LOGS_AFTER = 3.0  # seconds for the rest of the logs after which a note says how much there is
LOGS_EVERY = 10.0


@dataclass
class Teller:
    state: RankStates
    painter: Painter
    loss: LossWatch = field(default_factory=lambda: LossWatch(metric_formats))
    last_end: float = 0.0  # when a rank ended
    _bars: float = 0.0
    _logs: float = 0.0

    def make_tally(self, seconds: float, health: Health, now: float) -> Tally:
        state = self.state
        failed = sum(not end.ok for end in state.ends.values())
        return Tally(
            state.plan.world_size,
            state.alive,
            len(state.ends) - failed,
            failed,
            seconds,
            health.known_loads(),
            *health.judged(),
            health.describe_start(now),
        )

    def note_start(self, now: float, began: float, health: Health) -> None:
        """Say once what the ranks do until their first line; a terminal shows it all the time."""
        if not self.painter.view.lossy and (text := health.start_note(now, began)):
            self.painter.note(text)

    def show_bars(self, now: float) -> None:
        """Show unfinished progress bars every few seconds."""
        self._bars = self._bars or now
        redrawn = self.painter.view.lossy
        if now - self._bars > (BARS_REDRAWN if redrawn else BARS_EVERY):
            self._bars = now
            host_of = self.state.plan.host_of
            most = MOST_REDRAWN if redrawn else MOST_BARS
            shown = self.state.bars(
                lambda r, text: self.painter.is_line_shown(host_of(r), r, text), most
            )
            for rank, text in shown:
                self.painter.bar(host_of(rank), rank, text)
                self.note_bad_loss(rank, self.loss.lines(rank, [text]))

    def note_bad_loss(self, rank: int, loss: BadLoss | None) -> None:
        if loss:
            who = f"rank {rank} ({self.state.plan.host_of(rank)})"
            text = f"the loss of {who} is {loss} (ipexctl explain nan-values)"
            self.state.warnings.append(text)
            self.painter.note(text)

    def note_stragglers(self, now: float) -> None:
        """Name the ranks that still run some time after others ended without error."""
        state = self.state
        if not state.ends or not state.alive:
            return
        if self.last_end and now - self.last_end > STRAGGLE:
            self.last_end = 0.0  # report it once, until another rank ends
            running = sorted(state.started - state.ends.keys())
            names = ", ".join(f"{rank} ({state.plan.host_of(rank)})" for rank in running[:4])
            more = f" and {len(running) - 4} more" if len(running) > 4 else ""
            self.painter.note(
                f"{len(state.ends)} of {state.plan.world_size} ranks ended without error "
                f"{STRAGGLE:.0f} s ago or earlier; still running: rank {names}{more}"
            )

    def note_lost_connection(self, name: str, hub: str) -> None:
        """Note that the connection to a host ended. `hub`: "" if the host itself is the hub."""
        text = "the run continues if its hosts are up; reconnecting until Ctrl-C"
        if hub:
            text = f"the run continues as long as {hub} reaches it; its output is shown once it "
            text += "is reconnected"
        self.painter.note(f"{name}: no connection from this machine; {text}")

    def note_remaining_logs(self, now: float, remaining: float) -> None:
        """Note how much output has not arrived after the ranks have ended: `remaining` bytes."""
        self._logs = self._logs or now + LOGS_AFTER - LOGS_EVERY
        if remaining > 0 and now - self._logs > LOGS_EVERY:
            self._logs = now
            self.painter.note(
                f"all ranks have ended; {remaining / 1e6:,.0f} MB of their output are still to "
                "come (Ctrl-C leaves them on the hosts)"
            )


def note_detached_run(
    painter: Painter,
    run: DetachedRun,
    target: Target,
    root: str,
    options: RunOptions = RunOptions(""),  # noqa: B008
) -> None:
    """Say how to return to a run that continues, and how to fetch its files when it has ended."""
    word = options.name or run.run_id
    expected = options.detach and not run.why and not run.queued
    if expected and not painter.view.detailed and not _is_first_detached(Path.cwd()):
        _note_fetch(painter, word, target, root, options)
        return
    if run.why:
        painter.note(f"no host can be reached from here any more: {run.why}")
        painter.note("the run continues if its hosts are up")
    else:
        painter.note(run.queued or f"run {run.run_id} continues in the background")
    for command in () if run.queued else (f"attach {word}", f"stop {word}"):
        painter.note("  " + spell_hint(f"ipexctl {command}", target, root))
    _note_fetch(painter, word, target, root, options)


_DETACHED = Memory("detached", 200)  # projects in which -d was used


def _is_first_detached(folder: Path) -> bool:
    """Decide whether no run of this folder was started with -d before, and note that one is."""
    if _DETACHED.get_entry(str(folder)):
        return False
    _DETACHED.add({str(folder): {"at": time.time()}})
    return True


def _note_fetch(
    painter: Painter, word: str, target: Target, root: str, options: RunOptions
) -> None:
    """Say how to fetch the requested files of a run that continues."""
    if patterns := compose_fetch_words(options):
        painter.note("files are not fetched at its end; when it has ended:")
        globs = quoting.quote(tuple(patterns))
        painter.note("  " + spell_hint(f"ipexctl fetch {word} {globs}", target, root))


def describe_checkpoint(event: run_events.Checkpoint) -> str:
    """Return the note about a checkpoint that is complete."""
    if event.withdrawn:
        return f"checkpoint {event.name} was not complete: another host wrote to it later"
    how = f"complete on {fold(event.hosts)} after {duration(event.seconds)}"
    return f"checkpoint {event.name} ({format_bytes(event.bytes)}): {how}"
