from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from ipexctl.play.steps.step_kinds import Acting, FleetStep, Result
from ipexctl.play.text.play_outcome import State
from ipexctl.play.text.step_schema import arg
from ipexctl.play.verb_calls import results_of, target_of
from ipexctl.quick_dataclass import dataclass


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
    run: str = arg("ID or name of the run; last: the newest run.", "last")
    dest: str = arg("Folder on this machine.", "")
    merge: bool = arg("Merge the files from all hosts into one folder.", False)

    def act(self, on: Acting) -> Mapping[str, Result]:
        from ipexctl.run.jobs.fetch import fetch
        from ipexctl.run.outcome.listed_runs import LAST
        from ipexctl.run.watch.fetch_outputs import FETCH_LIMIT

        if on.check:
            return dict.fromkeys(on.hosts, Result(State.UNKNOWN))
        run = LAST if self.run == "last" else self.run
        dest = Path(self.dest).expanduser() if self.dest else None
        done = fetch(
            target_of(on), run, self.files, FETCH_LIMIT, on.fleet.root, merge=self.merge, dest=dest
        )
        state, folder = State.CHANGED, done.fetched.folder
        if dest and folder:
            on.say("", f"{done.fetched.new} of {done.fetched.files} files are new in {self.dest}")
            state = State.CHANGED if done.fetched.new else State.OK
        else:
            on.say("", done.fetched.words[0])
        result = Result(state)
        if not done.fetched.whole:
            words = [w for w in done.fetched.words if not (folder and w.startswith("outputs:"))]
            result = Result(State.FAILED, words[0], "\n".join(words[1:]))
        return {**dict.fromkeys(on.hosts, result), **results_of(on, done.recaps)}
