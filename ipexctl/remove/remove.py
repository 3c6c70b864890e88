"""remove --all: remove everything ipexctl put on the hosts, and with --here on the controller."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

from ipexctl.base.host_outcome import HostRecap, PerHost, Recap
from ipexctl.base.sizes import human
from ipexctl.inventory.inventory import Host
from ipexctl.lab.cluster import folders
from ipexctl.lab.cluster.practice_cluster import is_up
from ipexctl.local import own_files
from ipexctl.machines.agent import LONG
from ipexctl.machines.fleet import Fleet
from ipexctl.machines.target import ROOT, Target
from ipexctl.quick_dataclass import dataclass
from ipexctl.terminal.progress import DONE, Progress, Step

BUSY = "end it, or wait for it; then run the same command again"


@dataclass(frozen=True)
class OnHost:
    """What `remove --all` finds on a host. `busy`: why everything on it is kept."""

    host: str
    root: str
    there: bool
    made: bool
    bytes: int = 0
    parts: tuple[tuple[str, int], ...] = ()
    busy: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()  # names that ipexctl did not make
    caches: tuple[tuple[str, int], ...] = ()  # of torch.compile, which stay as well

    @property
    def goes(self) -> bool:
        return self.there and self.made and not self.busy


@dataclass(frozen=True)
class Found:
    hosts: tuple[OnHost, ...]
    here: tuple[own_files.Kept, ...]
    recaps: tuple[HostRecap, ...]  # of hosts that could not be asked


@dataclass(frozen=True)
class Agreed:
    """The answer to the plan: whether to do it, and which local kinds to remove."""

    go: bool
    kinds: Collection[str] = ()


@dataclass(frozen=True)
class Removed(PerHost):
    found: Found
    recaps: tuple[HostRecap, ...]
    here: tuple[own_files.Kept, ...] = ()  # those that were removed
    done: bool = True
    check: bool = False

    @property
    def declined(self) -> bool:
        return not self.done and not self.check


def remove_all(
    target: Target,
    agreed: Callable[[Found], Agreed],
    progress: Progress,
    root: str = ROOT,
    *,
    here: bool = False,
    check: bool = False,
) -> Removed:
    """Remove everything; `agreed` sees the plan first. Hosts where something is in use keep all."""
    with Fleet(target, root) as fleet:
        hosts = fleet.each(progress.shown(lambda host: _survey(fleet, host, progress)))
        kept = own_files.kept_here(dead_labs) if here else ()
        found = Found(tuple(hosts.values()), kept, fleet.recaps())
        if check:
            recaps = {host: _foreseen(one) for host, one in hosts.items()}
            return Removed(found, fleet.recaps(recaps), done=False, check=True)
        if not (any(one.goes for one in hosts.values()) or kept):
            recaps = {host: _foreseen(one) for host, one in hosts.items()}
            return Removed(found, fleet.recaps(recaps))
        said = agreed(found)
        if not said.go:
            return Removed(found, (), done=False)
        recaps = fleet.each(progress.shown(lambda host: _remove(fleet, host, hosts, progress)))
    gone = tuple(one for one in kept if one.goes or one.kind in said.kinds)
    own_files.remove(gone)  # last, as it includes notes written when the connections end
    return Removed(found, fleet.recaps(recaps), gone)


def dead_labs() -> list[Path]:
    top = folders.state_root()
    return [top / name for name in folders.labs_in(top) if not is_up(top / name)]


def _survey(fleet: Fleet, host: Host, progress: Progress) -> OnHost:
    progress.step(Step(host.name, "connecting"))
    fleet.connect(host)
    progress.step(Step(host.name, "measuring"))
    done = fleet.call(host, "remove.root_removal.survey", total=LONG)
    progress.step(Step(host.name, DONE))
    return done.read(OnHost, host=host.name)


def _remove(
    fleet: Fleet, host: Host, hosts: Mapping[Host, OnHost], progress: Progress
) -> HostRecap:
    one = hosts[host]
    if not one.goes:
        return _foreseen(one)
    progress.step(Step(host.name, f"removing {human(one.bytes)}"))
    done = fleet.call(host, "remove.root_removal.remove", total=LONG)
    progress.step(Step(host.name, DONE))
    if busy := done.value("busy", tuple[str, ...]):
        return _foreseen(replace(one, busy=busy))
    if left := done.value("left", tuple[str, ...]):
        what = f"{one.root} could not be removed completely"
        return HostRecap(host.name, Recap.FAILED, what, notes=left)
    return _recap(one, f"{human(done.whole('removed'))} removed")


def _foreseen(one: OnHost) -> HostRecap:
    if not one.there:
        return HostRecap(one.host, Recap.OK, f"nothing to remove: there is no {one.root}")
    if not one.made:
        what = f"nothing to remove: nothing in {one.root} was made by ipexctl"
        return HostRecap(one.host, Recap.OK, what)
    if one.busy:
        notes = (*one.busy, f"try: {BUSY}")
        return HostRecap(one.host, Recap.FAILED, "nothing removed", notes=notes)
    return _recap(one, f"{human(one.bytes)} would be removed")


def _recap(one: OnHost, what: str) -> HostRecap:
    stays = f"; not made by ipexctl, so kept in {one.root}: {', '.join(one.stays)}"
    caches = tuple(
        f"kept: {path} ({human(size)}), torch.compile's cache, shared with programs "
        "that ipexctl did not start"
        for path, size in one.caches
    )
    return HostRecap(one.host, Recap.CHANGED, what + stays * bool(one.stays), notes=caches)
