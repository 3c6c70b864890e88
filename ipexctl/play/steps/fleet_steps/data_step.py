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
    """Put a folder from this machine on every host, for `data` of a run step, or remove it there.

    Files that a host already has are not sent. Data in use by a run is not removed.
    """

    keyword = "data"
    main = "push"
    example = "data: {push: ./squad, name: squad}"
    reads: ClassVar[tuple[str, ...]] = ("data",)
    writes: ClassVar[tuple[str, ...]] = ("data",)

    push: str = arg("Folder on this machine.", "")
    rm: str = arg("Name of the dataset to remove from the hosts.", "")
    name: str = arg("Name of the pushed dataset. Default: the name of the folder.", "")
    relay: bool = arg("Let hosts pass files on to other hosts.", True)

    def check(self) -> None:
        if bool(self.push) == bool(self.rm):
            raise Bad("either push or rm is required", slug="arguments-conflict")
        if self.rm and self.name:
            raise Bad("name requires push", slug="argument-missing")

    def act(self, on: Acting) -> Mapping[str, Result]:
        from ipexctl.data.data import push, remove

        target, root = target_of(on), on.fleet.root
        if self.rm:
            agreed = None if on.check else lambda going: True
            removed = remove(target, self.rm, agreed, root, absent_ok=True)
            there = {host: bool(held) for host, held in removed.going.hosts} if on.check else {}
            looked = {
                host: Result(State.WOULD_CHANGE if found else State.OK)
                for host, found in there.items()
            }
            return {**looked, **results_of(on, removed.recaps)}
        pushed = push(
            target, Path(self.push).expanduser(), self.name or None, progress_of(on), root,
            relay=self.relay, check=on.check,
        )  # fmt: skip
        return results_of(on, pushed.recaps)
