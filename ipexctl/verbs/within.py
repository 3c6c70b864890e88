"""env exec: one command in the environment of every host."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ipexctl.core import launch
from ipexctl.core.model import Host, HostDown, HostRecap, Recap
from ipexctl.core.runlog import Lines
from ipexctl.errors import HostFailed
from ipexctl.hosts.agent import Agent, connect
from ipexctl.hosts.fleet import fan_out
from ipexctl.hosts.frames import Frame
from ipexctl.verbs.envs import exit_code
from ipexctl.verbs.facts import ROOT
from ipexctl.verbs.hints import spelled_downs
from ipexctl.verbs.installing.work import SILENCE, recap_of
from ipexctl.verbs.target import AnyTransport, Target, inventory, root_of

Hear = Callable[[str, str, bool], None]  # host, line, is it from stderr; from many threads


@dataclass(frozen=True)
class Ran:
    """One recap per host; `codes` of the command where it ran."""

    codes: tuple[tuple[str, int], ...]
    recaps: tuple[HostRecap, ...]

    @property
    def exit_code(self) -> int:
        return exit_code(self.recaps)


def run_within(target: Target, argv: Sequence[str], hear: Hear, root: str = ROOT) -> Ran:
    """`argv` reaches each host as it is; no shell reads it."""
    began = time.monotonic()
    hosts = inventory(target)
    transport = AnyTransport(target, hosts)
    one_at_a_time = threading.Lock()

    def say(host: str, line: str, err: bool) -> None:
        with one_at_a_time:
            hear(host, line, err)

    def one(host: Host) -> int:
        agent = connect(transport, host, timeout=target.connect_timeout)
        try:
            return _on_host(agent, argv, root_of(host, root), say)
        finally:
            agent.close()

    try:
        outcomes = fan_out(hosts.hosts, one, forks=target.forks)
    finally:
        transport.close()
    codes = tuple((h.name, code) for h, code in outcomes.items() if isinstance(code, int))

    def recap(host: Host, outcome: int | HostDown) -> HostRecap:
        if isinstance(outcome, HostDown):
            return recap_of(spelled_downs([outcome], target, root)[0], began)
        return HostRecap(host.name, Recap.FAILED if outcome else Recap.OK, f"exit {outcome}")

    return Ran(codes, tuple(recap(host, outcome) for host, outcome in outcomes.items()))


def _on_host(agent: Agent, argv: Sequence[str], root: str, say: Hear) -> int:
    name = agent.host.name
    done = agent.call("prepare.run", {"root": root, "run_id": "exec"}, timeout=SILENCE).done
    try:
        env = launch.read_prepared(done).mpi_env
    except ValueError as e:
        raise HostFailed(f"{name}: what it says of itself is not readable ({e})") from None
    streams = {"out": Lines(), "err": Lines()}

    def told(frame: Frame) -> None:
        event = str(frame.header.get("event"))
        for line in streams[event].feed(frame.body) if event in streams else ():
            say(name, line, event == "err")

    asked = {"argv": list(argv), "env": [list(pair) for pair in env]}
    code = agent.call("within.exec", asked, timeout=SILENCE, on_event=told).done.whole("code", 255)
    for event, lines in streams.items():
        for line in lines.end():
            say(name, line, event == "err")
    return code
