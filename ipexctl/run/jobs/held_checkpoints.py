"""The checkpoints of a run that hosts hold."""

from __future__ import annotations

from ipexctl.inventory.inventory import Host
from ipexctl.machines.fleet import Fleet
from ipexctl.run.outcome import listed_checkpoints
from ipexctl.run.outcome.listed_checkpoints import HeldCopies, ListedCheckpoint
from ipexctl.run.outcome.listed_runs import ListedRun


def gather_checkpoints(fleet: Fleet, run: ListedRun) -> tuple[ListedCheckpoint, ...]:
    """Return the checkpoints that hosts report, including hosts that did not take part."""

    def one(host: Host) -> list[HeldCopies]:
        answer = fleet.call(host, "checkpoints.copy_requests.list", run_id=run.id)
        return listed_checkpoints.read_on_host(host.name, answer)

    reports = [report for reports in fleet.map_hosts(one).values() for report in reports]
    return listed_checkpoints.merge_checkpoints(reports, alive=bool(run.alive))
