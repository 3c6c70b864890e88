"""A run as a stream that scrolls: `node02 r05 | text`, a status line below, a card at the end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from ipexctl.core.inventory import fold
from ipexctl.core.model import LaunchPlan
from ipexctl.core.runlog import RunState
from ipexctl.ui.console import stderr_console, stdout_console

if TYPE_CHECKING:
    from rich.live import Live

    from ipexctl.verbs.session import RunResult, View

COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "bright_cyan", "bright_magenta",
           "bright_green", "bright_yellow", "bright_blue")  # fmt: skip


def view(*, as_json: bool) -> View:
    if as_json:
        return JsonView()
    out = stdout_console()
    return TerminalView(out, stderr_console()) if out.is_terminal else PlainView()


class PlainView:
    """No terminal: ranks' lines on stdout, everything about them on stderr."""

    def __init__(self) -> None:
        self.console = stderr_console()
        self.width = 0

    def note(self, text: str) -> None:
        self.console.print(Text(text), soft_wrap=True)

    def planned(self, run_id: str, plan: LaunchPlan) -> None:
        self.prefix = _prefixes(plan)
        self.note(_headline(run_id, plan))
        for text in plan.notes:
            self.note(text)

    def line(self, host: str, rank: int, text: str) -> None:
        print(f"{self.prefix(host, rank)} | {_no_colour(text)}", flush=True)

    def tick(self, state: RunState, seconds: float) -> None:
        return None

    def result(self, result: RunResult) -> None:
        for line in _ending(result):
            self.console.print(line, soft_wrap=True)


class TerminalView(PlainView):
    """A terminal: the same lines in colour, and one status line that stays at the bottom."""

    def __init__(self, out: Console, err: Console) -> None:
        super().__init__()
        self.out = out
        self.console = out
        self._live: Live | None = None
        self._drawn = 0.0

    def line(self, host: str, rank: int, text: str) -> None:
        prefix = (f"{self.prefix(host, rank)} | ", COLOURS[rank % len(COLOURS)])
        self.out.print(Text.assemble(prefix, Text.from_ansi(text)), soft_wrap=True)

    def tick(self, state: RunState, seconds: float) -> None:
        if self._live is None:
            from rich.live import Live

            self._live = Live(console=self.out, auto_refresh=False, transient=True)
            self._live.start()
        now = time.monotonic()
        if now - self._drawn > 0.2:
            self._drawn = now
            self._live.update(_status(state, seconds), refresh=True)

    def result(self, result: RunResult) -> None:
        if self._live:
            self._live.stop()
        super().result(result)


class JsonView:
    """One JSON object per line on stdout, the result last."""

    def _print(self, **fields: object) -> None:
        print(json.dumps(fields), flush=True)

    def note(self, text: str) -> None:
        self._print(event="note", text=text)

    def planned(self, run_id: str, plan: LaunchPlan) -> None:
        hosts = [
            {"name": h.host, "nic": h.nic, "ranks": [r.rank for r in h.ranks]} for h in plan.hosts
        ]
        self._print(
            schema_version=1,
            event="plan",
            run_id=run_id,
            world_size=plan.world_size,
            master=f"{plan.master_addr}:{plan.master_port}",
            hosts=hosts,
        )

    def line(self, host: str, rank: int, text: str) -> None:
        self._print(event="line", host=host, rank=rank, text=_no_colour(text))

    def tick(self, state: RunState, seconds: float) -> None:
        return None

    def result(self, result: RunResult) -> None:
        first = result.first
        self._print(
            event="result",
            run_id=result.run_id,
            exit_code=result.exit_code,
            ended_by=result.ended_by,
            cause=result.cause,
            hidden=result.hidden,
            seconds=round(result.seconds, 3),
            first=None
            if first is None
            else {"rank": first.rank, "host": first.host, "code": first.exit_code},
            tail=[_no_colour(t) for t in result.tail] if first else [],
            victims=[{"rank": v.rank, "host": v.host, "code": v.exit_code} for v in result.victims],
            hosts=[
                {"name": h.host, "survivors": h.survivors, "logs": h.logs} for h in result.hosts
            ],
        )


# --- parts ---------------------------------------------------------------------------------------


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _prefixes(plan: LaunchPlan) -> Callable[[str, int], str]:
    wide = max(len(h.host) for h in plan.hosts)
    digits = max(2, len(str(plan.world_size - 1)))
    return lambda host, rank: f"{host:{wide}} r{rank:0{digits}d}"


def _headline(run_id: str, plan: LaunchPlan) -> str:
    hosts = fold([h.host for h in plan.hosts])
    return (
        f"run {run_id}: {_count(plan.world_size, 'rank')} on {_count(len(plan.hosts), 'host')} "
        f"({hosts}), "
        f"gloo, master {plan.master_addr}:{plan.master_port}"
    )


def _status(state: RunState, seconds: float) -> Text:
    failed = sum(not e.ok for e in state.ends.values())
    text = Text(f" {seconds:5.0f} s  {state.alive} of {state.plan.world_size} ranks up", "bold")
    done = len(state.ends) - failed
    if done:
        text.append(f"  {done} done", "green")
    if failed:
        text.append(f"  {failed} failed", "red")
    return text


def _no_colour(text: str) -> str:
    return Text.from_ansi(text).plain if "\x1b" in text else text


def _ending(result: RunResult) -> list[Text]:
    lines = [] if result.exit_code == 0 else _box(result)
    return lines + _card(result)


def _box(result: RunResult) -> list[Text]:
    if result.ended_by == "interrupted":
        return [Text(""), Text(result.cause, "bold yellow")]
    lines = [Text(""), Text(f"failed: {result.cause}", "bold red")]
    lines += [Text(f"  | {_no_colour(t)}") for t in result.tail]
    if result.victims:
        ranks = ", ".join(f"rank {v.rank} ({v.host})" for v in result.victims[:8])
        more = f" and {len(result.victims) - 8} more" if len(result.victims) > 8 else ""
        lines.append(Text(f"  after it, and most likely because of it: {ranks}{more}", "dim"))
    return lines


def _card(result: RunResult) -> list[Text]:
    good = result.exit_code == 0
    word = "done" if good else f"exit code {result.exit_code}"
    lines = [
        Text(""),
        Text(
            f"{word}: {_count(result.plan.world_size, 'rank')} on "
            f"{_count(len(result.plan.hosts), 'host')} in {result.seconds:.1f} s",
            "bold green" if good else "bold red",
        ),
    ]
    unasked = [h.host for h in result.hosts if h.survivors is None]
    left = sum(h.survivors or 0 for h in result.hosts)
    lines.append(Text(f"  processes left on the hosts: {left}"))
    if unasked:
        lines.append(Text(f"  could not look on: {fold(unasked)}", "red"))
    if result.hidden:
        lines.append(Text(f"  {_count(result.hidden, 'line')} known to be harmless not shown"))
    for logs in dict.fromkeys(h.logs for h in result.hosts if h.logs):
        hosts = fold([h.host for h in result.hosts if h.logs == logs])
        lines.append(Text(f"  logs on {hosts}: {logs}"))
    return lines
