"""Steps that start a run, and fetch its files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from ipexctl.base.located_errors import Bad
from ipexctl.base.typed_command import Typed
from ipexctl.local.run_options import RunOptions
from ipexctl.play.steps.step_kinds import Acting, FleetStep, Result
from ipexctl.play.text.check_prediction import ANY
from ipexctl.play.text.play_outcome import State
from ipexctl.play.text.step_schema import arg
from ipexctl.play.verb_calls import results_of, target_of
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class Run(RunOptions, FleetStep):
    """Run a PyTorch script on the hosts with mpirun, with live output from every rank.

    The script's project is copied first. It runs every time, so --check answers "cannot
    know" if the run plan is valid.
    """

    # its arguments are the options of `ipexctl run` that are declared with in_plays

    keyword = "run"
    main = "script"
    example = 'run: {n: 16, ppn: 4, script: train.py, args: ["--lr", "0.1"], outputs: out}'
    reads: ClassVar[tuple[str, ...]] = (ANY,)

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
        files = {"script": "" if self.module else self.script, "accelerate": self.accelerate}
        return {name: path for name, path in files.items() if path}

    def act(self, on: Acting) -> Mapping[str, Result]:
        from ipexctl.play.run_lines import RunLines, ranks_of, run_results
        from ipexctl.run.gather_plan import gather_run_plan
        from ipexctl.run.run import start_and_follow_run
        from ipexctl.run.watch.run_watchers import count_interrupts

        options, target = self.run_options(on.fleet.root, on.say), target_of(on)
        if on.check:
            plan = gather_run_plan(target, options).plan
            return dict.fromkeys(on.hosts, Result(State.UNKNOWN, f"would start {ranks_of(plan)}"))
        with count_interrupts() as interrupts:
            return run_results(
                on, start_and_follow_run(target, options, RunLines(on.say), interrupts)
            )

    def run_options(self, root: str, say: Callable[[str, str], None]) -> RunOptions:
        """Return the options with ranks and variables of the settings and its Accelerate config."""
        from ipexctl.local.settings import configured_env
        from ipexctl.project.send_agreed import answer_yes

        n, ppn, env = self._ranks_and_env(say)
        return replace(
            self,
            n=n,
            ppn=ppn,
            env=env,
            configured=frozenset(configured_env().keys() - self.env.keys()),
            outputs=tuple(filter(None, self.outputs)),
            root=root,
            lives_on=self.detach,
            confirm=answer_yes,
            typed=Typed(("run",), (self.script, *self.args)),
        )

    def _ranks_and_env(
        self, say: Callable[[str, str], None]
    ) -> tuple[int | None, int | None, dict[str, str]]:
        """Merge ranks and variables: the step, then its Accelerate config, then the settings."""
        from ipexctl.local.settings import configured_env, load_settings, option_defaults
        from ipexctl.play.accelerate_options import ConfigOptions, config_options

        env = {**configured_env(), **self.env}
        counts = " ".join(f"{k}: {v}" for k, v in (("n", self.n), ("ppn", self.ppn)) if v)
        config = ConfigOptions()
        if self.accelerate:
            file, variables = Path(self.accelerate).expanduser(), {**env, **self.secret_env}
            config = config_options(file, variables, counts, lambda text: say("", text))
        n, ppn = (self.n, self.ppn) if counts else (config.n, config.ppn)
        if not n and not ppn:
            defaults = option_defaults(load_settings(), "run")
            n, ppn = defaults.get("n"), defaults.get("ppn")
        return n, ppn, {**config.env, **env}


@dataclass(frozen=True)
class Fetch(FleetStep):
    """Fetch files written by the ranks of a run to this machine.

    Without dest, files go to a new folder under .ipexctl/runs; with dest, only files that differ
    are replaced there. Files of hosts other than rank 0's go into folders named @HOST, unless
    merge is set.
    """

    keyword = "fetch"
    main = "files"
    example = "fetch: {files: ['out/*.pt'], dest: results}"
    writes: ClassVar[tuple[str, ...]] = ()

    files: tuple[str, ...] = arg("Globs or folders, relative to the ranks' working directory.")
    run: str = arg("ID or name of the run; last: your newest run of this project.", "last")
    dest: str = arg("Folder on this machine.", "")
    merge: bool = arg("Merge the files from all hosts into one folder.", False)

    def act(self, on: Acting) -> Mapping[str, Result]:
        from ipexctl.run.jobs.fetch import fetch_files
        from ipexctl.run.outcome.run_choice import LAST
        from ipexctl.run.watch.fetch_outputs import FETCH_LIMIT

        if on.check:
            return dict.fromkeys(on.hosts, Result(State.UNKNOWN))
        run = LAST if self.run == "last" else self.run
        dest = Path(self.dest).expanduser() if self.dest else None
        report = fetch_files(
            target_of(on), run, self.files, FETCH_LIMIT, on.fleet.root, merge=self.merge, dest=dest
        )
        fetched = report.fetched
        state, folder = State.CHANGED, fetched.folder
        if dest and folder:
            on.say("", f"{fetched.new} of {fetched.files} files are new in {self.dest}")
            state = State.CHANGED if fetched.new else State.OK
        else:
            on.say("", fetched.words[0])
        result = Result(state)
        if not fetched.whole:
            words = [w for w in fetched.words if not (folder and w.startswith("outputs:"))]
            result = Result(State.FAILED, words[0], "\n".join(words[1:]))
        return {**dict.fromkeys(on.hosts, result), **results_of(on, report.recaps)}
