"""Steps that change which environments and files of ipexctl are on the hosts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from ipexctl.base.host_outcome import HostState
from ipexctl.base.located_errors import Bad
from ipexctl.base.sizes import format_bytes
from ipexctl.install.install_options import InstallOptions
from ipexctl.play.steps.step_kinds import Acting, FleetStep, Result
from ipexctl.play.text.check_prediction import PACKAGES
from ipexctl.play.text.play_outcome import State
from ipexctl.play.text.step_schema import arg
from ipexctl.play.verb_calls import changed_state, progress_of, results_of, target_of
from ipexctl.quick_dataclass import dataclass
from ipexctl.remove.prune_limits import describe_amounts

if TYPE_CHECKING:
    from ipexctl.env.env import Removal
    from ipexctl.install.install_plan import Plan


@dataclass(frozen=True)
class Install(InstallOptions, FleetStep):
    """Install PyTorch and MPI on the hosts, as `ipexctl install` does.

    The versions in the project's ipexctl.lock are kept; if there is none, one is written.
    """

    # its arguments are the options of `ipexctl install` that are declared with in_plays

    keyword = "install"
    example = 'install: {torch: "2.13", requirements: requirements.txt}'
    reads: ClassVar[tuple[str, ...]] = (PACKAGES,)
    writes: ClassVar[tuple[str, ...]] = ("environment",)

    @property
    def local_files(self) -> Mapping[str, str]:
        files = [("bundle", self.bundle), *(("requirements", path) for path in self.requirements)]
        return {name: path for name, path in files if path}

    def act(self, on: Acting) -> Mapping[str, Result]:
        from ipexctl.install.install import install
        from ipexctl.local.project_lock import choice_here, lock_folder

        def chosen(plan: Plan) -> None:
            on.say("", f"{plan.found.stack.title}, environment {plan.lock.key}")

        options = replace(
            self, root=on.fleet.root, folder=lock_folder(), dry_run=on.check, used=choice_here().key
        )
        report = install(target_of(on), options, progress_of(on, chosen))
        return results_of(on, report.recaps)


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
        return self._run_command(on) if self.exec else self._remove_envs(on)

    def _remove_envs(self, on: Acting) -> Mapping[str, Result]:
        from ipexctl.env.env import remove_environments

        keys = () if self.rm == (_UNUSED,) else self.rm
        agreed = None if on.check else lambda going: True
        outcome = remove_environments(target_of(on), keys, agreed, on.fleet.root, absent_ok=True)
        results = {removal.host: _removal_result(on, removal) for removal in outcome.removals}
        return {**results, **results_of(on, outcome.recaps)}

    def _run_command(self, on: Acting) -> Mapping[str, Result]:
        from ipexctl.env.env_exec import run_in_env

        if on.check:
            return dict.fromkeys(on.hosts, Result(State.UNKNOWN))
        ran = run_in_env(
            target_of(on), self.exec, lambda host, line, err: on.say(host, line), on.fleet.root
        )
        results = results_of(on, ran.recaps)
        if not self.changes:
            return results
        ok_hosts = {recap.host for recap in ran.recaps if recap.state is HostState.OK}
        return {h: Result(State.CHANGED) if h in ok_hosts else r for h, r in results.items()}


def _removal_result(on: Acting, removal: Removal) -> Result:
    if not removal.removed and not removal.blobs:
        return Result(State.OK, "nothing to remove")
    keys = ", ".join(key for key, _ in removal.removed) or "wheels that no environment needs"
    return Result(changed_state(on), f"{keys} ({format_bytes(removal.bytes)})")


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
            on.say("", f"on this machine: {describe_amounts(pruned.here)}")
        return results_of(on, pruned.recaps)
