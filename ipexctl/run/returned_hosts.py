"""Hosts that a run with --restarts has lost and that are back: each becomes a spare of it again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from ipexctl.errors import IpexctlError
from ipexctl.inventory.inventory import Host
from ipexctl.machines.agent_start import AHEAD, Ahead
from ipexctl.machines.fleet import Fleet
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.prepare_hosts import SHELF

LOOK = 5.0  # seconds between two tries to reach a host that is away
ANSWER = 5.0  # seconds for a host to answer


@contextmanager
def taken_back(
    run: ReturnedHosts, names: Sequence[str], back: Callable[[Host], None]
) -> Iterator[None]:
    """Meanwhile, in a thread: the hosts with these names, as soon as they are reached."""
    over = threading.Event()
    away = [host for host in run.fleet.hosts.hosts if host.name in names]

    def look() -> None:
        left = away
        while left and not over.wait(LOOK):
            found = [host for host in left if run.takes_back(host)]
            left = [host for host in left if host not in found]
            for host in found:
                back(host)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()


@dataclass(frozen=True)
class ReturnedHosts:
    fleet: Fleet
    run_id: str  # of the first attempt

    def takes_back(self, host: Host) -> bool:
        """Does a keeper run there now?"""
        story = Ahead(
            "restart.attempts.story", self._asked(host),
            fork="restart.attempts.begin", also=(SHELF,),
        )  # fmt: skip
        with suppress(IpexctlError):
            agent = self.fleet.reconnect(host, ahead=[story])
            if agent.wait(AHEAD).done["alive"] is True:  # it was only out of reach
                return True
            if orders := self._orders_of(host):
                root = self.fleet.root_of(host)
                agent.call("restart.attempts.spare", {**orders, "root": root, "host": host.name})
                return True
        return False

    def _asked(self, host: Host) -> dict[str, Any]:
        root = self.fleet.root_of(host)
        return {"root": root, "journal": host.name, "run_id": self.run_id}

    def _orders_of(self, away: Host) -> dict[str, Any]:
        """From the host that leads the run; {} where that is not reached."""
        for host, agent in list(self.fleet.agents.items()):
            if host == away:
                continue
            with suppress(IpexctlError):
                op, asked = "restart.attempts.orders_of_returned", self._asked(host)
                found = agent.call(op, asked | {"name": away.name}, timeout=ANSWER).done["orders"]
                if isinstance(found, dict) and found:
                    return found
        return {}
