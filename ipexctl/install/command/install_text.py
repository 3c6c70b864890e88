"""What `install` shows: the choice, a line per host while it works, and Ansible's recap."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from ipexctl.base.sizes import human, minutes
from ipexctl.errors import printable
from ipexctl.install.command.install_forecast import forecast_document, show_forecast
from ipexctl.install.install_plan import InstallReport, Plan, State
from ipexctl.install.progress import DONE, FAILED, FETCHING, Progress, Step
from ipexctl.install.stack.version_table import END_OF_LIFE
from ipexctl.inventory.hostfile_text import fold
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.plan import mpi
from ipexctl.terminal.confirm import DECLINED
from ipexctl.terminal.console import print_lines, print_text, stderr_console, stdout_console
from ipexctl.terminal.recap_lines import host_documents, host_lines

if TYPE_CHECKING:
    from ipexctl.install.use_env import UseEnvReport

MOVING = ("sending", "fetching")  # first words of what is done in many pieces
WAITING = "waiting"  # and of what is done between them


def chosen_text(plan: Plan) -> str:
    """The first line: what will be on the hosts, and why that."""
    stack, lock = plan.found.stack, plan.lock
    n = len(plan.hosts)
    what = f"{stack.title}, {stack.row.backend}, {mpi.describe_locked(lock.mpi, lock.version)}"
    python = f"{lock.cpython.version} (carried there)" if lock.cpython else lock.python
    where = f"Python {python} on {n} host{'s' * (n != 1)} ({fold(plan.hosts)})"
    lines = [f"{what}, {where}, because: {stack.reason}"]
    lines += [END_OF_LIFE] if stack.row.ipex else []
    lines += [f"not tested: {'; '.join(stack.row.doubts)}"] if stack.row.doubts else []
    lines += _cuda_lines(plan) if lock.cuda else []
    lines += [f"warning: {note}" for note in plan.found.notes]
    made = "new ipexctl.lock" if plan.new_lock else "ipexctl.lock"
    lines.append(f"environment {lock.key} ({made}), torch {lock.version('torch')}")
    return "\n  ".join(lines)


def _cuda_lines(plan: Plan) -> list[str]:
    """What it costs, told whether or not somebody has agreed to it before."""
    lock, n, why = plan.lock, len(plan.hosts), plan.found.no_cpu_build
    fetch = f"{human(plan.to_fetch)} to fetch ({minutes(plan.to_fetch)}), "
    size = f"{human(lock.size)} for {'each of ' * (n != 1)}{n} host{'s' * (n != 1)}"
    line = f"torch {lock.version('torch')} is a CUDA build: {fetch * bool(plan.to_fetch)}{size}"
    return [line, *([why] if why else [])]


def cost(report: InstallReport) -> str:
    if report.check and report.plan:
        plan = report.plan
        bytes_ = f"{human(plan.to_fetch)} and send {human(plan.to_send)}"
        return f"would fetch {bytes_}; nothing was changed, {report.seconds:.1f} s"
    return (
        f"{human(report.fetched)} from indexes, {human(report.sent)} to hosts, "
        + f"{human(report.passed)} from host to host, " * bool(report.passed)
        + f"{report.seconds:.1f} s"
        + ", nothing was changed" * report.check
    )


def document(report: InstallReport) -> dict[str, Any]:
    """The document that --json prints."""
    plan, found = report.plan, report.plan.found if report.plan else None
    return {
        "schema_version": 1,
        "check": report.check,
        "environment": found.lock.key if found else None,
        "row": found.stack.row.name if found else None,
        "torch": found.lock.version("torch") if found else None,
        "ipex": (found.stack.row.ipex or None) if found else None,
        "oneccl": (found.stack.row.oneccl or None) if found else None,
        "backend": found.stack.row.backend if found else None,
        "ended": bool(found and found.stack.row.ipex),
        "cuda": bool(found and found.lock.cuda),
        "python": found.lock.python if found else None,
        "reason": found.stack.reason if found else None,
        "warnings": list(found.notes) if found else [],
        "hosts": [
            {**host, "bytes_sent": recap.sent}
            for host, recap in zip(host_documents(report.recaps), report.recaps, strict=True)
        ],
        "bytes_fetched": report.fetched,
        "bytes_sent": report.sent,
        "bytes_between_hosts": report.passed,
        "seconds": round(report.seconds, 3),
        "declined": report.declined,
        "plan": forecast_document(plan) if plan else None,
        "next": report.without_downs or None,
        "exit_code": report.exit_code,
    }


def show_difference(plan: Plan) -> None:
    print_text(stdout_console(), difference(plan))
    sys.stdout.flush()


def difference(plan: Plan) -> str:
    """For --diff: the packages that change, hosts with the same changes together."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for part in plan.todo:
        n = len(part.changes)
        head = f"{n or 'no'} package{'s' * (n != 1)} to change, {_before(part.state)}"
        groups.setdefault((head, *map(str, part.changes)), []).append(part.host.name)
    text = ""
    for (head, *lines), hosts in groups.items():
        text += f"{fold(hosts)}: {head}\n" + "".join(f"  {line}\n" for line in lines)
    return text


def _before(state: State) -> str:
    if state.own:
        return f"compared with {state.before}, which this project uses"
    if not state.before:
        return "no environment yet"
    return f"compared with {state.before}, the current one: this project has none there"


def show(report: InstallReport) -> None:
    console = stdout_console()
    if report.declined:
        print_text(console, DECLINED)
        return
    if report.check and report.plan and report.plan.todo:
        show_forecast(report.plan, stdout_console())
    print_lines(console, host_lines(report.recaps))
    print_text(console, cost(report))
    if report.without_downs:
        print_text(console, f"try: {report.without_downs}")
    if report.run:
        print_text(console, f"next: {report.run}")


# --- install --use-env ---------------------------------------------------------------------------


def show_used_env(found: UseEnvReport) -> None:
    print_lines(stdout_console(), host_lines(found.recaps))
    if any(r.state.value in ("ok", "changed") for r in found.recaps) and not found.check:
        words = "`ipexctl run` uses it there; `ipexctl install` goes back to ipexctl.lock"
        print_text(stdout_console(), words)


def used_env_document(found: UseEnvReport) -> dict[str, Any]:
    """The document that --json prints."""
    look = found.looks[0] if found.looks else None
    return {
        "schema_version": 1,
        "check": found.check,
        "environment": found.key,
        "path": found.path,
        "python": ".".join(map(str, look.minor)) if look else None,
        "torch": look.torch if look else None,
        "hosts": host_documents(found.recaps),
        "seconds": round(found.seconds, 3),
        "exit_code": found.exit_code,
    }


# --- while it works ------------------------------------------------------------------------------


@dataclass
class View:
    """Live lines on a terminal; elsewhere one plain line whenever a host starts something new."""

    console: Console = field(default_factory=stderr_console)
    confirm: Callable[[Plan], bool] = lambda plan: True
    quiet: bool = False
    clock: Callable[[], float] = time.monotonic
    _began: dict[str, tuple[float, int]] = field(default_factory=dict)  # when, and what was there
    _steps: dict[str, Step] = field(default_factory=dict)
    _order: tuple[str, ...] = ()  # of the hosts' lines; until it is known, as they begin
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _said: set[tuple[str, str]] = field(default_factory=set)
    _stop: Callable[[], None] | None = None  # ends the live lines
    _over: bool = False

    def progress(self) -> Progress:
        return Progress(self.chosen, self.step, self.say, self.agreed)

    def chosen(self, plan: Plan) -> None:
        self._order = plan.hosts
        self.say(chosen_text(plan))

    def agreed(self, plan: Plan) -> bool:
        self.pause()
        return self.confirm(plan)

    def pause(self) -> None:
        """Clear the live lines, before something else is printed or asked."""
        with self._lock:
            if self._stop:
                self._stop()
            self._stop = None
            self._steps.clear()

    def say(self, text: str) -> None:
        if not self.quiet:
            self.pause()
            print_text(self.console, printable(text))

    def step(self, step: Step) -> None:
        if self.quiet or self._over:
            return
        step = replace(step, text=printable(step.text))
        with self._lock:
            self._forget_what_is_over(step)
            before = self._steps.get(step.host)
            if before is None or _is_other_work(before, step):
                self._began[step.host] = self.clock(), step.done
            self._steps[step.host] = step  # last: the live lines are drawn meanwhile
            if not self.console.is_terminal:
                self._print_new(step)
            elif not self._stop:
                self._stop = self._live()

    def _forget_what_is_over(self, step: Step) -> None:
        """This machine and the hosts take turns, but for what it fetches while they get files."""
        here = self._steps.get("")
        if step.host and here and (here.text != FETCHING or here.done >= here.total):
            del self._steps[""]
        if not step.host and (here is None or here.text != step.text):
            self._steps.clear()

    def _print_new(self, step: Step) -> None:
        """The first of its kind on this host: files come in several pieces."""
        kind = _first_word(step) if _first_word(step) in MOVING else step.text
        if kind != DONE and (step.host, kind) not in self._said:
            self.console.print(f"{step.host or 'here'}: {step.text}", soft_wrap=True)
        self._said.add((step.host, kind))

    def _live(self) -> Callable[[], None]:
        from rich.live import Live

        live = Live(
            console=self.console, transient=True, refresh_per_second=8, get_renderable=self._lines
        )
        live.start()
        return live.stop

    def _lines(self) -> Text:
        lines = [(_names(group), self._doing(group)) for group in self._groups()]
        width = max((len(names) for names, _ in lines), default=0)
        return Text("\n".join(f"{names:{width}}  {doing}" for names, doing in lines))

    def _groups(self) -> list[list[Step]]:
        """Hosts that do the same, where it is not known how far they are; each other host alone."""
        places = {name: i for i, name in enumerate(self._order)}
        groups: dict[tuple[str, bool], list[Step]] = {}
        for step in sorted(self._steps.values(), key=lambda s: places.get(s.host, len(places))):
            if step.text != DONE:
                kind = step.host if _is_counted(step) else step.text
                groups.setdefault((kind, bool(step.host)), []).append(step)
        return list(groups.values())

    def _doing(self, group: Sequence[Step]) -> str:
        step = group[0]
        seconds = self.clock() - min(self._began[s.host][0] for s in group)
        if step.total:
            left = time_left(step, self._began[step.host][1], seconds)
            return counted(step) + left if _is_counted(step) else step.text
        clock = f" · {seconds:.0f} s" if seconds >= 1 and step.text != FAILED else ""
        return counted(step) + clock

    def __enter__(self) -> View:
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True  # what is still fetched goes on until the process ends
        self.pause()


def _first_word(step: Step) -> str:
    return step.text.partition(" ")[0]


def _is_counted(step: Step) -> bool:
    return bool(step.done or step.total) and _first_word(step) != WAITING


def _names(group: Sequence[Step]) -> str:
    return fold([step.host for step in group]) or "here"


def _is_other_work(before: Step, step: Step) -> bool:
    """Bytes of one sum are one work, wherever they come from."""
    return before.total != step.total or (not step.total and before.text != step.text)


def counted(step: Step) -> str:
    if step.total:
        return f"{step.text} {human(step.done)} of {human(step.total)}"
    return f"{step.text} {human(step.done)}" if step.done else step.text


def time_left(step: Step, there: int, seconds: float) -> str:
    """At the pace so far, without the bytes that were `there` before; "": it says nothing."""
    moved = step.done - there
    if not step.total or moved <= 0 or seconds < 1 or step.done >= step.total:
        return ""
    left = (step.total - step.done) * seconds / moved
    return f", {max(left, 1):.0f} s left" if left < 90 else f", {left / 60:.0f} min left"


def question(plan: Plan) -> str:
    return "Install the CUDA build? [y/N] " if plan.found.no_cpu_build else "Install? [Y/n] "
