"""env ls, env diff, env rm: the environments of hosts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ipexctl.base.host_outcome import HostResult, PerHost
from ipexctl.common.install_answers import EnvDrift
from ipexctl.common.removal_answers import EnvsRemoved
from ipexctl.errors import EXIT_FAILED, EXIT_OK, InputError, worst_exit
from ipexctl.facts.env_choice import EnvChoice
from ipexctl.install.rollback import read_host_envs
from ipexctl.inventory.hostfile_text import fold
from ipexctl.inventory.inventory import Host
from ipexctl.local.project_lock import choice_here
from ipexctl.machines.agent import LONG
from ipexctl.machines.fleet import Fleet
from ipexctl.machines.suggested_commands import suggest_command
from ipexctl.machines.target import ROOT, Target
from ipexctl.quick_dataclass import dataclass
from ipexctl.stack import env_list as core
from ipexctl.stack.env_list import Drift, HostEnvs, still_named_envs, title_of, use_of


@dataclass(frozen=True)
class EnvListing(PerHost):
    """The environments of each host; `recaps` has the hosts that could not be asked. `remove`: the
    command that removes unused ones, "" if there are none."""

    all_hosts: tuple[HostEnvs, ...]
    recaps: tuple[HostResult, ...]
    choice: EnvChoice
    remove: str = ""


@dataclass(frozen=True)
class Compared(PerHost):
    """Each host's environment compared with its build. `mend`: the repair command, "" for none."""

    drifts: tuple[Drift, ...]
    recaps: tuple[HostResult, ...]
    mend: str

    @property
    def exit_code(self) -> int:
        return worst_exit([super().exit_code, EXIT_FAILED if self.mend else EXIT_OK])


@dataclass(frozen=True)
class Removal:
    """What is (or was) removed from one host: (key, bytes), what stays and why, and idle blobs.

    `titles`: of its environments, by key; `current`: the one in use.
    """

    host: str
    removed: tuple[tuple[str, int], ...]
    kept: tuple[tuple[str, str], ...]
    blobs: int
    blob_bytes: int
    root: str = ""
    current: str = ""
    titles: tuple[tuple[str, str], ...] = ()

    @property
    def bytes(self) -> int:
        return sum(size for _, size in self.removed) + self.blob_bytes


@dataclass(frozen=True)
class RemovedEnvs(PerHost):
    """`done` False: only shown. `declined`: the user answered no."""

    removals: tuple[Removal, ...]
    recaps: tuple[HostResult, ...]
    done: bool
    declined: bool = False


def list_envs(target: Target, root: str = ROOT) -> EnvListing:
    choice = choice_here()
    with Fleet(target, root) as fleet:
        all_hosts = tuple(
            fleet.map_hosts(lambda host: read_host_envs(fleet, host, sizes=True)).values()
        )
        uses = {use_of(on_host, env.key, choice) for on_host in all_hosts for env in on_host.envs}
        remove = suggest_command(target, "env rm", root) + " --unused" if "unused" in uses else ""
        return EnvListing(all_hosts, fleet.recaps(), choice, remove)


def compare_environments(target: Target, root: str = ROOT, *, full: bool = False) -> Compared:
    """Compare the project's environments, else the current ones, with their builds and each other.
    `full`: read every file."""
    key = choice_here().key
    with Fleet(target, root) as fleet:

        def one(host: Host) -> Drift:
            fleet.connect(host)
            request = {"full": full, "environment": key}
            answer = fleet.call(host, "install.env_drift.compare", total=LONG, **request)
            return Drift(host.name, answer.read(EnvDrift))

        drifts = tuple(fleet.map_hosts(one).values())
        return Compared(drifts, fleet.recaps(), _repair_command(target, root, drifts))


def _repair_command(target: Target, root: str, drifts: Sequence[Drift]) -> str:
    """Return the command that makes them intact and equal, "" if they are. `install` does not
    detect changes in files alone, and a rebuild is for those hosts only."""
    by_hand = [drift.host for drift in drifts if drift.by_hand]
    same = len({drift.current for drift in drifts}) == 1
    if not drifts or (same and drifts[0].current and not by_hand):
        return ""
    if same and by_hand and len(drifts) > len(by_hand):
        target = replace(target, limit=(fold(by_hand),))
    rebuild = any(drift.found.files and not drift.found.changed for drift in drifts)
    return suggest_command(target, "install", root) + " --rebuild" * rebuild


def remove_environments(
    target: Target,
    keys: Sequence[str],
    agreed: Callable[[Sequence[Removal]], bool] | None,
    root: str = ROOT,
    *,
    absent_ok: bool = False,
) -> RemovedEnvs:
    """Remove environments; without keys, all that are neither current nor previous, and that no
    other project asked for. `agreed` gets what would be removed; None removes nothing. `absent_ok`:
    a key that no host has is not an error."""
    choice = choice_here()
    for key in keys:
        if not core.is_key(key):
            raise InputError(
                f"{key!r} is not a valid environment name",
                hint="ipexctl env ls",
                slug="env-key-invalid",
            )
    with Fleet(target, root) as fleet:
        all_hosts = fleet.map_hosts(lambda host: read_host_envs(fleet, host, sizes=False))
        existing = {e.key for on_host in all_hosts.values() for e in on_host.envs}
        unknown = [key for key in keys if key not in existing]
        if all_hosts and unknown and not absent_ok:
            message = f"no host has the environment {unknown[0]}"
            raise InputError(message, hint="ipexctl env ls", slug="env-unknown")

        def one(host: Host, *, check: bool) -> Removal:
            return _remove_on_host(fleet, host, all_hosts[host], keys, choice, check=check)

        removals = tuple(fleet.map_hosts(lambda host: one(host, check=True)).values())
        if agreed is None or not any(removal.removed or removal.blobs for removal in removals):
            return RemovedEnvs(removals, fleet.recaps(), done=False)
        done = agreed(removals)
        if done:
            removals = tuple(fleet.map_hosts(lambda host: one(host, check=False)).values())
        return RemovedEnvs(removals, fleet.recaps(), done, declined=not done)


def _remove_on_host(
    fleet: Fleet,
    host: Host,
    on_host: HostEnvs,
    keys: Sequence[str],
    choice: EnvChoice,
    *,
    check: bool,
) -> Removal:
    if not on_host.envs and not on_host.found.blobs:
        return Removal(host.name, (), (), 0, 0)  # there may be no root: make none
    named = still_named_envs(on_host, choice)
    stays = {} if keys else named
    going = [key for key in keys or on_host.unused if on_host.find_env(key) and key not in stays]
    answer = fleet.call(host, "remove.root_upkeep.remove", total=LONG, keys=going, check=check)
    done = answer.read(EnvsRemoved)
    titles = tuple(
        (env.key, "; ".join(filter(None, (title_of(env), named.get(env.key)))))
        for env in on_host.envs
    )
    return Removal(
        host.name,
        tuple(done.removed),
        (*done.kept, *stays.items()),
        done.blobs,
        done.blob_bytes,
        root=on_host.found.root,
        current=on_host.current,
        titles=titles,
    )
