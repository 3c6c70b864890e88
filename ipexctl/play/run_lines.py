"""A run inside a play: its ranks' lines as they come, and its result for each host."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ipexctl.base.sizes import duration
from ipexctl.errors import Interrupted
from ipexctl.explain.known_failures import known_failures
from ipexctl.inventory.hostfile_text import fold
from ipexctl.machines.suggested_commands import suggest_command
from ipexctl.play.steps.step_kinds import Acting, Result
from ipexctl.play.text.play_outcome import State
from ipexctl.run.outcome.first_cause import known_cause
from ipexctl.run.outcome.rank_exchange import describe_exchange
from ipexctl.run.outcome.run_result import DetachedRun, RunResult
from ipexctl.run.output.rank_lines import without_colour
from ipexctl.run.output.short_paths import short_traceback, shorten_paths
from ipexctl.run.plan.launch import LaunchPlan
from ipexctl.run.watch.run_watchers import View


class RunLines(View):
    """A View that passes every line to `say`, prefixed with the rank."""

    def __init__(self, say: Callable[[str, str], None]) -> None:
        self._say = say

    def note(self, text: str) -> None:
        self._say("", text)

    def planned(self, run_id: str, plan: LaunchPlan) -> None:
        self.note(f"run {run_id}: {ranks_of(plan)}")
        for text in plan.notes:
            self.note(text)

    def lines(self, host: str, rank: int, texts: Sequence[str]) -> None:
        for text in texts:
            self._say(host, f"r{rank:02d} | {shorten_paths(without_colour(text))}")

    def bar(self, host: str, rank: int, text: str) -> None:
        self.lines(host, rank, [text])

    def result(self, result: RunResult) -> None:
        if result.exchange and result.exchange.is_alarming:
            self.note(f"warning: {describe_exchange(result.exchange, result.plan.world_size)}")
        if result.gpu_check:
            self.note(f"warning: the script ended itself: {result.gpu_check}")
        for text in (*result.kept.trouble, *result.kept.outputs):
            self.note(text)


def ranks_of(plan: LaunchPlan) -> str:
    n = plan.world_size
    return f"{n} rank{'s' * (n != 1)} on {fold(host.host for host in plan.hosts)}"


def run_results(on: Acting, ended: RunResult | DetachedRun) -> dict[str, Result]:
    """Convert the outcome of a run to a result for each host of the step."""
    if isinstance(ended, DetachedRun):
        hint = suggest_command(on.fleet.target, f"attach {ended.run_id}", on.fleet.root)
        if ended.why:
            return dict.fromkeys(on.hosts, Result(State.FAILED, ended.why, hint=hint))
        return dict.fromkeys(on.hosts, Result(State.CHANGED, f"started run {ended.run_id}"))
    if ended.ended_by == "interrupted":
        raise Interrupted(f"{ended.cause}; run {ended.run_id} has ended")
    if ended.exit_code == 0:
        detail = f"run {ended.run_id}, {ranks_of(ended.plan)} in {duration(ended.seconds)}"
        used = {host.host for host in ended.plan.hosts}
        idle = Result(State.OK, "no ranks on this host")
        return {host: Result(State.CHANGED, detail) if host in used else idle for host in on.hosts}
    return _failed_results(on, ended)


def _failed_results(on: Acting, ended: RunResult) -> dict[str, Result]:
    """Give the reasons to the host of the first cause, and one line to the others."""
    failure = known_cause(ended, known_failures)
    first = ended.first.host if ended.first else next(iter(sorted(ended.lost)), on.hosts[0])
    traceback = short_traceback([without_colour(text) for text in ended.last_words])
    why = [shorten_paths(text) for text in traceback]
    results = {}
    for host in on.hosts:
        state = State.UNREACHABLE if host in ended.lost else State.FAILED
        if host == first:
            why += [str(ended.stall)] if ended.stall else []
            why += [failure.why] if failure else []
            logs = suggest_command(on.fleet.target, f"logs {ended.run_id}", on.fleet.root)
            hint = f"{failure.fix}\n{logs}" if failure else logs
            results[host] = Result(
                state, f"run {ended.run_id}: {ended.cause}", "\n".join(why), hint
            )
        else:
            results[host] = Result(state, f"run {ended.run_id} failed, first on {first}")
    return results
