"""Steps that a host runs on its own: consecutive ones are sent as one request."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path

from ipexctl.base.host_answer import Answer
from ipexctl.base.host_outcome import HostDown
from ipexctl.base.located_errors import Bad
from ipexctl.base.values import plain, texts_of
from ipexctl.common.play_messages import (
    FileNeeded,
    PlayEvent,
    StepBegun,
    StepEnded,
    StepOrder,
    StepPrinted,
)
from ipexctl.errors import IpexctlError
from ipexctl.inventory.inventory import Host
from ipexctl.machines.agent import LONG, hint_of, slug_of, text_of
from ipexctl.machines.fleet import SILENCE, Fleet
from ipexctl.machines.wire.frames import Frame
from ipexctl.play.steps.step_kinds import HostStep, LocalFiles, Result
from ipexctl.play.text.check_prediction import StepPrediction, predict_state
from ipexctl.play.text.interpolation import Scope, as_written
from ipexctl.play.text.play_outcome import State, StepOutcome
from ipexctl.play.text.play_values import PlayStep
from ipexctl.quick_dataclass import dataclass

OP = "play.batch.steps"
PIECE = 1 << 20
TOTAL = 7 * 24 * LONG  # a step of a play may train for days


@dataclass(frozen=True)
class BoundStep:
    """A step with its values on one host. `bound` None: it is skipped, for the reason `skipped`."""

    step: PlayStep
    bound: HostStep | None
    skipped: str = ""
    scope: Scope = Scope({})


@dataclass(frozen=True)
class PlayListener:
    """Callbacks while hosts work; called from their threads."""

    begin: Callable[[str, PlayStep], None]
    line: Callable[[str, PlayStep, str], None]
    end: Callable[[StepOutcome], None]


@dataclass
class HostBatches:
    """Runs steps on hosts. `pending`: by host, what the steps of a check would have changed."""

    fleet: Fleet
    listener: PlayListener
    check: bool
    diff: bool
    password: str = field(default="", repr=False)
    pending: dict[str, set[str]] = field(default_factory=dict)

    def run(self, host: Host, steps: Sequence[BoundStep]) -> list[StepOutcome]:
        """Return the outcomes up to the first failure. A lost host is an outcome too."""
        batch = _Batch(self, host, steps)
        for bound_step in steps:
            if bound_step.bound is None:
                batch.add_outcome(bound_step.step, Result(State.SKIPPED, bound_step.skipped))
        runnable = [bound_step for bound_step in steps if bound_step.bound]
        if runnable:
            try:
                batch.send_steps(runnable)
            except IpexctlError as e:
                batch.add_lost_host(HostDown.of(host.name, e))
        return batch.outcomes

    def predict_step_state(self, host: str, preview: StepPrediction) -> State:
        """Return the state of a step in check mode, given the changes pending on its host."""
        pending = self.pending.setdefault(host, set())
        state = predict_state(preview, pending)
        if state in (State.WOULD_CHANGE, State.UNKNOWN):
            pending.update(preview.writes)
        return state

    def require_sudo(self, host: Host) -> None:
        """Raise HostFailed if sudo would refuse to run a step."""
        request = {"password": self.password}
        self.fleet.agents[host].call("play.batch.sudo", request, timeout=SILENCE)


class _Batch:
    """One request to one host, and its events until it ends."""

    def __init__(self, batches: HostBatches, host: Host, steps: Sequence[BoundStep]) -> None:
        self._batches, self._host = batches, host
        self._steps = {bound_step.step.number: bound_step.step for bound_step in steps}
        self._files = LocalFiles()
        self._current: PlayStep | None = None
        self._number = 0
        self._began = time.monotonic()
        self.outcomes: list[StepOutcome] = []

    def send_steps(self, steps: Sequence[BoundStep]) -> None:
        """Send the steps as one request, and wait until the host has run them."""
        agent = self._batches.fleet.agents[self._host]
        requests, modules = [], set()
        for bound_step in steps:
            assert bound_step.bound
            modules.add(f"play.apply_{bound_step.step.kind}.apply")
            order = self._step_order(bound_step.step, bound_step.bound, bound_step.scope)
            requests.append(order.document())
        args = {
            "steps": requests,
            "check": self._batches.check,
            "diff": self._batches.diff,
            "password": self._batches.password,
        }
        self._number = agent.start(OP, args, also=sorted(modules))
        agent.wait(self._number, timeout=SILENCE, total=TOTAL, on_event=self._on_event)

    def _step_order(self, step: PlayStep, bound: HostStep, scope: Scope) -> StepOrder:
        """Return the order for a step on the host."""
        try:
            args = bound.request(self._files, scope)
        except Bad as e:
            raise e.prefixed(f"{step.kind}: ").placed(step.place) from None
        return StepOrder(
            number=step.number,
            module=f"apply_{step.kind}",
            args=dict(args),
            sudo=step.sudo,
            ignore_errors=step.ignore_errors,
            retries=step.retries,
            delay=step.delay,
        )

    def _on_event(self, frame: Frame) -> None:
        """Handle a frame of the host: it needs a file, or reports the progress of a step."""
        if PlayEvent.kind_of(frame.header) is None:
            return  # a sign of life
        match Answer(self._host.name, frame.header).read(PlayEvent):
            case FileNeeded(_, sha256):
                self._send_file(sha256)
            case StepBegun(number) if step := self._steps.get(number):
                self._current, self._began = step, time.monotonic()
                self._batches.listener.begin(self._host.name, step)
            case StepPrinted(number, text) if step := self._steps.get(number):
                self._batches.listener.line(self._host.name, step, text_of(text))
            case StepEnded(number) as end if step := self._steps.get(number):
                self._end_step(step, end)

    def _send_file(self, sha256: str) -> None:
        """Send only a file that a step of this request named, with the content it had then."""
        agent = self._batches.fleet.agents[self._host]
        path = self._files.paths.get(sha256, Path("/dev/null"))
        with path.open("rb") as file:
            while piece := file.read(PIECE):
                agent.feed(self._number, {"part": True}, piece)
        agent.feed(self._number, {"last": True})

    def _end_step(self, step: PlayStep, end: StepEnded) -> None:
        """Convert the host's report on a step to its state and texts, and store the outcome."""
        failure = end.failure
        preview = StepPrediction(
            end.changed, failure is not None, texts_of(end.reads), texts_of(end.writes)
        )
        state = State.FAILED if preview.failed else State.CHANGED if preview.changed else State.OK
        if self._batches.check:
            state = self._batches.predict_step_state(self._host.name, preview)
        if state is State.FAILED and step.ignore_errors:
            state = State.IGNORED
        result = Result(state, plain(end.detail))
        if state is State.UNKNOWN and (preview.failed or preview.changed is False):
            result = Result(state, "an earlier step may change this")
        elif failure and state is not State.WOULD_CHANGE:
            texts = (failure.what, failure.why, failure.hint)
            what, why, hint = (as_written(text_of(text)) for text in texts)
            slug = slug_of(failure.slug)
            result = Result(state, what, why, hint_of(self._host, hint), slug)
        self.add_outcome(step, result, text_of(end.diff))

    def add_outcome(self, step: PlayStep, result: Result, diff: str = "") -> None:
        seconds = time.monotonic() - self._began
        outcome = StepOutcome(step, self._host.name, **vars(result), diff=diff, seconds=seconds)
        self._began = time.monotonic()
        self._current = None
        self.outcomes.append(outcome)
        self._batches.listener.end(outcome)

    def add_lost_host(self, down: HostDown) -> None:
        """Count the failure for the step that was running, or else for the next one."""
        ended = {outcome.step.number for outcome in self.outcomes}
        remaining = [step for number, step in self._steps.items() if number not in ended]
        step = self._current or (remaining[0] if remaining else None)
        if step:
            self.add_outcome(step, Result.of_down(down))
