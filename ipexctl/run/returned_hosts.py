"""Hosts of a run with --restarts that have no keeper, as they were away or it was killed: each gets
one. A host without ranks is a spare then."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ipexctl.base.values import texts
from ipexctl.errors import IpexctlError
from ipexctl.inventory.inventory import Host
from ipexctl.machines.agent_start import AHEAD, Ahead
from ipexctl.machines.fleet import Fleet, fan_out
from ipexctl.machines.target import Target
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.prepare_hosts import SHELF

LOOK = 5.0  # seconds between two tries to reach a host that is away
ANSWER = 5.0  # seconds for a host to answer


@dataclass
class ReturnedHosts:
    """With connections of its own, as those of a command are busy with the ranks' output.

    `busy`: names of hosts that have ranks now: of those nothing is said.
    """

    target: Target
    root: str
    run_id: str  # of the first attempt
    busy: Callable[[], Collection[str]]
    back: Callable[[str], None]

    @contextmanager
    def taken_back(self) -> Iterator[None]:
        """Meanwhile, in a thread."""
        over = threading.Event()
        threading.Thread(target=self._look, args=(over,), daemon=True).start()
        try:
            yield
        finally:
            over.set()

    def _look(self, over: threading.Event) -> None:
        with Fleet(self.target, self.root) as self.fleet:
            self.asked = list(self.fleet.hosts.hosts)
            before, led = set[Host](), None
            while not over.wait(LOOK):
                if (away := self._away()) is None:
                    continue
                if led != self.asked[0]:  # another one leads: it may never have missed these
                    before, led = before & away, self.asked[0]
                for host in before - away:
                    if host.name not in self.busy():
                        self.back(host.name)
                for host, alone in fan_out(list(before & away), self._is_alone).items():
                    if alone is True:
                        self._take_back(host)
                before = away

    def _away(self) -> set[Host] | None:
        """Hosts whose keeper has no connection to the one that leads; None if that is not known."""
        for host in list(self.asked):
            with suppress(IpexctlError):
                agent = self.fleet.agents.get(host) or self.fleet.connect(host)
                asked = self._of_run(host) | {"ask": {"away": True}}
                answer = agent.call("restart.attempts.ask", asked, timeout=ANSWER).done
                if (found := answer.get("away")) is not None:
                    return {one for one in self.fleet.hosts.hosts if one.name in texts(found)}
            self.asked = [*self.asked[1:], host]  # it does not lead: the next one first
            if dead := self.fleet.agents.pop(host, None):
                dead.close()
        return None

    def _is_alone(self, host: Host) -> bool:
        """It is reached and has no keeper; one that has is only out of reach of the leader."""
        story = Ahead(
            "restart.attempts.story", self._of_run(host),
            fork="restart.attempts.begin", also=(SHELF,),
        )  # fmt: skip
        with suppress(IpexctlError):
            return self.fleet.reconnect(host, ahead=[story]).wait(AHEAD).done["alive"] is not True
        return False

    def _take_back(self, host: Host) -> None:
        """Start a keeper there."""
        with suppress(IpexctlError):
            if orders := self._orders_of(host):
                asked = {**orders, "root": self.fleet.root_of(host), "host": host.name}
                self.fleet.agents[host].call("restart.attempts.spare", asked)

    def _of_run(self, host: Host) -> dict[str, Any]:
        root = self.fleet.root_of(host)
        return {"root": root, "journal": host.name, "run_id": self.run_id}

    def _orders_of(self, away: Host) -> dict[str, Any]:
        """From the host that leads the run; {} if it is not reached now."""
        leads = self.asked[0]
        asked = self._of_run(leads) | {"ask": {"returned": away.name}}
        answer = self.fleet.agents[leads].call("restart.attempts.ask", asked, timeout=ANSWER).done
        found = answer.get("orders")
        return found if isinstance(found, dict) else {}
