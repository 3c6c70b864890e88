"""What `play` shows: a line for each step, failures at once, and the recap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import field

from rich.console import Console
from rich.text import Text

from ipexctl.base.shell_line import shell_line
from ipexctl.errors import printable_text
from ipexctl.inventory.hostfile_text import fold
from ipexctl.play.host_batch import PlayListener
from ipexctl.play.play import PlayStart
from ipexctl.play.text.play_outcome import State, StepOutcome
from ipexctl.play.text.play_values import PlayStep
from ipexctl.quick_dataclass import dataclass
from ipexctl.terminal.console import print_lines
from ipexctl.terminal.progress import DONE, ProgressStep
from ipexctl.terminal.progress_view import ProgressView

COLOURS = {
    State.OK: "green",
    State.CHANGED: "yellow",
    State.WOULD_CHANGE: "yellow",
    State.UNKNOWN: "magenta",
    State.SKIPPED: "cyan",
    State.IGNORED: "cyan",
    State.FAILED: "red",
    State.UNREACHABLE: "bold red",
}
_SHOWN_HOSTS = 3


@dataclass
class PlayScreen:
    """Gets events from the hosts' threads. A step is printed once all its hosts are done."""

    console: Console
    diff: bool = False
    quiet: bool = False
    check: bool = False  # hosts with failures continue
    _start: PlayStart | None = None
    _found: dict[int, list[StepOutcome]] = field(default_factory=dict)
    _printed: set[int] = field(default_factory=set)
    _stopped: set[str] = field(default_factory=set)
    _told: set[tuple[int, str, str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Keep `working` below the other lines on a terminal."""
        quiet = self.quiet or not self.console.is_interactive
        self.working = ProgressView(self.console, quiet, style="dim")
        self._lock = self.working.live.lock

    @property
    def listener(self) -> PlayListener:
        return PlayListener(self.begin, self.line, self.end)

    def begin(self, host: str, step: PlayStep) -> None:
        self.working.step(ProgressStep(host, f"{step.number} {step.title}"))

    def show_start(self, start: PlayStart) -> None:
        self._start = start
        self._found, self._printed, self._stopped, self._told = {}, set(), set(), set()
        self.working.hosts = tuple(start.hosts)
        hosts, steps = len(start.hosts), len(start.steps)
        title = f"{start.play.name or start.play.source}: "
        counted = f"{steps} step{'s' * (steps != 1)} on {hosts} host{'s' * (hosts != 1)}"
        self._print([Text(title, "bold") + Text(f"{counted} ({fold(start.hosts)})")])
        for host in start.hosts:
            self.working.step(ProgressStep(host, "connecting"))

    def line(self, host: str, step: PlayStep, text: str) -> None:
        with self._lock:
            self._print([Text(f"{host or 'all'} | ", "dim") + Text(self.mask_text(text))])

    def end(self, outcome: StepOutcome) -> None:
        """Store the outcome, print a failure at once, then every step that is complete."""
        with self._lock:
            self.working.step(ProgressStep(outcome.host, DONE))
            self._found.setdefault(outcome.step.number, []).append(outcome)
            if outcome.state.stops or outcome.state is State.IGNORED:
                goes_on = self.check and outcome.state is not State.UNREACHABLE
                self._stopped |= {outcome.host} if outcome.state.stops and not goes_on else set()
                self._print(self._failure_lines(outcome))
            self._print_ended()

    def finish(self) -> None:
        """Print the steps that not all hosts reached."""
        with self._lock:
            for number in sorted(self._found.keys() - self._printed):
                self._print_step(number)

    # -- printing; the caller holds the lock --

    def _print(self, lines: Sequence[Text]) -> None:
        if not self.quiet:
            print_lines(self.console, lines)

    def mask_text(self, text: str) -> str:
        return printable_text(self._start.mask(text) if self._start else text)

    def _print_ended(self) -> None:
        """Print in the order of the play: a step waits for earlier ones and for all its hosts."""
        assert self._start
        for number, hosts in self._start.on.items():
            if number in self._printed:
                continue
            outcomes = self._found.get(number, ())
            if hosts - self._stopped - {outcome.host for outcome in outcomes}:
                break
            if outcomes:
                self._print_step(number)

    def _print_step(self, number: int) -> None:
        """Print the states of a step on all hosts, with --diff the changes too."""
        self._printed.add(number)
        assert self._start
        order = {host: i for i, host in enumerate(self._start.hosts)}
        outcomes = sorted(self._found[number], key=lambda outcome: order.get(outcome.host, 0))
        step = outcomes[0].step
        title = Text(f"{number:>3} ", "dim") + Text(f"{step.title:<32}  ")
        counts = Counter(outcome.state for outcome in outcomes)
        words = Text(", ").join(
            Text(f"{n} {state.value}", COLOURS[state]) for state, n in counts.items()
        )
        self._print([title + words + Text(self._describe_changes(outcomes), "dim")])
        if self.diff:
            hosts: dict[str, list[str]] = {}
            for outcome in outcomes:
                if outcome.diff:
                    hosts.setdefault(self.mask_text(outcome.diff), []).append(outcome.host)
            for diff, names in hosts.items():
                self._print(_diff_lines(diff, names))

    def _describe_changes(self, outcomes: Sequence[StepOutcome]) -> str:
        """Return what changed, once if it is the same on all hosts, else by host."""
        details = {o.host: o.detail for o in outcomes if o.detail and not o.state.stops}
        if not details:
            return ""
        texts = set(details.values())
        if len(texts) == 1 and len(details) == len(outcomes):
            return f"  {self.mask_text(texts.pop())}"
        groups = {text: [host for host, t in details.items() if t == text] for text in texts}
        parts = [f"{fold(hosts)}: {self.mask_text(text)}" for text, hosts in sorted(groups.items())]
        suffix = f"; {len(parts) - _SHOWN_HOSTS} more" if len(parts) > _SHOWN_HOSTS else ""
        return "  " + "; ".join(parts[:_SHOWN_HOSTS]) + suffix

    def _failure_lines(self, outcome: StepOutcome) -> list[Text]:
        """Return the lines of a failure; a reason that was shown before is not repeated."""
        style, place = COLOURS[outcome.state], outcome.step.place
        head = f"{outcome.host}: {outcome.state.value}: {outcome.step.title} "
        reason = (outcome.step.number, outcome.detail, outcome.why)
        if reason in self._told:
            return [Text(head, style) + Text("(for the same reason)", "dim")]
        self._told.add(reason)
        lines = [Text(head, style) + Text(f"({place.source}:{place.line})", "dim")]
        lines += [Text(f"  {line}") for line in self.mask_text(outcome.detail).splitlines()]
        for label, text in (("why", outcome.why), ("try", outcome.hint)):
            for i, line in enumerate(self.mask_text(text).splitlines()[-12:]):
                line = shell_line(line) if label == "try" else line
                lines.append(Text(f"  {label + ':' if i == 0 else '':5}{line}"))
        return lines


def _diff_lines(diff: str, hosts: Sequence[str]) -> list[Text]:
    lines = [Text(f"    {fold(hosts)}", "dim")]
    for line in diff.splitlines():
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        lines.append(Text(f"    {printable_text(line)}", style))
    return lines
