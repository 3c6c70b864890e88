"""The progress of each host: lines that change on a terminal, elsewhere a line for each task."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import field, replace

from rich.console import Console
from rich.text import Text

from ipexctl.base.sizes import duration, format_bytes
from ipexctl.errors import printable_text
from ipexctl.inventory.hostfile_text import fold
from ipexctl.quick_dataclass import dataclass
from ipexctl.terminal.console import print_text, stderr_console
from ipexctl.terminal.live_lines import LiveLines
from ipexctl.terminal.progress import DONE, FAILED, FETCHING, HostProgress, ProgressStep, lines_of

WAITING = "waiting"  # first word of work between the pieces of a file


@dataclass
class ProgressView:
    """Shows what each host does now. `hosts`: the order of their lines; others follow in the order
    in which they began."""

    console: Console = field(default_factory=stderr_console)
    quiet: bool = False
    clock: Callable[[], float] = time.monotonic
    hosts: tuple[str, ...] = ()
    style: str = ""
    _began: dict[str, tuple[float, int]] = field(default_factory=dict)  # time; bytes done before
    _steps: dict[str, ProgressStep] = field(default_factory=dict)
    _over: bool = False

    def __post_init__(self) -> None:
        self.live = LiveLines(self.console, self._render_lines, every=0.125)
        self._print_new = lines_of(
            lambda host, text: self.console.print(f"{host or 'here'}: {text}", soft_wrap=True)
        )

    def say(self, text: str) -> None:
        if not self.quiet:
            self.pause()
            print_text(self.console, printable_text(text))

    def pause(self) -> None:
        """Clear the live lines, which are outdated."""
        with self.live.lock:
            self.live.stop()
            self._steps.clear()

    def step(self, step: ProgressStep) -> None:
        """Show what a host does now, or print it where lines cannot change."""
        if self.quiet or self._over:
            return
        step = replace(step, text=printable_text(step.text))
        with self.live.lock:
            self._forget_what_is_over(step)
            previous = self._steps.get(step.host)
            if previous is None or _is_other_work(previous, step):
                self._began[step.host] = self.clock(), step.done
            self._steps[step.host] = step
            if self.live.drawn:
                self.live.start()
            else:
                self._print_new(step)

    def _forget_what_is_over(self, step: ProgressStep) -> None:
        """Drop old steps: controller and hosts take turns, except when it fetches for them."""
        own = self._steps.get("")
        if step.host and own and (own.text != FETCHING or own.done >= own.total):
            del self._steps[""]
        if not step.host and (own is None or own.text != step.text):
            self._steps.clear()

    def _render_lines(self) -> Text:
        lines = [(_step_hosts(group), self._describe_work(group)) for group in self._group_steps()]
        width = max((len(names) for names, _ in lines), default=0)
        return Text("\n".join(f"{names:{width}}  {doing}" for names, doing in lines), self.style)

    def _group_steps(self) -> list[list[ProgressStep]]:
        """Group hosts that do the same without a known progress; each other host is alone."""
        places = {name: i for i, name in enumerate(self.hosts)}
        groups: dict[tuple[str, bool], list[ProgressStep]] = {}
        for step in sorted(self._steps.values(), key=lambda s: places.get(s.host, len(places))):
            if step.text != DONE:
                kind = step.host if _is_counted(step) else step.text
                groups.setdefault((kind, bool(step.host)), []).append(step)
        return list(groups.values())

    def _describe_work(self, group: Sequence[ProgressStep]) -> str:
        step = group[0]
        seconds = self.clock() - min(self._began[s.host][0] for s in group)
        if step.total:
            left = time_left(step, self._began[step.host][1], seconds)
            return step_with_bytes(step) + left if _is_counted(step) else step.text
        clock = f" · {duration(seconds)}" if seconds >= 1 and step.text != FAILED else ""
        return step_with_bytes(step) + clock

    def __enter__(self) -> HostProgress:
        return HostProgress(step=self.step, say=self.say)

    def __exit__(self, *_: object) -> None:
        self._over = True  # downloads may continue until the process ends
        self.pause()


def _is_counted(step: ProgressStep) -> bool:
    return bool(step.done or step.total) and not step.text.startswith(WAITING)


def _step_hosts(group: Sequence[ProgressStep]) -> str:
    return fold([step.host for step in group]) or "here"


def _is_other_work(previous: ProgressStep, step: ProgressStep) -> bool:
    """Decide whether the host does something else now; steps with one total are the same work."""
    return previous.total != step.total or (not step.total and previous.text != step.text)


def step_with_bytes(step: ProgressStep) -> str:
    if step.total:
        return f"{step.text} {format_bytes(step.done)} of {format_bytes(step.total)}"
    return f"{step.text} {format_bytes(step.done)}" if step.done else step.text


def time_left(step: ProgressStep, start: int, seconds: float) -> str:
    """Return the time left at the pace so far, without the bytes `start` before; "" if unknown."""
    moved = step.done - start
    if not step.total or moved <= 0 or seconds < 1 or step.done >= step.total:
        return ""
    rest = (step.total - step.done) * seconds / moved
    return f", {max(rest, 1):.0f} s left" if rest < 90 else f", {rest / 60:.0f} min left"
