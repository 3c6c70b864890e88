"""What steps that call another command share: its target, progress and recaps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from ipexctl.base.host_outcome import HostResult, HostState, without_host
from ipexctl.base.typed_command import Typed
from ipexctl.machines.target import Target
from ipexctl.play.steps.step_kinds import Acting, Result
from ipexctl.play.text.play_outcome import State

if TYPE_CHECKING:
    from ipexctl.install.install_plan import Plan
    from ipexctl.terminal.progress import HostProgress

_STATES = {recap: State(recap.value) for recap in HostState}
_TRY = "try: "


def target_of(on: Acting) -> Target:
    """Return the hosts of the step, reached as the play reaches them. Suggested commands must not
    repeat the play's command line."""
    return replace(on.fleet.target, limit=on.hosts, exclude=(), typed=Typed(), note=notes_of(on))


def notes_of(on: Acting) -> Callable[[str], None]:
    """Return a function that says each note once; inventory notes were printed at the start."""
    printed = set(on.fleet.hosts.notes)

    def note(text: str) -> None:
        if text not in printed:
            printed.add(text)
            on.say("", text)

    return note


def progress_of(on: Acting, chosen: Callable[[Plan], None] = lambda plan: None) -> HostProgress:
    """Return progress that says a line whenever a host begins another task, without amounts."""
    from ipexctl.terminal.progress import DONE, FAILED, HostProgress, lines_of

    return HostProgress(chosen, lines_of(on.say, (DONE, FAILED)), notes_of(on))


def results_of(on: Acting, recaps: Iterable[HostResult]) -> dict[str, Result]:
    return {recap.host: _result_of_recap(recap, check=on.check) for recap in recaps}


def _result_of_recap(recap: HostResult, *, check: bool) -> Result:
    state = _STATES[recap.state]
    if check and state is State.CHANGED:
        state = State.WOULD_CHANGE
    why = "\n".join(note for note in recap.notes if not note.startswith(_TRY))
    hint = "\n".join(n.removeprefix(_TRY) for n in recap.notes if n.startswith(_TRY))
    return Result(state, without_host(recap.host, recap.detail), why, hint)


def changed_state(on: Acting) -> State:
    return State.WOULD_CHANGE if on.check else State.CHANGED
