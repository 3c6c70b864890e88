"""install --rollback: back to the environment that a project had before."""

from __future__ import annotations

from contextlib import nullcontext

from ipexctl.base.host_outcome import HostResult, HostState, PerHost
from ipexctl.common.removal_answers import EnvsKept
from ipexctl.facts.package_changes import describe_changes, read_changes
from ipexctl.install import fleet_locks
from ipexctl.inventory.inventory import Host
from ipexctl.local.project_lock import choice_here, choose_instead
from ipexctl.machines.agent import LONG
from ipexctl.machines.fleet import Fleet
from ipexctl.machines.target import ROOT, Target
from ipexctl.quick_dataclass import dataclass
from ipexctl.stack import env_list as core
from ipexctl.stack.env_list import HostEnvs


@dataclass(frozen=True)
class Back(PerHost):
    """`key`: the environment that hosts were switched back to, "" if none has a previous one."""

    key: str
    recaps: tuple[HostResult, ...]
    check: bool = False


def read_host_envs(fleet: Fleet, host: Host, *, sizes: bool) -> HostEnvs:
    fleet.connect(host)
    answer = fleet.call(host, "remove.root_upkeep.list", sizes=sizes)
    return HostEnvs(host.name, answer.read(EnvsKept))


def rollback(target: Target, root: str = ROOT, *, check: bool = False) -> Back:
    """Switch back to the environment that this project had before. Without a lock here `current`
    and `previous` are swapped on the hosts where that leads to the same environment."""
    choice = choice_here()
    with Fleet(target, root) as fleet:
        all_hosts = fleet.map_hosts(lambda host: read_host_envs(fleet, host, sizes=False))
        seen = list(all_hosts.values())
        previous = core.project_before(seen, choice.project.id, choice.key)
        key = previous if choice.key else core.way_back(seen)

        def say(host: str, text: str) -> None:
            target.note(f"{host}: {text}")

        def back(host: Host, on_host: HostEnvs) -> HostResult:
            recap = _back_recap(on_host, key, choice.key, check=check)
            if recap.state is HostState.CHANGED and not check:
                project = choice.project.document() if choice.key else None
                op = "install.environments.switch"
                fleet.call(host, op, total=LONG, key=key, project=project)
            return recap

        changes = key and not check
        with fleet_locks.hold_locks(fleet, choice.project, say) if changes else nullcontext():
            recaps = fleet.recaps(fleet.map_hosts(lambda host: back(host, all_hosts[host])))
    if not check:
        if any(recap.state is HostState.CHANGED for recap in recaps):
            choose_instead(choice, key, "install --rollback")
        fleet.remember_recaps(recaps)
    return Back(key, recaps, check)


def _back_recap(on_host: HostEnvs, key: str, own: str, *, check: bool) -> HostResult:
    """`own`: the environment that the project used so far, "" if it uses the current one."""
    env = on_host.find_env(key)
    used = own or on_host.current
    if env and key == used:
        return HostResult(on_host.host, HostState.OK, f"already uses {key}, {core.title_of(env)}")
    if why := core.not_back(on_host, key):
        still = f"still uses {used or 'nothing'}"
        return HostResult(on_host.host, HostState.FAILED, why, notes=(still,))
    verb = "would use" if check else "now uses"
    text = f"{verb} {key}, {core.title_of(env) if env else ''}; before: {used or 'nothing'}"
    notes: tuple[str, ...] = ()
    if env and env.changed:
        notes = (f"changed by hand: {describe_changes(read_changes(env.changed))}",)
    if own and key != on_host.current:
        notes += (_describe_move(on_host, own, check=check),)
    return HostResult(on_host.host, HostState.CHANGED, text, notes=notes)


def _describe_move(on_host: HostEnvs, own: str, *, check: bool) -> str:
    """Say that the switch is not for this project alone."""
    verb = "would become" if check else "is now"
    before = f"; before: {on_host.current or 'none'}" if on_host.current != own else ""
    what = "the host's current environment, too, which projects without a lock use"
    return f"it {verb} {what}{before}"
