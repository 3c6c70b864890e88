from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ipexctl.base.located_errors import Bad
from ipexctl.play.steps.step_kinds import Acting, FleetStep, Result
from ipexctl.play.text.step_schema import arg
from ipexctl.play.verb_calls import progress_of, results_of, target_of
from ipexctl.quick_dataclass import dataclass
from ipexctl.remove.prune_limits import describe


@dataclass(frozen=True)
class Prune(FleetStep):
    """Remove old runs, copies of projects and caches that exceed the configured limits.

    This machine's wheel cache is pruned, too. Anything in use by a run is kept.
    """

    keyword = "prune"
    main = "runs"
    example = "prune: {runs: 20}"
    reads: ClassVar[tuple[str, ...]] = ("runs",)
    writes: ClassVar[tuple[str, ...]] = ("runs",)

    runs: int | None = arg("Number of runs to keep, regardless of their age.", None)

    def check(self) -> None:
        if self.runs is not None and self.runs < 1:
            raise Bad("runs must be at least 1", slug="value-out-of-range")

    def act(self, on: Acting) -> Mapping[str, Result]:
        from ipexctl.remove.prune import prune

        target, root = target_of(on), on.fleet.root
        pruned = prune(
            target, lambda plan: True, progress_of(on), root, runs=self.runs, check=on.check
        )
        if pruned.here:
            on.say("", f"on this machine: {describe(pruned.here)}")
        return results_of(on, pruned.recaps)
