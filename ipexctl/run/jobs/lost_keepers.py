"""Start keepers of a run again that were killed on hosts that are reached: `ps` and `attach` do."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ipexctl.common.attempt_record import AttemptLines, KeeperAnswer, KeeperQuestion
from ipexctl.common.copy_messages import COPY_WORKER
from ipexctl.errors import IpexctlError
from ipexctl.inventory.hostfile_text import fold
from ipexctl.inventory.inventory import Host
from ipexctl.machines.agent_start import AHEAD, Ahead
from ipexctl.machines.fleet import Fleet, fan_out
from ipexctl.run.outcome.listed_runs import ListedRun

ANSWER = 5.0  # seconds for a host to answer


def restore_keepers(fleet: Fleet, run: ListedRun) -> None:
    """Start the keepers of an active run again that its leader misses on hosts that are reached;
    say so. Without them, these hosts would be left out of its next attempt."""
    leading = next((report for report in run.seen if report.keeper.leads), None)
    by_target = {host.name: host for host in fleet.alive}
    if run.over or leading is None or leading.target not in by_target:
        return
    kept = {report.host for report in run.seen if report.row.kept}
    targets = {report.host: report.target for report in run.seen}
    by_name = {name: by_target.get(targets.get(name, name)) for name in leading.keeper.away}
    away = {host: name for name, host in by_name.items() if host and name not in kept}
    alone = fan_out(list(away), lambda host: lacks_keeper(fleet, host, away[host], run.first_id))
    lost = [host for host, is_alone in alone.items() if is_alone is True]
    if not lost:
        return
    leader = by_target[leading.target], leading.host

    def start(host: Host) -> bool:
        return start_keeper(fleet, leader, host, away[host], run.first_id)

    started = [away[host] for host, done in fan_out(lost, start).items() if done is True]
    names = [away[host] for host in lost]
    watch = "keeps no watch" if len(lost) == 1 else "keep no watch"
    end = "its keeper is started again" if len(lost) == 1 else "their keepers are started again"
    if left := sorted(set(names) - set(started)):
        end = f"no keeper was started on {fold(left)}; the next attempt may leave it out"
    count = f"{len(lost)} of {leading.keeper.keepers} hosts"
    fleet.target.note(f"{run.about.name or run.first_id}: {count} {watch} ({fold(names)}); {end}")


def lacks_keeper(fleet: Fleet, host: Host, name: str, run_id: str) -> bool:
    """Return whether a host is reachable and has no keeper; its new agent can start one."""
    request = {"root": fleet.root_of(host), "known_as": name, "run_id": run_id}
    record = Ahead(
        "restart.attempts.record", request, fork="restart.attempts.begin", also=(COPY_WORKER,)
    )
    with suppress(IpexctlError):
        return not fleet.reconnect(host, ahead=[record]).wait(AHEAD).done.read(AttemptLines).alive
    return False


def start_keeper(
    fleet: Fleet, leader: tuple[Host, str], host: Host, name: str, run_id: str
) -> bool:
    """Start a keeper on a host that `lacks_keeper`, with orders of the leader. `leader`: the host,
    and its name in the run. Return whether it was started."""
    with suppress(IpexctlError):
        question = KeeperQuestion(returned=name).document()
        if orders := ask_keeper(fleet, *leader, run_id, question).orders:
            request = {**orders, "root": fleet.root_of(host), "host": name}
            fleet.agents[host].call("restart.attempts.spare", request)
            return True
    return False


def ask_keeper(
    fleet: Fleet, host: Host, name: str, run_id: str, question: dict[str, Any]
) -> KeeperAnswer:
    """Ask the keeper on a host. `question`: a KeeperQuestion."""
    root = fleet.root_of(host)
    request = {"root": root, "known_as": name, "run_id": run_id, "ask": question}
    agent = fleet.agents[host]
    return agent.call("restart.attempts.ask", request, timeout=ANSWER).done.read(KeeperAnswer)
