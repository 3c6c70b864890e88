"""remove --all: remove everything ipexctl put on the hosts, and with --here on the controller."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

from ipexctl.base.host_outcome import HostResult, HostState, PerHost
from ipexctl.base.sizes import count, format_bytes
from ipexctl.common.removal_answers import RootRemoved, RootSurvey, WorkOfOwner
from ipexctl.inventory.inventory import Host
from ipexctl.lab.cluster import folders
from ipexctl.lab.cluster.practice_cluster import is_up
from ipexctl.local import own_files
from ipexctl.local.project_lock import this_person
from ipexctl.machines.agent import LONG
from ipexctl.machines.fleet import Fleet
from ipexctl.machines.target import ROOT, Target
from ipexctl.quick_dataclass import dataclass
from ipexctl.terminal.progress import DONE, HostProgress, ProgressStep

MOST_PROJECTS = 4  # of one person that are named
BUSY = "end it, or wait for it"


@dataclass(frozen=True)
class RemovedHost:
    """What `remove --all` finds on a host."""

    host: str
    survey: RootSurvey

    @property
    def is_removed(self) -> bool:
        return self.survey.there and self.survey.made and not self.survey.busy

    @property
    def others(self) -> tuple[WorkOfOwner, ...]:
        """The other people whose work goes with one's own."""
        me = this_person()
        return tuple(owner for owner in self.survey.owners if owner.by != me)

    @property
    def advice(self) -> str:
        """What to do about what is in use: to end the run of another person is not up to one."""
        others = [by for by in self.survey.busy_by if by != this_person()]
        own = "end your own, and wait" if len(others) < len(self.survey.busy_by) else "wait"
        what = f"{own} for the runs of {', '.join(others)}, or ask them" if others else BUSY
        return f"{what}; then run the same command again"


@dataclass(frozen=True)
class RemovalPlan:
    hosts: tuple[RemovedHost, ...]
    here: tuple[own_files.OwnFiles, ...]
    recaps: tuple[HostResult, ...]  # of hosts that could not be asked


@dataclass(frozen=True)
class Agreed:
    """The answer to the plan: whether to do it, and which local kinds to remove."""

    go: bool
    kinds: Collection[str] = ()


@dataclass(frozen=True)
class RemoveReport(PerHost):
    found: RemovalPlan
    recaps: tuple[HostResult, ...]
    here: tuple[own_files.OwnFiles, ...] = ()  # those that were removed
    done: bool = True
    check: bool = False

    @property
    def declined(self) -> bool:
        return not self.done and not self.check


def remove_all(
    target: Target,
    agreed: Callable[[RemovalPlan], Agreed],
    progress: HostProgress,
    root: str = ROOT,
    *,
    here: bool = False,
    check: bool = False,
) -> RemoveReport:
    """Remove everything; `agreed` sees the plan first. Hosts where something is in use keep all."""
    with Fleet(target, root) as fleet:
        hosts = fleet.map_hosts(progress.track(lambda host: _measure_root(fleet, host, progress)))
        local_files = own_files.kept_here(dead_labs) if here else ()
        plan = RemovalPlan(tuple(hosts.values()), local_files, fleet.recaps())
        if check:
            recaps = {host: _predicted_recap(entry) for host, entry in hosts.items()}
            return RemoveReport(plan, fleet.recaps(recaps), done=False, check=True)
        if not (any(entry.is_removed for entry in hosts.values()) or local_files):
            recaps = {host: _predicted_recap(entry) for host, entry in hosts.items()}
            return RemoveReport(plan, fleet.recaps(recaps))
        answer = agreed(plan)
        if not answer.go:
            return RemoveReport(plan, (), done=False)
        recaps = fleet.map_hosts(
            progress.track(lambda host: _remove_root(fleet, host, hosts, progress))
        )
    gone = tuple(entry for entry in local_files if entry.is_removed or entry.kind in answer.kinds)
    own_files.remove_own_files(gone)  # last, as it includes notes written when the connections end
    return RemoveReport(plan, fleet.recaps(recaps), gone)


def dead_labs() -> list[Path]:
    top = folders.state_root()
    return [top / name for name in folders.labs_in(top) if not is_up(top / name)]


def work_text(owner: WorkOfOwner) -> str:
    """Such as "ann@desk: 12 runs, 2 environments (bert, gpt)"."""
    counts = ((owner.runs, "run"), (owner.environments, "environment"))
    named = owner.projects[:MOST_PROJECTS]
    more = f" and {len(owner.projects) - len(named)} more" * (owner.projects != named)
    projects = f" ({', '.join(named)}{more})" * bool(named)
    return f"{owner.by}: {', '.join(count(n, noun) for n, noun in counts if n)}{projects}"


def _measure_root(fleet: Fleet, host: Host, progress: HostProgress) -> RemovedHost:
    progress.step(ProgressStep(host.name, "connecting"))
    fleet.connect(host)
    progress.step(ProgressStep(host.name, "measuring"))
    survey = fleet.call(host, "remove.root_removal.survey", total=LONG).read(RootSurvey)
    progress.step(ProgressStep(host.name, DONE))
    return RemovedHost(host.name, survey)


def _remove_root(
    fleet: Fleet, host: Host, hosts: Mapping[Host, RemovedHost], progress: HostProgress
) -> HostResult:
    state = hosts[host]
    if not state.is_removed:
        return _predicted_recap(state)
    progress.step(ProgressStep(host.name, f"removing {format_bytes(state.survey.bytes)}"))
    done = fleet.call(host, "remove.root_removal.remove", total=LONG).read(RootRemoved)
    progress.step(ProgressStep(host.name, DONE))
    if done.busy:
        now = state.survey.replace(busy=done.busy, busy_by=done.busy_by)
        return _predicted_recap(replace(state, survey=now))
    if done.left:
        message = f"{state.survey.root} could not be removed completely"
        return HostResult(host.name, HostState.FAILED, message, notes=tuple(done.left))
    recap = _removal_recap(state, f"{format_bytes(done.bytes)} removed")
    theirs = tuple(f"removed, too, of {work_text(owner)}" for owner in state.others)
    return replace(recap, notes=(*theirs, *recap.notes))


def _predicted_recap(state: RemovedHost) -> HostResult:
    found = state.survey
    if not found.there:
        return HostResult(state.host, HostState.OK, f"nothing to remove: there is no {found.root}")
    if not found.made:
        message = f"nothing to remove: nothing in {found.root} was made by ipexctl"
        return HostResult(state.host, HostState.OK, message)
    if found.busy:
        notes = (*found.busy, f"try: {state.advice}")
        return HostResult(state.host, HostState.FAILED, "nothing removed", notes=notes)
    return _removal_recap(state, f"{format_bytes(found.bytes)} would be removed")


def _removal_recap(state: RemovedHost, text: str) -> HostResult:
    found = state.survey
    stays = f"; not made by ipexctl, so kept in {found.root}: {', '.join(found.stays)}"
    caches = tuple(
        f"kept: {path} ({format_bytes(size)}), torch.compile's cache, shared with programs "
        "that ipexctl did not start"
        for path, size in found.caches
    )
    return HostResult(state.host, HostState.CHANGED, text + stays * bool(found.stays), notes=caches)
