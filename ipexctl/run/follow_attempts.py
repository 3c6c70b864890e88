"""The further attempts of a run with --restarts: its hosts start them, this shows them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ipexctl.base.values import count_or_none, listed, plain, texts
from ipexctl.errors import InputError, IpexctlError
from ipexctl.inventory.inventory import Host
from ipexctl.machines.fleet import Fleet
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.attach import attach
from ipexctl.run.outcome.outcome import Left, RunResult
from ipexctl.run.watch.run_watchers import Interrupts, View

LOOK = 1.0  # seconds between two questions
ANSWER = 10.0  # seconds for a host to answer
SHOWS = 60.0  # for an attempt that was announced to be seen
SILENT = 120.0  # without an answer of any host


@dataclass(frozen=True)
class Line:
    """Of RUN/attempts. `end`: why there is no further attempt."""

    attempt: int = 0
    run_id: str = ""
    hosts: tuple[str, ...] = ()
    why: str = ""
    checkpoint: str = ""
    end: str = ""


def read_story(raw: Any) -> tuple[Line, ...]:
    """Odd values become empty ones."""
    return tuple(
        Line(
            count_or_none(one.get("attempt")) or 0,
            plain(one.get("run_id"), 80),
            texts(one.get("hosts")),
            plain(one.get("why"), 400),
            plain(one.get("checkpoint"), 400),
            plain(one.get("end"), 400),
        )
        for one in listed(raw)
        if isinstance(one, dict)
    )


@dataclass
class Attempts:
    fleet: Fleet
    run_id: str
    view: View
    interrupts: Interrupts
    note: Callable[[str], None]

    def followed(self, result: RunResult | Left) -> RunResult | Left:
        """The result of the last attempt; `result`: of the first."""
        seen = 1
        while isinstance(result, RunResult):
            line = self._next(seen)
            if line is None or line.end:
                if line and result.exit_code:
                    self.note(f"no further attempt: {line.end}")
                return result
            from_ = f" from {line.checkpoint}" if line.checkpoint else ""
            self.note(f"{line.why}; attempt {line.attempt} on {', '.join(line.hosts)}{from_}")
            seen = line.attempt
            result = self._shown(line) or result
        return result

    def _next(self, seen: int) -> Line | None:
        """The next attempt, or the end. None: no host knows of either."""
        heard = time.monotonic()
        while time.monotonic() - heard < SILENT:
            told = [self._story(host) for host in self.fleet.agents]
            lines = [line for story, _ in told for line in story]
            later = [line for line in lines if line.attempt > seen]
            if later:
                return min(later, key=lambda line: line.attempt)
            if ended := [line for line in lines if line.end]:
                return ended[0]
            if any(alive for _, alive in told):
                heard = time.monotonic()
            time.sleep(LOOK)
        return None

    def _story(self, host: Host) -> tuple[tuple[Line, ...], bool]:
        with suppress(IpexctlError):
            asked = {"root": self.fleet.root_of(host), "journal": host.name, "run_id": self.run_id}
            agent = self.fleet.agents[host]
            done = agent.call("restart.attempts.story", asked, timeout=ANSWER).done
            return read_story(done["story"]), done["alive"] is True
        return (), False

    def _shown(self, line: Line) -> RunResult | Left | None:
        until = time.monotonic() + SHOWS
        while time.monotonic() < until:
            with suppress(InputError):  # its journals are not there yet
                target, root = self.fleet.target, self.fleet.root
                return attach(
                    target, line.run_id, self.view, self.interrupts, root, tell_result=False
                )
            time.sleep(LOOK)
        return None
