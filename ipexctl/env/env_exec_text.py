"""What `env exec` shows: each line behind its host's name, then what did not end well."""

from __future__ import annotations

import sys
from typing import Any

from ipexctl.base.host_outcome import Recap
from ipexctl.env.env_exec import OnLine, Ran
from ipexctl.run.output.rank_lines import without_colour
from ipexctl.terminal.console import print_lines, stderr_console, stdout_console
from ipexctl.terminal.recap_lines import counts, host_documents, host_lines


def printer() -> OnLine:
    """stdout and stderr stay apart; colour only where it may be."""
    colours = {
        False: stdout_console().color_system is not None,
        True: stderr_console().color_system is not None,
    }

    def on_line(host: str, line: str, err: bool) -> None:
        text = line if colours[err] else without_colour(line)
        print(f"{host}: {text}", file=sys.stderr if err else sys.stdout, flush=True)

    return on_line


class CollectedLines:
    """All lines, for --json."""

    def __init__(self) -> None:
        self.lines: dict[tuple[str, bool], list[str]] = {}

    def __call__(self, host: str, line: str, err: bool) -> None:
        self.lines.setdefault((host, err), []).append(line)


def show_ran(ran: Ran) -> None:
    bad = [r for r in ran.recaps if r.state is not Recap.OK]
    print_lines(stderr_console(), [*host_lines(bad)[:-1], counts(ran.recaps)] if bad else ())


def document(ran: Ran, collected: CollectedLines) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "hosts": [
            {
                "host": host,
                "code": code,
                "stdout": collected.lines.get((host, False), []),
                "stderr": collected.lines.get((host, True), []),
            }
            for host, code in ran.codes
        ],
        "failed": host_documents([r for r in ran.recaps if r.state is not Recap.OK]),
        "exit_code": ran.exit_code,
    }
