"""`doctor`: collect the facts of all hosts, test their connections to each other, and judge.

Two phases over one connection per host: facts from all, then each connects to the others. With the
level `std` a third one: what they compute and what the links carry (doctor/measure.py).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ipexctl.base import quoting
from ipexctl.base.host_outcome import HostDown
from ipexctl.common.reach_answers import HostsTried
from ipexctl.doctor.checks import run_all
from ipexctl.doctor.checks.reachability import choose_peers
from ipexctl.doctor.measure import measure_hosts
from ipexctl.doctor.report.cluster import CheckedHosts
from ipexctl.doctor.report.finding import Finding
from ipexctl.doctor.report.recommendations import recommend_settings
from ipexctl.doctor.report.report import Report
from ipexctl.errors import InputError, unknown_value
from ipexctl.facts.env_choice import EnvChoice
from ipexctl.facts.facts import Facts
from ipexctl.facts.host_facts import peer_address
from ipexctl.facts.reachability_facts import Peer
from ipexctl.facts.speed_facts import Measurements
from ipexctl.inventory.inventory import Host, Inventory
from ipexctl.local.hostfile_reader import hostfile_here
from ipexctl.local.project_lock import LOCK_FILE, choice_here, lock_folder, read_lock
from ipexctl.local.shipped_tables import stack_rows
from ipexctl.machines.agent import Agent
from ipexctl.machines.agent_start import AHEAD
from ipexctl.machines.fleet import GRACE, Fleet, fan_out
from ipexctl.machines.probe_host import facts_request, read_facts_reply
from ipexctl.machines.suggested_commands import list_options, other_pythons
from ipexctl.machines.suggested_commands import target_options as options_of
from ipexctl.machines.target import ROOT, Target
from ipexctl.project.training_script import training_script
from ipexctl.quick_dataclass import dataclass
from ipexctl.stack.lock_file import Lock

LEVELS = ("quick", "std")
PEER_TIMEOUT = 2.0
_BESIDE = "beside MASTER_PORT: "  # prefix of the name, for the second port of the same host


@dataclass(frozen=True)
class DoctorOptions:
    """Options of an examination. `python`: the interpreter whose torch std measures, "" for the
    stack's. `compute` False: only the network is measured."""

    level: str = "quick"
    python: str = ""
    env: EnvChoice | None = None
    compute: bool = True


@dataclass(frozen=True)
class ConnectedHost:
    """A connected host that listens on `port` for the others (None: it does not)."""

    agent: Agent
    facts: Facts
    port: int | None


_USUAL = DoctorOptions()


def run_doctor(target: Target, root: str = ROOT, options: DoctorOptions = _USUAL) -> Report:
    """Examine the hosts. Raises InputError for invalid host names; all else is in the report."""
    fleet = Fleet(target, root, grace=GRACE)
    choice = choice_here()
    if choice and choice.newer:
        from ipexctl.install.requirement_files import changed_note

        if note := changed_note(target, choice, fleet.root):
            target.note(note)
    report = examine_hosts(fleet, replace(options, env=choice))
    fleet.remember({host.name: report.state(host.name) for host in fleet.hosts.hosts}, "doctor")
    return report


def examine_hosts(fleet: Fleet, options: DoctorOptions = _USUAL) -> Report:
    """Examine hosts that are already known. The fleet is opened and closed here."""
    hosts, target = fleet.hosts, fleet.target
    if options.level not in LEVELS:
        meant = "quick" if options.level == "fast" else ""
        raise unknown_value("--level", options.level, LEVELS, meant)
    began = time.monotonic()
    with fleet:
        facts, peers, measured = _ask_hosts(fleet, options)
    lost = {down.host for down in fleet.failures}
    peers = tuple(peer for peer in peers if peer.target not in lost)
    alive = tuple(host for host in facts if host.host not in lost)
    cluster = CheckedHosts(
        alive, peers, rows=stack_rows(), measured=measured, lock=_lock_for_install(fleet.target)
    )
    return Report(
        hosts=hosts.hosts,
        facts=facts,
        down=fleet.failures,
        peers=peers,
        findings=with_options(run_all(cluster), target, fleet.root),
        seconds=time.monotonic() - began,
        named=quote_host_options(target, hosts),
        root="" if fleet.root == ROOT or "root" in target.configured else fleet.root,
        without_downs=fleet.without_downs(),
        level=options.level,
        script=training_script(Path.cwd()),
        measured=measured,
        recommendations=recommend_settings(cluster),
        env=options.env,
        requirements=_requirements_here(options.env),
        unchecked=hostfile_here() if not (target.hostfile or target.hosts) else "",
    )


def with_options(findings: Iterable[Finding], target: Target, root: str) -> tuple[Finding, ...]:
    """Return the findings with the user's options added to ipexctl commands."""
    options = list_options(target, root)
    return tuple(replace(finding, fix=finding.fix.with_options(options)) for finding in findings)


def _requirements_here(choice: EnvChoice | None) -> str:
    """Return the requirements file to install from if there is no lock yet."""
    name = "requirements.txt"
    return name if choice and not choice.lock and os.path.isfile(name) else ""


def _lock_for_install(target: Target) -> Lock | None:
    """Return the lock that `install` follows."""
    try:
        return read_lock(lock_folder() / LOCK_FILE)
    except InputError as e:
        target.note(f"{e.what}: {e.why}")
        return None


def _ask_hosts(
    fleet: Fleet, options: DoctorOptions
) -> tuple[tuple[Facts, ...], tuple[Peer, ...], Measurements]:
    """Collect facts in one round trip per host: the request is sent along with the agent."""
    several, env = len(fleet.hosts.hosts) > 1, options.env.key if options.env else ""

    def first(host: Host) -> ConnectedHost:
        root = fleet.root_of(host)
        agent = fleet.connect(host, ahead=[facts_request(root, listen=several, env=env, dns=True)])
        return ConnectedHost(agent, *read_facts_reply(agent, AHEAD, agent.hello.sent, root))

    seen = {host.name: connected for host, connected in fleet.map_hosts(first).items()}
    for text in other_pythons(connected.agent for connected in seen.values()):
        fleet.target.note(text)
    attempts = fleet.record(connect_all(fleet.alive, seen, fleet.target.forks))
    peers = tuple(peer for reached in attempts.values() for peer in reached)
    measured = Measurements()
    if options.level != "quick":
        alive = {host: seen[host.name].facts for host in fleet.alive}
        measured = measure_hosts(fleet, alive, options.python, env, compute=options.compute)
    facts = tuple(connected.facts for connected in seen.values())
    return facts, peers, measured


def quote_host_options(target: Target, hosts: Inventory) -> str:
    """Return the hosts as the user would name them in another command."""
    options = options_of(target)
    if options or target.hostfile:
        return quoting.quote(options)
    names = ",".join(host.name for host in hosts.hosts if not host.local)
    return quoting.quote(("-H", names)) if names else ""


def connect_all(
    hosts: Sequence[Host], seen: Mapping[str, ConnectedHost], forks: int
) -> dict[Host, list[Peer] | HostDown]:
    """Return what each host can reach; hosts may be lost meanwhile."""
    where = {n: (peer_address(s.facts), s.port) for n, s in seen.items() if s.port}
    beside_port = {
        n: s.facts.net.range_port
        for n, s in seen.items()
        # it listens on our connection's address; others may not reach it: a forwarded port
        if s.facts.net.range_port and where.get(n, ("", 0))[0] == s.facts.net.ssh_address
    }
    listening = [h for h in hosts if h.name in where and where[h.name][0]]
    plan = choose_peers([h.name for h in listening])

    def second(host: Host) -> list[Peer]:
        targets = [(name, *where[name]) for name in plan[host.name]]
        if not targets:
            return []
        in_range = [(_BESIDE + n, a, beside_port[n]) for n, a, _ in targets if n in beside_port]
        args = {
            "targets": targets + in_range,
            "large": [name for name, _, _ in targets],
            "timeout": PEER_TIMEOUT,
        }
        reply = seen[host.name].agent.call(
            "facts.read_reachability.connect",
            args,
            timeout=PEER_TIMEOUT + 10,
            total=PEER_TIMEOUT + 30,
        )
        return _list_peers(host.name, targets, reply.done.read(HostsTried))

    return fan_out(listening, second, forks=forks)


def _list_peers(
    source: str, targets: Sequence[tuple[str, str, int]], tried: HostsTried
) -> list[Peer]:
    """Convert a host's answer to one Peer for each target that it tried to reach."""
    errors = {one.target: one.error for one in tried.results}
    large = {sent.target: (sent.lost, sent.passes) for sent in tried.large}
    peers = []
    for name, address, _ in targets:
        lost, passes = large.get(name, (None, None))
        peers.append(
            Peer(
                source=source,
                target=name,
                address=address,
                ok=errors.get(name) == "",
                error=errors.get(name, "?"),
                in_range=errors.get(_BESIDE + name),
                lost=lost,
                passes=passes,
            )
        )
    return peers
