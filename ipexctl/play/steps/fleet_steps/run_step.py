from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ipexctl.base.located_errors import Bad
from ipexctl.play.steps.step_kinds import Acting, FleetStep, Result
from ipexctl.play.text.check_prediction import ANY
from ipexctl.play.text.play_values import State
from ipexctl.play.text.step_schema import Seconds, arg
from ipexctl.play.verb_calls import target_of
from ipexctl.quick_dataclass import dataclass

if TYPE_CHECKING:
    from ipexctl.run.watch.run_options import RunOptions


@dataclass(frozen=True)
class Run(FleetStep):
    """Run a PyTorch script on the hosts with mpirun, with live output from every rank.

    The script's project is copied first. It runs every time, so --check answers "cannot
    know" if the run plan is valid.
    """

    keyword = "run"
    main = "script"
    example = 'run: {n: 16, ppn: 4, script: train.py, args: ["--lr", "0.1"], outputs: out}'
    reads: ClassVar[tuple[str, ...]] = (ANY,)

    script: str = arg("Python script on this machine; with module, a module.")
    args: tuple[str, ...] = arg("Arguments of the script.", ())
    module: bool = arg("Run script as a module, like python -m.", False)
    n: int | None = arg("Total number of ranks.", None)
    ppn: int | None = arg("Ranks per host.", None)
    env: dict[str, str] = arg("Variables for every rank.", {})
    secret_env: dict[str, str] = arg(
        "Local variables to forward as secrets: never in a plan, log or `ps`.", {}
    )
    accelerate: str = arg("Accelerate config; the other arguments override it.", "")
    data: tuple[str, ...] = arg("Datasets on the hosts, as pushed by a data step.", ())
    outputs: tuple[str, ...] = arg(
        "Folders to fetch from the ranks' working directory; an empty string: none.", ()
    )
    fetch: tuple[str, ...] = arg("Glob patterns of files to fetch.", ())
    merge: bool = arg("Merge the files from all hosts into one folder.", False)
    name: str = arg("Name of the run, for ps, logs, stop, wait and rm.", "")
    detach: bool = arg("Continue the play when all ranks have started.", False)
    timeout: Seconds | None = arg("Maximum run time.", None)
    stall: Seconds | None = arg("Warn about ranks that print nothing for this long.", None)
    require_together: bool = arg("Fail unless all ranks exchanged data.", False)
    force: bool = arg("Start even if preflight checks fail.", False)

    @property
    def unseen(self) -> bool:
        return True

    def check(self) -> None:
        for name in (*self.env, *self.secret_env):
            if not name.isidentifier():
                raise Bad(f"{name!r} is not the name of a variable", slug="not-a-variable-name")
        if both := self.env.keys() & self.secret_env.keys():
            raise Bad(f"{min(both)} is in both env and secret_env", slug="arguments-conflict")
        if self.detach and (self.fetch or self.outputs):
            why = "files are fetched when a run ends, and detach does not wait for that"
            raise Bad(
                "detach cannot be combined with outputs or fetch",
                why=why,
                hint="add a fetch step after the run has ended",
                slug="arguments-conflict",
            )

    @property
    def local_files(self) -> Mapping[str, str]:
        named = {"script": "" if self.module else self.script, "accelerate": self.accelerate}
        return {name: path for name, path in named.items() if path}

    def act(self, on: Acting) -> Mapping[str, Result]:
        from ipexctl.play.run_lines import RunLines, ranks_of, run_results
        from ipexctl.run.explain_plan import planned
        from ipexctl.run.run import run
        from ipexctl.run.watch.run_watchers import counted_interrupts

        options, target = self._options(on), target_of(on)
        if on.check:
            plan = planned(target, options).plan
            return dict.fromkeys(on.hosts, Result(State.UNKNOWN, f"would start {ranks_of(plan)}"))
        with counted_interrupts() as interrupts:
            return run_results(on, run(target, options, RunLines(on), interrupts))

    def _options(self, on: Acting) -> RunOptions:
        from ipexctl.data.rules.dataset_rules import checked_names
        from ipexctl.project.send_agreed import always
        from ipexctl.run.outcome.listed_runs import checked_name
        from ipexctl.run.outcome.retry_command import Typed
        from ipexctl.run.watch.run_options import RunOptions

        n, ppn, env = self._ranks_and_env(on)
        return RunOptions(
            script=self.script,
            args=self.args,
            module=self.module,
            n=n,
            ppn=ppn,
            root=on.fleet.root,
            env=tuple(env.items()),
            secret=tuple(self.secret_env.items()),
            timeout=self.timeout,
            stall=self.stall,
            require_together=self.require_together,
            fetch=self.fetch,
            outputs=tuple(filter(None, self.outputs)),
            merge=self.merge,
            data=checked_names(self.data),
            force=self.force,
            confirm=always,
            name=checked_name(self.name),
            detach=self.detach,
            lives_on=self.detach,
            typed=Typed(("run",), (self.script, *self.args)),
        )

    def _ranks_and_env(self, on: Acting) -> tuple[int | None, int | None, dict[str, str]]:
        """The step goes before its Accelerate config, and both before the settings."""
        from ipexctl.local.settings import configured_env, defaults, load
        from ipexctl.play.accelerate_options import ConfigOptions, config_options

        env = {**dict(text.split("=", 1) for text in configured_env()), **self.env}
        said = " ".join(f"{k}: {v}" for k, v in (("n", self.n), ("ppn", self.ppn)) if v)
        config = ConfigOptions()
        if self.accelerate:
            file, own = Path(self.accelerate).expanduser(), {**env, **self.secret_env}
            config = config_options(file, own, said, lambda text: on.say("", text))
        n, ppn = (self.n, self.ppn) if said else (config.n, config.ppn)
        if not n and not ppn:
            usual = defaults(load())["run"]
            n, ppn = usual.get("n"), usual.get("ppn")
        return n, ppn, {**config.env, **env}
