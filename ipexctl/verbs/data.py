"""data push, data ls, data rm: folders that stay on the hosts, for many runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ipexctl.core.host_answer import Answer
from ipexctl.core.model import Host, HostRecap, LaunchPlan, PerHost, Recap
from ipexctl.core.run import dataset_rules as core
from ipexctl.core.run.dataset_rules import Held
from ipexctl.core.run.project_files import Ignore
from ipexctl.core.sizes import human
from ipexctl.errors import EXIT_FAILED, EXIT_OK, HostFailed, InputError, worst_exit
from ipexctl.hosts import folder_transfer
from ipexctl.hosts.agent import LONG, Agent
from ipexctl.hosts.fleet import Fleet, reading
from ipexctl.hosts.target import ROOT, Target
from ipexctl.local.environment import environment
from ipexctl.local.file_hashes import hashes_of
from ipexctl.local.project_folder import Reader, Walk
from ipexctl.verbs.install.install_plan import Progress, Step
from ipexctl.verbs.run.send_project import why_refused

WAY_OUT = "make it readable, or push a copy of the folder without it: all of a data set goes"


@dataclass(frozen=True)
class Pushed(PerHost):
    name: str
    version: str
    files: int
    bytes: int
    sent: int
    recaps: tuple[HostRecap, ...]


@dataclass(frozen=True)
class Listed(PerHost):
    """(host, what it has), and the hosts that could not be asked."""

    hosts: tuple[tuple[str, tuple[Held, ...]], ...]
    recaps: tuple[HostRecap, ...]


@dataclass(frozen=True)
class Removed(PerHost):
    """`going`: what the hosts have of it. `done` False: only shown. `declined`: by the user."""

    name: str
    recaps: tuple[HostRecap, ...]
    done: bool = True
    going: Listed = Listed((), ())
    declined: bool = False

    @property
    def exit_code(self) -> int:
        return worst_exit([super().exit_code, EXIT_FAILED if self.declined else EXIT_OK])


def push(
    target: Target, folder: Path, name: str | None, progress: Progress, root: str = ROOT
) -> Pushed:
    """Makes the folder a data set of that name (None: as the folder is called) on every host."""
    if not os.path.isdir(folder):
        raise InputError(f"{folder} is not a folder", hint="ipexctl data push DIR")
    folder = folder.resolve()
    if why := why_refused(folder):
        raise InputError(f"{folder} is not sent to other machines: {why}")
    name = core.checked_name(folder.name if name is None else name)
    progress.step(Step("", f"reading {folder}"))
    found = Walk(folder, everything=True).run(Ignore())
    reader = Reader(folder, hashes_of(folder, environment()), WAY_OUT)
    bundle = folder_transfer.Bundle(reader.tree(found), reader)
    tree = bundle.tree
    if not tree.files:
        raise InputError(f"there are no files in {folder}")
    for note in found.notes():
        progress.say(note)
    sent: dict[str, int] = {}
    with Fleet(target, root) as fleet:

        def one(host: Host) -> HostRecap:
            asked = {"root": fleet.root_of(host), "name": name, "hub": core.hub_kind(tree)}
            heard = _heard(host.name, tree.bytes, progress)
            agent = fleet.connect(host)
            brought = folder_transfer.send_folder(
                agent, bundle, asked, module="files.datasets", on_bytes=heard
            )
            held = _held(host, brought.done)
            sent[host.name] = brought.sent
            same = brought.done.get("same") is True
            what = _told(brought)
            return HostRecap(host.name, Recap.OK if same else Recap.CHANGED, f"{what}: {held.path}")

        recaps = fleet.recaps(fleet.each(one))
    return Pushed(name, tree.key[:16], len(tree.files), tree.bytes, sum(sent.values()), recaps)


def _told(brought: folder_transfer.Brought) -> str:
    if brought.done.get("same") is True:
        return "was there already"
    n = brought.done.get("mended")
    if isinstance(n, int) and n > 0:
        was = "1 file was" if n == 1 else f"{n} files were"
        return f"{was} changed or missing there, {human(brought.sent)} sent"
    return f"{human(brought.sent)} sent"


def _heard(host: str, total: int, progress: Progress) -> Callable[[int], None]:
    there = 0

    def hear(size: int) -> None:
        nonlocal there
        there += size
        progress.step(Step(host, "sending", there, total))

    return hear


def listed(target: Target, root: str = ROOT) -> Listed:
    with Fleet(target, root) as fleet:
        found = fleet.each(lambda host: _there(fleet, host))
        return Listed(tuple((h.name, held) for h, held in found.items()), fleet.recaps())


def remove(
    target: Target, name: str, agreed: Callable[[Listed], bool] | None, root: str = ROOT
) -> Removed:
    """`agreed` sees first what would go; None removes nothing. A data set that a run uses stays."""
    core.checked_name(name)
    with Fleet(target, root) as fleet:
        found = fleet.each(lambda host: _there(fleet, host))
        having = tuple(
            (host.name, tuple(d for d in held if d.name == name)) for host, held in found.items()
        )
        if not any(held for _, held in having) and not fleet.downs:
            raise InputError(f"no host has data called {name}", hint="ipexctl data ls")
        going = Listed(having, fleet.recaps())
        if agreed is None or not agreed(going):
            return Removed(name, going.recaps, False, going, agreed is not None)
        recaps = fleet.each(
            lambda host: _removed(
                host, fleet.call(host, "files.datasets.remove", total=LONG, name=name)
            )
        )
        return Removed(name, fleet.recaps(recaps), going=going)


def _there(fleet: Fleet, host: Host) -> tuple[Held, ...]:
    fleet.connect(host)
    return _all(host, fleet.call(host, "files.datasets.list"))


def use(agent: Agent, root: str, names: Sequence[str]) -> tuple[Held, ...]:
    """What the host has of them; it is not removed while the agent lives."""
    return _all(
        agent.host, agent.call("files.datasets.use", {"root": root, "names": list(names)}).done
    )


def planned(
    plan: LaunchPlan, held: Mapping[str, Sequence[Held]], names: Sequence[str], given: Iterable[str]
) -> LaunchPlan:
    """The plan with what the hosts have of `names`. Raises RunFailed where they do not agree."""
    core.check_versions(names, {host.host: held[host.host] for host in plan.hosts})
    return core.with_data(plan, held, given)


def _removed(host: Host, done: Answer) -> HostRecap:
    if done["removed"] is not None:
        size = done.whole("removed")
        return HostRecap(host.name, Recap.CHANGED, f"{human(size)} removed")
    if done.get("used"):
        return HostRecap(host.name, Recap.FAILED, "stays: a run is using it")
    if done.get("pushed"):
        return HostRecap(host.name, Recap.FAILED, "stays: it is being pushed")
    return HostRecap(host.name, Recap.OK, "was not there")


def _all(host: Host, done: Mapping[str, object]) -> tuple[Held, ...]:
    rows = done.get("data")
    if not isinstance(rows, list):
        raise HostFailed(f"{host.name}: its list of data is not readable")
    return tuple(_held(host, row) for row in rows)


def _held(host: Host, said: object) -> Held:
    with reading(host.name, "what it says of its data"):
        return core.read_held(said)
