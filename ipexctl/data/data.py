"""data push, data ls, data rm: folders that stay on the hosts, for many runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TypeVar

from ipexctl.base.host_answer import Answer
from ipexctl.base.host_outcome import HostResult, HostState, PerHost
from ipexctl.base.located_errors import nearest_word
from ipexctl.base.sizes import format_bytes
from ipexctl.blobs.blob_relay import Carrier, Moved, Tell
from ipexctl.common.folder_answers import (
    DatasetMade,
    DatasetRemoved,
    DatasetSame,
    DatasetsHeld,
)
from ipexctl.data.dataset_transfer import Round, Transfer
from ipexctl.data.rules import dataset_rules as core
from ipexctl.data.rules.dataset_rules import Held
from ipexctl.errors import InputError
from ipexctl.facts.host_facts import peer_address
from ipexctl.inventory.inventory import Host
from ipexctl.local.file_hashes import Hashes
from ipexctl.local.project_lock import project_of
from ipexctl.machines.agent import LONG, Agent
from ipexctl.machines.fleet import Fleet
from ipexctl.machines.probe_host import probe_facts
from ipexctl.machines.target import ROOT, Target
from ipexctl.project.files.project_files import Ignore, Tree
from ipexctl.project.folder_transfer import TreeContents
from ipexctl.project.project_folder import ProjectReader, Walk
from ipexctl.project.send_project import why_refused
from ipexctl.quick_dataclass import dataclass
from ipexctl.terminal.progress import HostProgress, ProgressStep

LEAST = 8 << 20  # bytes; fewer are sent to every host
T = TypeVar("T")
WAY_OUT = "make it readable, or push a copy of the folder without it: a dataset is sent completely"

_MOST_NAMED = 8  # folders


@dataclass(frozen=True)
class Pushed(PerHost):
    name: str
    version: str
    files: int
    bytes: int
    sent: int
    passed: int  # from host to host
    recaps: tuple[HostResult, ...]


@dataclass(frozen=True)
class DatasetList(PerHost):
    """The datasets of each host, and the hosts that did not answer."""

    hosts: tuple[tuple[str, tuple[Held, ...]], ...]
    recaps: tuple[HostResult, ...]


@dataclass(frozen=True)
class RemovedDatasets(PerHost):
    """`going`: what is to be removed. `done` False: it was only shown. `declined`: the user
    answered no."""

    name: str
    recaps: tuple[HostResult, ...]
    done: bool = True
    going: DatasetList = DatasetList((), ())
    declined: bool = False


def push_dataset(
    target: Target,
    folder: Path,
    name: str | None,
    progress: HostProgress,
    root: str = ROOT,
    *,
    relay: bool = True,
    check: bool = False,
) -> Pushed:
    """Copy the folder to every host as the dataset `name` (None: the folder's name).

    `check`: only report which hosts would change.
    """
    if not os.path.isdir(folder):
        parent = folder.parent
        names = [path.name for path in parent.glob("[!.]*") if path.is_dir()]
        near = nearest_word(folder.name, names)
        raise InputError(
            f"{folder} is not a folder",
            why=f"folders there: {', '.join(sorted(names)[:_MOST_NAMED])}" if names else "",
            hint="# ipexctl data push DIR copies a folder to every host",
            slug="not-a-folder",
        ).with_meant(str(folder), str(parent / near) if near else "")
    folder = folder.resolve()
    if why := why_refused(folder):
        raise InputError(f"{folder} is not sent to other machines: {why}", slug="folder-refused")
    name = core.checked_name(folder.name if name is None else name)
    bundle = read_folder(folder, progress)
    tree = bundle.tree
    if check:
        with Fleet(target, root) as fleet:
            recaps = fleet.recaps(
                fleet.map_hosts(lambda host: _predict_push(fleet, host, name, tree))
            )
        return _push_result(name, tree, Moved(), recaps)
    source = f"{project_of(folder).by}:{folder}"
    header = {"name": name, "hub": core.hf_cache_kind(tree), "source": source}
    return push_bundle(Fleet(target, root), bundle, header, progress, relay=relay)


def read_folder(folder: Path, progress: HostProgress) -> TreeContents:
    """Read the files of a dataset. Raises InputError if there are none."""
    progress.step(ProgressStep("", f"reading {folder}"))
    walk = Walk(folder, everything=True).run(Ignore())
    reader = ProjectReader(folder, Hashes(folder), WAY_OUT)
    bundle = TreeContents(reader.tree(walk), reader)
    if not bundle.tree.files:
        raise InputError(f"there are no files in {folder}", slug="folder-empty")
    for note in walk.notes():
        progress.say(note)
    return bundle


def push_bundle(
    fleet: Fleet,
    bundle: TreeContents,
    header: Mapping[str, str],
    progress: HostProgress,
    *,
    relay: bool,
) -> Pushed:
    """Push a tree to hosts. `header`: {name, hub, source}, as the hosts read it."""
    with fleet:
        work = _Push(fleet, bundle, header, progress, relay)
        recaps = fleet.recaps(work.push_to_all())
    moved = sum((transfer.moved for transfer in work.transfers.values()), Moved())
    return _push_result(header["name"], bundle.tree, moved, recaps)


def _push_result(name: str, tree: Tree, moved: Moved, recaps: tuple[HostResult, ...]) -> Pushed:
    return Pushed(
        name,
        version=tree.key[:16],
        files=len(tree.files),
        bytes=tree.bytes,
        sent=moved.sent,
        passed=moved.passed,
        recaps=recaps,
    )


def _predict_push(fleet: Fleet, host: Host, name: str, tree: Tree) -> HostResult:
    fleet.connect(host)
    if fleet.call(host, "data.datasets.look", name=name, key=tree.key).read(DatasetSame).same:
        return HostResult(host.name, HostState.OK, "was already there")
    amount = f"{format_bytes(tree.bytes)} in {len(tree.files):,} files"
    return HostResult(host.name, HostState.CHANGED, f"would be sent the missing part of {amount}")


@dataclass
class _Push:
    """One push. Hosts go through the rounds together, so that a host can pass on the files of a
    round until all hosts have them."""

    fleet: Fleet
    bundle: TreeContents
    asked: Mapping[str, str]
    progress: HostProgress
    relay: bool
    transfers: dict[Host, Transfer] = field(default_factory=dict)

    def push_to_all(self) -> dict[Host, HostResult]:
        """Push to all hosts, round by round. Returns the outcome for each host."""
        self.transfers = transfers = self.fleet.map_hosts(self._begin_transfer)
        lacking = [host for host, transfer in transfers.items() if transfer.missing]
        busy = [host for host, transfer in transfers.items() if transfer.busy]
        rounds = self._run_on(lacking, lambda host: transfers[host].rounds())
        addresses = self._find_addresses(rounds)
        for number in range(max(map(len, rounds.values()), default=0)):
            current = {host: queue[number] for host, queue in rounds.items() if number < len(queue)}
            self._run_round(current, addresses)
        answers = {host: push.done for host, push in transfers.items() if push.done is not None}
        answers |= self._run_on(lacking, lambda host: transfers[host].finish())
        # another push, or a host that shares its home, is creating it meanwhile
        carrier = Carrier(self.bundle.read)
        answers |= self._run_on(busy, lambda h: transfers[h].bring_alone(carrier, self._tell(h)))
        return {host: _push_recap(host, answers[host], transfers[host].moved) for host in answers}

    def _begin_transfer(self, host: Host) -> Transfer:
        agent = self.fleet.connect(host)
        return Transfer(self.bundle, self.asked, agent, self.fleet.root_of(host)).begin()

    def _run_round(self, rounds: Mapping[Host, Round], addresses: Mapping[str, str]) -> None:
        names = (host.name for host in rounds if host not in self.fleet.downs) if addresses else ()
        reached_at = {name: addresses.get(name, "") for name in names}
        carrier = Carrier(self.bundle.read, reached_at, self.progress.say, least=LEAST)
        self._run_on(rounds, lambda h: self.transfers[h].bring(carrier, rounds[h], self._tell(h)))
        self._run_on(rounds, lambda h: self.transfers[h].take(rounds[h]))

    def _run_on(self, hosts: Iterable[Host], work: Callable[[Host], T]) -> dict[Host, T]:
        return self.fleet.map_hosts(work, [host for host in hosts if host not in self.fleet.downs])

    def _find_addresses(self, rounds: Mapping[Host, Sequence[Round]]) -> dict[str, str]:
        """Return the addresses at which other hosts reach those that get much."""
        heavy = [
            h for h, queue in rounds.items() if sum(b.size for r in queue for b in r.blobs) >= LEAST
        ]
        if not self.relay or len(heavy) < 2:
            return {}
        facts = self._run_on(
            heavy, lambda h: probe_facts(self.fleet.agents[h], self.fleet.root_of(h))
        )
        return {h.name: peer_address(host_facts) for h, host_facts in facts.items()}

    def _tell(self, host: Host) -> Tell:
        return lambda what, done, total: self.progress.step(
            ProgressStep(host.name, what, done, total)
        )


def _push_recap(host: Host, made: DatasetMade, moved: Moved) -> HostResult:
    dataset = core.read_held(host.name, made.dataset)
    detail = f"{_outcome_text(made, moved)}: {dataset.path}"
    old = core.read_held(host.name, made.replaced) if made.replaced else dataset
    other_source = old.source and old.source != dataset.source
    notes = (f"replaced {old}",) if other_source else ()
    state = HostState.OK if made.same else HostState.CHANGED
    return HostResult(host.name, state, detail, notes=notes)


def _outcome_text(made: DatasetMade, moved: Moved) -> str:
    if made.same:
        return "was already there"
    sent = f"{format_bytes(moved.sent)} sent"
    if moved.passed:
        sent = f"{format_bytes(moved.passed)} from another host" + f", {sent}" * bool(moved.sent)
    if n := made.repaired:
        subject = "1 file was" if n == 1 else f"{n} files were"
        return f"{subject} changed or missing there, {sent}"
    return sent


def list_datasets(target: Target, root: str = ROOT) -> DatasetList:
    with Fleet(target, root) as fleet:
        by_host = fleet.map_hosts(lambda host: _datasets_on_host(fleet, host))
        return DatasetList(tuple((h.name, held) for h, held in by_host.items()), fleet.recaps())


def remove_dataset(
    target: Target,
    name: str,
    agreed: Callable[[DatasetList], bool] | None,
    root: str = ROOT,
    *,
    absent_ok: bool = False,
) -> RemovedDatasets:
    """Remove a dataset from the hosts where no run uses it.

    `agreed` gets what would be removed; None removes nothing. `absent_ok`: it is not an error if no
    host has the dataset.
    """
    core.checked_name(name)
    with Fleet(target, root) as fleet:
        by_host = fleet.map_hosts(lambda host: _datasets_on_host(fleet, host))
        matching = tuple(
            (host.name, tuple(d for d in held if d.name == name)) for host, held in by_host.items()
        )
        if not (absent_ok or fleet.downs or any(held for _, held in matching)):
            raise InputError(
                f"no host has a dataset called {name!r}",
                hint="ipexctl data ls",
                slug="dataset-missing",
            )
        going = DatasetList(matching, fleet.recaps())
        if agreed is None or not agreed(going):
            return RemovedDatasets(name, going.recaps, False, going, agreed is not None)

        def remove(host: Host) -> HostResult:
            answer = fleet.call(host, "data.datasets.remove", total=LONG, name=name)
            return _removal_recap(host, answer.read(DatasetRemoved))

        recaps = fleet.map_hosts(remove)
        return RemovedDatasets(name, fleet.recaps(recaps), going=going)


def _datasets_on_host(fleet: Fleet, host: Host) -> tuple[Held, ...]:
    fleet.connect(host)
    return _read_rows(host, fleet.call(host, "data.datasets.list"))


def use_datasets(agent: Agent, root: str, names: Sequence[str]) -> tuple[Held, ...]:
    """Return the host's versions of these datasets; they cannot be removed while the agent runs."""
    answer = agent.call("data.datasets.use", {"root": root, "names": list(names)}).done
    return _read_rows(agent.host, answer)


def _read_rows(host: Host, answer: Answer) -> tuple[Held, ...]:
    return tuple(core.read_held(host.name, row) for row in answer.read(DatasetsHeld).data)


def _removal_recap(host: Host, done: DatasetRemoved) -> HostResult:
    if done.removed is not None:
        text = f"{format_bytes(done.removed)} removed"
        return HostResult(host.name, HostState.CHANGED, text)
    if done.used:
        return HostResult(
            host.name, HostState.FAILED, "stays: a run is using it", slug="dataset-in-use"
        )
    if done.pushed:
        return HostResult(
            host.name, HostState.FAILED, "stays: it is being pushed", slug="dataset-being-pushed"
        )
    return HostResult(host.name, HostState.OK, "was not there")
