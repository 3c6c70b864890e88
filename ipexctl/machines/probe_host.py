"""Collect the facts of hosts."""

from __future__ import annotations

import time

from ipexctl.facts import host_facts as core
from ipexctl.facts.clocks_facts import ClockFacts, estimate_clock
from ipexctl.facts.facts import Facts
from ipexctl.machines.agent import Agent
from ipexctl.machines.agent_start import Ahead
from ipexctl.machines.target import ROOT
from ipexctl.machines.wire.frames import Frame


def probe_facts(agent: Agent, root: str = ROOT, *, fs: str = "/") -> Facts:
    """Return the facts of one host. Raises Unreachable or HostFailed."""
    if agent.hello.kind != "python":
        return read_facts_reply(agent, 0, 0.0, root)[0]
    sent = time.monotonic()
    request = facts_request(root, listen=False, fs=fs)
    return read_facts_reply(agent, agent.start(request.op, request.args), sent, root)[0]


def facts_request(
    root: str, *, listen: bool, fs: str = "/", env: str = "", dns: bool = False, load: bool = True
) -> Ahead:
    """Return the request for facts. `fs`: prefix of /proc and /sys on the host (for tests). `env`:
    key of the environment to inspect; "": the current one. `dns`: query the name servers, and wait
    for silent ones. `load`: on a busy host, sample for 0.2 s which processes compute."""
    args = {"root": root, "listen": listen, "fs": fs, "environment": env, "dns": dns, "load": load}
    return Ahead("facts.probe.facts", args)


def read_facts_reply(
    agent: Agent, number: int, sent: float, root: str = ROOT
) -> tuple[Facts, int | None]:
    """Return the facts, and the port where the host listens until the agent ends, or None.

    `number`: the request, which was sent at `sent` (monotonic).
    """
    name = agent.host.name
    if agent.hello.kind != "python":
        return core.from_sh(name, agent.hello.sh_text, root), None
    clocks: list[ClockFacts | None] = []

    def hear(frame: Frame) -> None:
        if frame.header.get("event") == "clock" and not clocks:
            received, now = time.monotonic(), time.time()
            remote = frame.header.get("now")
            clocks.append(estimate_clock(sent=sent, received=received, now=now, remote=remote))

    reply = agent.wait(number, timeout=30.0, total=60.0, on_event=hear)
    facts = core.from_json(name, reply.done, clocks[0] if clocks else None)
    port = core.count_or_none(reply.done.get("port"))
    return facts, port if port and port < 65536 else None
