"""Run the command of --notify on the controller, while a command watches the run.

The host that decides about the run does it otherwise (remote/run/notifier.py): an event is claimed
there first, over a connection of its own, so that each is reported once.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import field, replace

from ipexctl.common import notify_command
from ipexctl.common.run_answers import ClaimAnswer
from ipexctl.errors import EXIT_OK, IpexctlError
from ipexctl.machines.fleet import Fleet
from ipexctl.machines.target import ROOT, Target
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome import verdict
from ipexctl.run.outcome.run_result import RunResult

AT_END = 5.0  # seconds for the command to end, so that a failure can be noted; it goes on then
STATES = {
    verdict.INTERRUPTED: "stopped",
    verdict.UNKNOWN: "lost",
    "controller-lost": "stopped",
}
LOST = (verdict.HOST_LOST, verdict.UNKNOWN)  # then the host that decides may not be there


@dataclass
class EventNotifier:
    target: Target
    command: str = ""
    root: str = ROOT
    name: str = ""  # of the run
    note: Callable[[str], None] = lambda text: None
    _threads: list[threading.Thread] = field(default_factory=list)

    def report_end(self, result: RunResult, run_id: str, host: str, *, is_hub: bool) -> None:
        """Report how the run ended. `host`: the one that decided it, where the event is claimed."""
        state = "done" if result.exit_code == EXIT_OK else STATES.get(result.ended_by, "failed")
        cause = "" if state == "done" else result.cause or result.ended_by
        self.report_event(
            run_id, host, ("end", state, cause), is_lost=is_hub and result.ended_by in LOST
        )

    def report_event(
        self, run_id: str, host: str, event: tuple[str, str, str], *, is_lost: bool = False
    ) -> None:
        """Report an event in the background: its key, the state of the run, and the cause.
        `is_lost`: the host may be lost, and reports nothing then."""
        if self.command and host:
            arguments = (run_id, host, event, is_lost)
            thread = threading.Thread(target=self._run, args=arguments, daemon=True)
            thread.start()
            self._threads.append(thread)

    def close(self) -> None:
        for thread in self._threads:
            thread.join(AT_END)
        if any(thread.is_alive() for thread in self._threads):
            self.note("the command of --notify goes on; if it fails, nothing will say so")

    def _run(self, run_id: str, host: str, event: tuple[str, str, str], is_lost: bool) -> None:  # noqa: FBT001
        key, state, cause = event
        if not self._claim(run_id, host, key, is_lost):
            return
        values = notify_command.describe_event(run_id, self.name, state, cause)
        program = subprocess.Popen(
            (sys.executable, "-I", notify_command.__file__),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        failure = program.communicate(json.dumps((self.command, values)))[0].strip()
        if failure:
            self.note(failure)

    def _claim(self, run_id: str, name: str, key: str, is_lost: bool) -> bool:  # noqa: FBT001
        """Return whether this command is to report it. A host that is not reached does it."""
        target = replace(self.target, limit=(name,), exclude=(), note=lambda text: None)
        try:
            with Fleet(target, self.root) as fleet:
                host = fleet.hosts.hosts[0]
                fleet.connect(host)
                answer = fleet.call(host, "run.notifier.claim", run_id=run_id, key=key)
                return answer.read(ClaimAnswer).claimed
        except IpexctlError:
            return is_lost
