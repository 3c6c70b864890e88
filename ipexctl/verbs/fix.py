"""doctor --fix and --undo: plan on every host, show, ask, do. What needs root is only printed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ipexctl.core import fix
from ipexctl.core.fix import Done, Plan
from ipexctl.core.model import Host, HostDown
from ipexctl.errors import EXIT_FAILED, EXIT_OK, EXIT_UNREACHABLE, worst_exit
from ipexctl.hosts.agent import Agent, connect
from ipexctl.hosts.fleet import fan_out
from ipexctl.verbs.facts import ROOT
from ipexctl.verbs.target import AnyTransport, Target, inventory, root_of

_QUIET = 60.0


@dataclass(frozen=True)
class FixReport:
    """`agreed` is False when there was a plan and the user did not want it."""

    plans: tuple[Plan, ...]
    done: tuple[Done, ...]
    down: tuple[HostDown, ...]
    agreed: bool = True

    @property
    def exit_code(self) -> int:
        codes = [EXIT_UNREACHABLE if d.slug == "unreachable" else EXIT_FAILED for d in self.down]
        failed = any(d.failed for d in self.done)
        return worst_exit([*codes, EXIT_FAILED if failed else EXIT_OK])


def mend(target: Target, agree: Callable[[Sequence[Plan]], bool], root: str = ROOT) -> FixReport:
    """`agree` sees every host's plan before anything is changed anywhere."""
    with _Hosts(target) as hosts:
        found = hosts.ask("fixes.look", {h: {"root": root_of(h, root)} for h in hosts.agents})
        plans = tuple(fix.plan(h.name, raw) for h, raw in found.items())
        wanted = {p.host: tuple(c.key for c in p.changes) for p in plans if p.changes}
        if not wanted or not agree(plans):
            return FixReport(plans, (), tuple(hosts.down), agreed=not wanted)
        asked: dict[Host, dict[str, object]] = {
            h: {"root": root_of(h, root), "keys": wanted[h.name]} for h in found if h.name in wanted
        }
        done = hosts.ask("fixes.apply", asked)
        results = tuple(fix.done(h.name, raw) for h, raw in done.items())
        return FixReport(plans, results, tuple(hosts.down))


def undo(target: Target, root: str = ROOT) -> FixReport:
    """Takes back the newest --fix of each host."""
    with _Hosts(target) as hosts:
        done = hosts.ask("fixes.undo", {h: {"root": root_of(h, root)} for h in hosts.agents})
        results = tuple(fix.done(h.name, raw) for h, raw in done.items())
        return FixReport((), results, tuple(hosts.down))


class _Hosts:
    """All hosts of a target, connected; those that fail are in `down`."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.agents: dict[Host, Agent] = {}
        self.down: list[HostDown] = []

    def __enter__(self) -> _Hosts:
        hosts = inventory(self._target)
        self._transport = AnyTransport(self._target, hosts)
        timeout = self._target.connect_timeout + 5

        def one(host: Host) -> Agent:
            return connect(self._transport, host, timeout=timeout)

        for host, outcome in fan_out(hosts.hosts, one, forks=self._target.forks).items():
            if isinstance(outcome, HostDown):
                self.down.append(outcome)
            elif outcome.hello.kind != "python":
                outcome.close()
                what = f"{host.name}: no Python on the host"
                self.down.append(HostDown(host.name, "host-failed", what))
            else:
                self.agents[host] = outcome
        return self

    def __exit__(self, *_: object) -> None:
        for agent in self.agents.values():
            agent.close()
        self._transport.close()

    def ask(self, op: str, args: dict[Host, dict[str, object]]) -> dict[Host, dict[str, object]]:
        def one(host: Host) -> dict[str, object]:
            return dict(self.agents[host].call(op, args[host], timeout=_QUIET).done)

        found = {}
        for host, outcome in fan_out(list(args), one, forks=self._target.forks).items():
            if isinstance(outcome, HostDown):
                self.down.append(outcome)
            else:
                found[host] = outcome
        return found
