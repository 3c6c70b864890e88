"""run: facts -> plan -> snapshot -> mpirun on node0 -> events -> one result."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ipexctl.core import launch
from ipexctl.core.launch import Node, RunRequest
from ipexctl.core.model import Host, HostDown, Prepared
from ipexctl.core.stack import env_vars
from ipexctl.errors import IpexctlError, RunFailed, Unreachable
from ipexctl.hosts.agent import Agent, connect
from ipexctl.hosts.fleet import fan_out
from ipexctl.verbs import sync
from ipexctl.verbs.facts import ROOT, probe
from ipexctl.verbs.session import Interrupts, RunResult, Session, View
from ipexctl.verbs.target import AnyTransport, Target, inventory

HOST_SILENCE = 30.0

T = TypeVar("T")


@dataclass(frozen=True)
class RunOptions:
    script: str
    args: tuple[str, ...] = ()
    module: bool = False
    n: int | None = None
    ppn: int | None = None
    root: str = ROOT
    env: tuple[tuple[str, str], ...] = ()
    forks: int = 64
    host_timeout: float = HOST_SILENCE


def run(target: Target, options: RunOptions, view: View, interrupts: Interrupts) -> RunResult:
    """Raises IpexctlError when it never came to ranks; otherwise the result tells how it went."""
    hosts = inventory(target)
    snapshot = sync.take(_folder(options))
    for note in snapshot.notes:
        view.note(note)
    transport = AnyTransport(target, hosts)
    agents: dict[Host, Agent] = {}
    try:
        run_id = new_run_id()
        nodes = _each(
            hosts.hosts, lambda h: _prepare(h, transport, target, options, agents), options.forks
        )
        run_dir = f"{options_root(nodes)}/runs/{run_id}"
        request = RunRequest(_argv(options), options.n, options.ppn, options.env)
        plan = launch.plan(list(nodes.values()), request, run_dir)
        used = {h: a for h, a in agents.items() if any(p.host == h.name for p in plan.hosts)}
        view.planned(run_id, plan)
        sent = _each(
            list(used),
            lambda h: sync.send(agents[h], options.root, run_id, snapshot),
            options.forks,
        )
        travelled = sum(count for _, count in sent.values())
        view.note(
            f"sent {snapshot.folder} to the hosts: {len(snapshot.files)} files, "
            f"{travelled / 1000:.1f} kB that they did not have"
        )
        session = Session(plan, run_id, options.root, options.host_timeout, view, interrupts)
        result = session.drive({h.name: (used[h], sent[h][0]) for h in used})
        view.result(result)
        return result
    finally:
        for agent in list(agents.values()):
            agent.close()
        transport.close()


def new_run_id() -> str:
    return time.strftime("%Y%m%d-%H%M%S-", time.gmtime()) + secrets.token_hex(3)


def options_root(nodes: Mapping[Host, Node]) -> str:
    """The root folder on node0, as an absolute path."""
    return next(iter(nodes.values())).facts.disk.root


def _folder(options: RunOptions) -> Path:
    if options.module:
        return Path.cwd()
    script = Path(options.script)
    if not script.is_file():
        raise RunFailed(
            f"there is no script {options.script}",
            why=f"looked in {Path.cwd()}",
            hint="ipexctl run [OPTIONS] SCRIPT [ARGUMENTS]",
            exit_code=2,
        )
    return script.resolve().parent


def _argv(options: RunOptions) -> tuple[str, ...]:
    if options.module:
        return ("-m", options.script, *options.args)
    return (Path(options.script).name, *options.args)


def _prepare(
    host: Host,
    transport: AnyTransport,
    target: Target,
    options: RunOptions,
    agents: dict[Host, Agent],
) -> Node:
    agent = agents[host] = connect(transport, host, timeout=target.connect_timeout)
    if agent.hello.kind != "python":
        raise RunFailed(
            f"{host.name}: no Python 3.6 or newer there", hint="ipexctl doctor", exit_code=123
        )
    facts = probe(agent, options.root)
    done = agent.call("runs.prepare", {"root": options.root}).done
    packages = dict(done["packages"])
    if not done["mpirun"]:
        raise RunFailed(
            f"{host.name}: there is no mpirun in {done['prefix']}",
            hint="ipexctl install",
            exit_code=123,
        )
    mpi_env = env_vars(done["prefix"], packages.get("impi-rt", ""))
    prepared = Prepared(
        done["prefix"], tuple(packages.items()), tuple(mpi_env), done["path"], done["port"]
    )
    return Node(host, facts, prepared)


def _each(hosts: Sequence[Host], work: Callable[[Host], T], forks: int) -> dict[Host, T]:
    """The same on all hosts, and all must succeed: a training needs every one of them."""
    outcomes = fan_out(hosts, work, forks=forks)
    downs = [o for o in outcomes.values() if isinstance(o, HostDown)]
    if downs:
        raise _together(downs, len(hosts))
    return {h: o for h, o in outcomes.items() if not isinstance(o, HostDown)}


def _together(downs: Sequence[HostDown], total: int) -> IpexctlError:
    first = downs[0]
    unreachable = {"unreachable", "host-key-unknown", "host-key-changed"}
    kind = Unreachable if any(d.slug in unreachable for d in downs) else RunFailed
    if len(downs) == 1:
        return kind(first.what, why=first.why, hint=first.hint)
    lines = "\n".join(d.what for d in downs)
    return kind(f"{len(downs)} of {total} hosts cannot run this", why=lines, hint=first.hint)
