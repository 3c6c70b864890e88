from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from ipexctl.base.host_outcome import Recap
from ipexctl.base.located_errors import Bad
from ipexctl.base.sizes import human
from ipexctl.play.steps.step_kinds import Acting, FleetStep, Result
from ipexctl.play.text.play_outcome import State
from ipexctl.play.text.step_schema import arg
from ipexctl.play.verb_calls import changed, results_of, target_of
from ipexctl.quick_dataclass import dataclass

if TYPE_CHECKING:
    from ipexctl.env.env import Removal

_UNUSED = "unused"


@dataclass(frozen=True)
class Env(FleetStep):
    """Remove environments from the hosts, or run a command in the project's environment there.

    The current and the previous environment are never removed. The command is not interpreted by
    a shell; it runs every time, so --check reports "unknown".
    """

    keyword = "env"
    example = "env: {exec: [python3, -c, 'import torch; print(torch.__version__)']}"
    reads: ClassVar[tuple[str, ...]] = ("environment",)

    rm: tuple[str, ...] = arg(
        "unused: every environment that no project needs; or keys, as shown by `ipexctl env ls`.",
        (),
    )
    exec: tuple[str, ...] = arg("Command and its arguments.", ())
    changes: bool = arg("Whether the command changes something; if not, it counts as ok.", True)

    def check(self) -> None:
        if bool(self.rm) == bool(self.exec):
            raise Bad("either rm or exec is required", slug="arguments-conflict")
        if _UNUSED in self.rm and len(self.rm) > 1:
            raise Bad("unused cannot be combined with other arguments", slug="arguments-conflict")

    def act(self, on: Acting) -> Mapping[str, Result]:
        return self._run(on) if self.exec else self._remove(on)

    def _remove(self, on: Acting) -> Mapping[str, Result]:
        from ipexctl.env.env import remove

        keys = () if self.rm == (_UNUSED,) else self.rm
        agreed = None if on.check else lambda going: True
        done = remove(target_of(on), keys, agreed, on.fleet.root, absent_ok=True)
        found = {removal.host: _removed(on, removal) for removal in done.removals}
        return {**found, **results_of(on, done.recaps)}

    def _run(self, on: Acting) -> Mapping[str, Result]:
        from ipexctl.env.env_exec import run_in_env

        if on.check:
            return dict.fromkeys(on.hosts, Result(State.UNKNOWN))
        ran = run_in_env(
            target_of(on), self.exec, lambda host, line, err: on.say(host, line), on.fleet.root
        )
        results = results_of(on, ran.recaps)
        if not self.changes:
            return results
        codes = {r.host for r in ran.recaps if r.state is Recap.OK}
        return {h: Result(State.CHANGED) if h in codes else r for h, r in results.items()}


def _removed(on: Acting, removal: Removal) -> Result:
    if not removal.removed and not removal.blobs:
        return Result(State.OK, "nothing to remove")
    keys = ", ".join(key for key, _ in removal.removed) or "wheels that no environment needs"
    return Result(changed(on), f"{keys} ({human(removal.bytes)})")
