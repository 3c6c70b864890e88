"""Choose how a run is shown: as scrolling text, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ipexctl.errors import unknown_value
from ipexctl.run.command.stream import PlainView, TerminalView
from ipexctl.run.outcome.result_document import SCHEMA, plan_document, result_document
from ipexctl.run.output.rank_lines import without_colour
from ipexctl.run.plan.launch import LaunchPlan
from ipexctl.run.watch.run_watchers import View
from ipexctl.terminal.console import is_dumb, stdout_console

if TYPE_CHECKING:
    from ipexctl.run.outcome.run_result import RunResult, Tally

KINDS = ("auto", "stream", "plain", "json")


def check_ui(kind: str) -> None:
    if kind not in KINDS:
        raise unknown_value("--ui", kind, KINDS)


def make_view(
    kind: str = "auto", *, aside: bool = False, fold: bool = True, verbose: bool = False
) -> View:
    """Return the view for `--ui`; `auto` is a stream in a terminal, and plain in a pipe or in CI.

    A dumb terminal gets no escape codes. `aside`: print nothing to stdout, unless that is a
    terminal. `fold`: as for TerminalView.
    """
    check_ui(kind)
    if kind == "json":
        return JsonView()
    out = stdout_console()
    live = kind == "stream" or (kind == "auto" and out.is_terminal)
    if not live or is_dumb():
        return PlainView(aside=aside, verbose=verbose)
    return TerminalView(out, fold=fold, verbose=verbose)


STATUS_EVERY = 5.0


def print_event(event: str, **fields: Any) -> None:
    print(json.dumps({"schema_version": SCHEMA, "event": event, **fields}), flush=True)


class JsonView(View):
    as_data = True

    def __init__(self) -> None:
        self._told = 0.0

    def note(self, text: str) -> None:
        print_event("note", text=text)

    def planned(self, run_id: str, plan: LaunchPlan) -> None:
        print(json.dumps(plan_document(run_id, plan)), flush=True)
        for text in plan.notes:
            self.note(text)

    def lines(self, host: str, rank: int, texts: Sequence[str]) -> None:
        event = {"schema_version": SCHEMA, "event": "line", "host": host, "rank": rank}
        lines = (json.dumps({**event, "text": without_colour(text)}) for text in texts)
        print("\n".join(lines), flush=True)

    def bar(self, host: str, rank: int, text: str) -> None:
        print_event("progress", host=host, rank=rank, text=without_colour(text))

    def tick(self, tally: Tally) -> None:
        if tally.loads and tally.seconds - self._told >= STATUS_EVERY:
            self._told = tally.seconds
            hosts = [
                {
                    "name": host,
                    "cpu": load.cpu,
                    "memory_used": load.used,
                    "memory": load.total,
                    "network": load.net,
                }
                for host, load in tally.loads
            ]
            ranks = {"up": tally.alive, "done": tally.done, "failed": tally.failed}
            print_event("status", seconds=round(tally.seconds, 3), ranks=ranks, hosts=hosts)

    def result(self, result: RunResult) -> None:
        from ipexctl.explain.known_failures import known_failures

        print(json.dumps(result_document(result, known_failures)), flush=True)
