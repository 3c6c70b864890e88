"""facts -> stack -> lock -> blobs on every host -> environment built there, proved, switched to."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from ipexctl.core import stack as stacks
from ipexctl.core.checks.storage import PATH_HINT, PATH_WHY, path_problem
from ipexctl.core.facts import peer_address
from ipexctl.core.model import Facts, Host, HostRecap, Python
from ipexctl.core.refusals import folded
from ipexctl.errors import HostFailed, IpexctlError, NothingFits
from ipexctl.hosts.agent import Agent, connect
from ipexctl.hosts.fleet import fan_out
from ipexctl.hosts.relay import Relay
from ipexctl.hosts.resolver import Resolved
from ipexctl.verbs.choice import decide
from ipexctl.verbs.facts import probe
from ipexctl.verbs.hints import spelled_downs, spelled_error
from ipexctl.verbs.installing import bundled, carrying
from ipexctl.verbs.installing.bundled import Bundle
from ipexctl.verbs.installing.fetching import fetched
from ipexctl.verbs.installing.hosts import changes_to, complete, on_hosts, states_of, would
from ipexctl.verbs.installing.locking import (
    lacking,
    lock_for,
    read_lock,
    sized_if_known,
    write_lock,
)
from ipexctl.verbs.installing.work import (
    LOCK_FILE,
    Chosen,
    Cuda,
    Install,
    InstallReport,
    Planned,
    Progress,
    Step,
    Work,
    note_downs,
    recap_of,
)
from ipexctl.verbs.last import remember
from ipexctl.verbs.target import AnyTransport, Target, inventory, root_of
from ipexctl.verbs.versions import table


def install(target: Target, asked: Install, progress: Progress) -> InstallReport:
    """Raises NothingFits, InputError, NotHere; what fails on one host is in its recap."""
    began = time.monotonic()
    bundle = bundled.accepted(asked)
    hosts = inventory(target)
    work = Work(asked, progress)
    transport = AnyTransport(target, hosts)
    try:
        facts = _facts(work, transport, hosts.hosts, target)
        chosen, recaps = _all_steps(work, facts, bundle, target.forks) if facts else (None, {})
    except NothingFits as e:
        e.why = folded(e.why)
        raise spelled_error(e, target, asked.root) from None
    except IpexctlError as e:
        raise spelled_error(e, target, asked.root) from e.__cause__
    finally:
        for agent in work.agents.values():
            agent.close()
        transport.close()
    downs = spelled_downs(tuple(work.downs.values()), target, asked.root)
    recaps |= {host: recap_of(d, began) for host, d in zip(work.downs, downs, strict=True)}
    ordered = tuple(recaps[host] for host in hosts.hosts)
    remember(hosts, {r.host: r.state.value for r in ordered}, "install")
    seconds = time.monotonic() - began
    return InstallReport(
        ordered, chosen, work.fetched, work.sent, seconds, asked.check, work.fetch, work.drawn,
        work.passed,
    )  # fmt: skip


def _all_steps(
    work: Work, facts: Sequence[Facts], bundle: Bundle | None, forks: int
) -> tuple[Chosen, dict[Host, HostRecap]]:
    found, new_lock = _found(work, facts, bundle)
    stack, lock = found.stack, found.lock
    names = tuple(f.host for f in facts)
    unasked = found.no_cpu_build if work.asked.cuda is Cuda.ASK else ""
    chosen = Chosen(stack, lock, names, new_lock, unasked, 0 if bundle else lacking(lock))
    work.progress.chosen(chosen)
    states = states_of(work, lock, forks)
    planned = Planned(chosen, changes_to(lock, states))
    agreed = not planned.changes or work.progress.agreed(planned)
    if work.asked.check or not agreed:
        return chosen, would(work, lock, states, agreed=agreed)
    lacking_it = [host.name for host, state in states.items() if not complete(state, lock)]
    if work.asked.relay and len(lacking_it) > 1:
        where = {f.host: peer_address(f) for f in facts if f.host in lacking_it}
        work.carrier = Relay(work.carrier, where, work.progress.say)
    if lacking_it:
        lock = bundled.unpack(work, bundle) if bundle else fetched(work, found, states, forks)
    elif new_lock:
        lock = sized_if_known(lock)
    if new_lock:
        write_lock(work.asked.folder / LOCK_FILE, lock)
    recaps = on_hosts(work, stack, lock, states, forks)
    return replace(chosen, lock=lock), recaps


def _found(work: Work, facts: Sequence[Facts], bundle: Bundle | None) -> tuple[Resolved, bool]:
    """The files to install, and whether ipexctl.lock does not name them yet."""
    folder = work.asked.folder
    old = bundle.lock if bundle else read_lock(folder / LOCK_FILE)
    wanted = decide(work.asked.wanted, old, folder)
    python = carrying.carried(work, facts, old)
    facts = carrying.only(facts, python)
    if bundle:
        return bundled.resolved(facts, wanted, bundle), bundle.new_lock
    found, new_lock = lock_for(work, stacks.choose(facts, wanted, table()), old)
    return carrying.in_lock(found, python), new_lock or found.lock.cpython != python


def _facts(
    work: Work, transport: AnyTransport, hosts: Sequence[Host], target: Target
) -> tuple[Facts, ...]:
    """Of the hosts that answered; the others are in `downs`."""
    named = work.asked.wanted.python
    python = named if "/" in named else ""

    def one(host: Host) -> Facts:
        work.progress.step(Step(host.name, "connecting"))
        agent = connect(transport, host, timeout=target.connect_timeout, python=python)
        work.agents[host] = agent
        seen = probe(agent, root_of(host, work.asked.root))
        if problem := path_problem(seen.disk):
            raise HostFailed(
                f"{host.name}: the root folder {problem}", why=PATH_WHY, hint=PATH_HINT
            )
        return _with_named(seen, agent, python)

    outcomes = fan_out(hosts, one, forks=target.forks)
    # not in the order in which they answered: the first one may have something to do for all
    work.agents = {host: work.agents[host] for host in hosts if host in work.agents}
    note_downs(work, outcomes)
    return tuple(f for f in outcomes.values() if isinstance(f, Facts))


def _with_named(facts: Facts, agent: Agent, path: str) -> Facts:
    """The interpreter that the user named runs our agent, if it runs at all."""
    if not path or agent.hello.path != path or len(agent.hello.python) != 3:
        return facts
    major, minor, patch = agent.hello.python
    return replace(facts, pythons=(*facts.pythons, Python(path, (major, minor, patch))))
