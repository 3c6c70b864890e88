"""Asking hosts what they are."""

from __future__ import annotations

import time
from collections.abc import Mapping

from ipexctl.core import facts as core
from ipexctl.core.model import ClockFacts, Facts, Host, HostDown
from ipexctl.hosts.agent import Agent
from ipexctl.hosts.fleet import fan_out
from ipexctl.hosts.frames import Frame

ROOT = "~/.ipexctl"


def probe(agent: Agent, root: str = ROOT) -> Facts:
    """The facts of one host. Raises Unreachable or HostFailed."""
    return probe_and_listen(agent, root, listen=False)[0]


def probe_and_listen(
    agent: Agent, root: str = ROOT, *, listen: bool = True, fs: str = "/"
) -> tuple[Facts, int | None]:
    """Facts, and the port on which the host listens until the agent ends (None: it does not).

    `fs` stands in front of /proc and /sys on the host: tests have recorded machines there.
    """
    name = agent.host.name
    if agent.hello.kind != "python":
        return core.from_sh(name, agent.hello.sh_text, root), None
    clocks: list[ClockFacts | None] = []

    def hear(frame: Frame) -> None:
        if frame.header.get("event") == "clock" and not clocks:
            received, now = time.monotonic(), time.time()
            remote = frame.header.get("now")
            clocks.append(core.clock(sent=sent, received=received, now=now, remote=remote))

    sent = time.monotonic()
    args = {"root": root, "listen": listen, "fs": fs}
    reply = agent.call("probe.facts", args, timeout=30.0, total=60.0, on_event=hear)
    facts = core.from_json(name, reply.done, clocks[0] if clocks else None)
    port = core.whole(reply.done.get("port"))
    return facts, port if port and port < 65536 else None


def gather(
    agents: Mapping[Host, Agent], root: str = ROOT, *, forks: int = 64
) -> dict[Host, Facts | HostDown]:
    """The facts of many hosts, one outcome for each."""
    return fan_out(list(agents), lambda host: probe(agents[host], root), forks=forks)
