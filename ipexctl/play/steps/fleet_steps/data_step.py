from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from ipexctl.base.located_errors import Bad
from ipexctl.play.steps.step_kinds import Acting, FleetStep, Result
from ipexctl.play.text.play_outcome import State
from ipexctl.play.text.step_schema import arg
from ipexctl.play.verb_calls import progress_of, results_of, target_of
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class Data(FleetStep):
    """Put a folder from this machine, or what a hub or an address has, on every host, for `data` of
    a run step, or remove it there.

    Files that a host already has are not sent. Data in use by a run is not removed.
    """

    keyword = "data"
    main = "push"
    example = "data: {push: ./squad, name: squad}"
    reads: ClassVar[tuple[str, ...]] = ("data",)
    writes: ClassVar[tuple[str, ...]] = ("data",)

    push: str = arg("Folder on this machine.", "")
    pull: str = arg("Repository on the hub, hf:ORG/NAME[@REVISION], or an address.", "")
    rm: str = arg("Name of the dataset to remove from the hosts.", "")
    name: str = arg("Name of the dataset. Default: that of the folder or source.", "")
    include: tuple[str, ...] = arg("With pull: fetch only these files.", ())
    leave_out: tuple[str, ...] = arg("With pull: skip these files.", ())
    unpack: bool = arg("With pull: unpack .tar, .tar.gz, .tar.bz2, .tar.xz and .zip files.", False)
    relay: bool = arg("Let hosts pass files on to other hosts.", True)

    def check(self) -> None:
        if bool(self.push) + bool(self.pull) + bool(self.rm) != 1:
            raise Bad("one of push, pull and rm is required", slug="arguments-conflict")
        if self.rm and self.name:
            raise Bad("name requires push or pull", slug="argument-missing")
        if (self.include or self.leave_out or self.unpack) and not self.pull:
            raise Bad("include, leave_out and unpack require pull", slug="argument-missing")

    def act(self, on: Acting) -> Mapping[str, Result]:
        from ipexctl.data.data import push_dataset, remove_dataset

        target, root = target_of(on), on.fleet.root
        if self.rm:
            agreed = None if on.check else lambda going: True
            removed = remove_dataset(target, self.rm, agreed, root, absent_ok=True)
            present = {host: bool(held) for host, held in removed.going.hosts} if on.check else {}
            results = {
                host: Result(State.WOULD_CHANGE if exists else State.OK)
                for host, exists in present.items()
            }
            return {**results, **results_of(on, removed.recaps)}
        if self.pull:
            return self._pull_dataset(on)
        pushed = push_dataset(
            target,
            Path(self.push).expanduser(),
            self.name or None,
            progress_of(on),
            root,
            relay=self.relay,
            check=on.check,
        )
        return results_of(on, pushed.recaps)

    def _pull_dataset(self, on: Acting) -> Mapping[str, Result]:
        """Let the hosts download the data; with --check compare what they have with its source."""
        from ipexctl.data.data import list_datasets
        from ipexctl.data.pull import Pull, pull_dataset

        target, root = target_of(on), on.fleet.root
        agreed = None if on.check else lambda plan: True
        request = Pull(
            self.pull, self.name, self.include, self.leave_out, self.relay, self.unpack, agreed
        )
        pulled = pull_dataset(target, request, progress_of(on), root)
        if not on.check:
            return results_of(on, pulled.recaps)
        plan, listing = pulled.plan, list_datasets(target, root)
        same = bool(plan.repository) or not plan.lacking  # a repository's source names its commit
        current = {
            host: same and any((d.name, d.source) == (plan.name, plan.source) for d in datasets)
            for host, datasets in listing.hosts
        }
        results = {h: Result(State.OK if f else State.WOULD_CHANGE) for h, f in current.items()}
        return {**results, **results_of(on, listing.recaps)}
