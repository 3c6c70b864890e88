"""The command that starts a failed run again: without its lost hosts, from its last checkpoint."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ipexctl.base import quoting
from ipexctl.base.retry_command import compose_retry_command
from ipexctl.errors import IpexctlError
from ipexctl.local.typed_runs import find_typed_run
from ipexctl.machines.fleet import Fleet
from ipexctl.run.jobs.held_checkpoints import gather_checkpoints
from ipexctl.run.jobs.ps import gather_runs
from ipexctl.run.outcome.listed_runs import ListedRun
from ipexctl.run.outcome.run_state import Phase, find_unbegun


def compose_again_line(fleet: Fleet, run: ListedRun) -> str:
    """Return the command as it was typed here, without hosts that do not answer or could not begin
    the last attempt, and with --resume if a checkpoint is complete; "" if it was not typed here, or
    the run has not failed."""
    started = find_typed_run(run.first_id)
    if started is None or run.phase not in (Phase.FAILED, Phase.LOST):
        return ""
    unusable = {down.host for down in fleet.failures}
    if unbegun := find_unbegun(run.further):
        unusable |= set(unbegun[-1].lost)
    hosts = [host for host in run.about.hosts if host not in started.spares]
    remaining = [host for host in hosts if host not in unusable]
    if not remaining:
        return ""
    lost = [host for host in (*hosts, *started.spares) if host in unusable]
    spares = [host for host in started.spares if host not in unusable]
    ranks = run.about.ranks // max(1, len(run.about.hosts)) * len(remaining)
    fewer = ranks if len(remaining) < len(hosts) else None
    command = compose_retry_command(
        started.typed,
        lost,
        None,
        fewer=fewer,
        hosts=len(remaining),
        spares=None if len(spares) == len(started.spares) else spares,
        resume=run.first_id if _has_checkpoint(fleet, run) else "",
    )
    with suppress(OSError):
        if Path.cwd() == started.folder:
            return command
    return f"{quoting.quote(('cd', str(started.folder)))} && {command}" if command else ""


def compose_again_line_of(fleet: Fleet, run_id: str) -> str:
    """Return the same, of the run with the id of a first attempt."""
    with suppress(IpexctlError):
        for run in gather_runs(fleet, only=run_id)[:1]:
            return compose_again_line(fleet, run)
    return ""


def _has_checkpoint(fleet: Fleet, run: ListedRun) -> bool:
    with suppress(IpexctlError):
        return any(checkpoint.is_complete for checkpoint in gather_checkpoints(fleet, run))
    return False
