"""A run as a stream that scrolls: `node02 r05 | text`, a status line below, a card at the end."""

from __future__ import annotations

import io
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from ipexctl.core import causes
from ipexctl.core.causes import Cause
from ipexctl.core.inventory import fold
from ipexctl.core.model import LaunchPlan
from ipexctl.ui.console import stderr_console, stdout_console

if TYPE_CHECKING:
    from ipexctl.verbs.watch import RunResult, Tally, View

COLOURS = (36, 35, 32, 33, 34, 96, 95, 92, 93, 94)  # of ranks' names, as the terminal numbers them
ERASE = "\r\x1b[2K"
RESET = "\x1b[0m"


def view(*, as_json: bool) -> View:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a rank may print what this terminal has not
    if as_json:
        return JsonView()
    out = stdout_console()
    return TerminalView(out) if out.is_terminal else PlainView()


class PlainView:
    """No terminal: ranks' lines on stdout, everything about them on stderr."""

    def __init__(self) -> None:
        self.console = stderr_console()

    def note(self, text: str) -> None:
        self.console.print(Text(text), soft_wrap=True)

    def planned(self, run_id: str, plan: LaunchPlan) -> None:
        self.prefix = _prefixes(plan)
        self.note(_headline(run_id, plan))
        for text in plan.notes:
            self.note(text)

    def lines(self, host: str, rank: int, texts: Sequence[str]) -> None:
        prefix = self.prefix(host, rank)
        _write("".join(f"{prefix} | {_no_colour(text)}\n" for text in texts))

    def tick(self, tally: Tally) -> None:
        return None

    def result(self, result: RunResult) -> None:
        for line in _ending(result):
            self.console.print(line, soft_wrap=True)


class TerminalView(PlainView):
    """A terminal: the same lines in colour, and one status line that stays at the bottom.

    Lines are written by our own few escape codes: Rich would need a millisecond for each.
    """

    def __init__(self, out: Console) -> None:
        super().__init__()
        self.console = out
        self._colour = not out.no_color
        self._status = ""
        self._drawn = 0.0

    def note(self, text: str) -> None:
        self._clear()
        super().note(text)

    def lines(self, host: str, rank: int, texts: Sequence[str]) -> None:
        prefix = f"{self.prefix(host, rank)} |"
        if self._colour:
            prefix = f"\x1b[{COLOURS[rank % len(COLOURS)]}m{prefix}{RESET}"
            block = "".join(f"{prefix} {_closed(text)}\n" for text in texts)
        else:
            block = "".join(f"{prefix} {_no_colour(text)}\n" for text in texts)
        erase = ERASE if self._status else ""
        _write(erase + block + self._status)

    def tick(self, tally: Tally) -> None:
        now = time.monotonic()
        if now - self._drawn > 0.2:
            self._drawn = now
            text = _status(tally, bare=not self._colour, width=self.console.width - 1)
            _write((ERASE if self._status else "") + text)
            self._status = text

    def result(self, result: RunResult) -> None:
        self._clear()
        super().result(result)

    def _clear(self) -> None:
        if self._status:
            _write(ERASE)
            self._status = ""


class JsonView:
    """One JSON object per line on stdout, the result last."""

    def _print(self, **fields: object) -> None:
        _write(json.dumps(fields) + "\n")

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

    def lines(self, host: str, rank: int, texts: Sequence[str]) -> None:
        event = {"event": "line", "host": host, "rank": rank}
        _write("".join(json.dumps({**event, "text": _no_colour(t)}) + "\n" for t in texts))

    def tick(self, tally: Tally) -> None:
        return None

    def result(self, result: RunResult) -> None:
        first, known = result.first, _known(result)
        self._print(
            event="result",
            run_id=result.run_id,
            exit_code=result.exit_code,
            ended_by=result.ended_by,
            cause=result.cause,
            known={"slug": known.slug, "title": known.title, "fix": known.fix} if known else None,
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


def _write(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError:
        # what is left in the buffer must not be tried again when the interpreter ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


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


def _status(tally: Tally, *, bare: bool, width: int) -> str:
    parts = [(f" {tally.seconds:5.0f} s  {tally.alive} of {tally.ranks} ranks up", 1)]
    parts += [(f"  {tally.done} done", 32)] if tally.done else []
    parts += [(f"  {tally.failed} failed", 31)] if tally.failed else []
    text = "".join(part for part, _ in parts)
    if bare or len(text) > width:
        return text[:width]
    return "".join(f"\x1b[{code}m{part}{RESET}" for part, code in parts)


def _closed(text: str) -> str:
    """Colours that a line leaves open end with it."""
    return text + RESET if "\x1b" in text else text


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
    if known := _known(result):
        lines.append(Text(f"  known: {known.title}   (ipexctl explain {known.slug})", "bold"))
        lines += [Text(f"  why: {known.why}"), Text(f"  try: {known.fix}")]
    if result.victims:
        ranks = ", ".join(f"rank {v.rank} ({v.host})" for v in result.victims[:8])
        more = f" and {len(result.victims) - 8} more" if len(result.victims) > 8 else ""
        lines.append(Text(f"  after it, and most likely because of it: {ranks}{more}", "dim"))
    return lines


def _known(result: RunResult) -> Cause | None:
    """The known failure that the first failing rank's last words tell of, or else its end."""
    if result.exit_code == 0 or result.ended_by == "interrupted":
        return None
    from ipexctl.verbs.known import failures

    found = causes.match([*map(_no_colour, result.tail), result.cause], failures())
    return found.cause if found else None


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
