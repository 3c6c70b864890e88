"""What `install --use-env` shows: what is there, which row of the table that is, and the recap."""

from __future__ import annotations

from typing import Any

from ipexctl.install.stack.version_table import END_OF_LIFE
from ipexctl.install.use_env import UseEnvReport
from ipexctl.inventory.hostfile_text import fold
from ipexctl.terminal.console import print_lines, print_text, stdout_console
from ipexctl.terminal.recap_lines import host_documents, host_lines


def found_text(found: UseEnvReport) -> str:
    looks = found.looks
    python, n = ".".join(map(str, looks[0].minor)), len(looks)
    hosts = f"{n} host{'s' * (n != 1)} ({fold(tuple(look.host for look in looks))})"
    lines = [f"{looks[0].title}, Python {python}, in {found.path} on {hosts}: nothing is installed"]
    if found.row:
        lines.append(f"the version table's row {found.row.name}")
        lines += [END_OF_LIFE] if found.row.ipex else []
    else:
        lines.append(f"no row of the version table: {found.why}")
    return "\n  ".join(lines)


def show(found: UseEnvReport) -> None:
    print_lines(stdout_console(), host_lines(found.recaps))
    if any(r.state.value in ("ok", "changed") for r in found.recaps) and not found.check:
        words = "`ipexctl run` uses it there; `ipexctl install` goes back to ipexctl.lock"
        print_text(stdout_console(), words)


def document(found: UseEnvReport) -> dict[str, Any]:
    """For --json."""
    look = found.looks[0] if found.looks else None
    return {
        "schema_version": 1,
        "check": found.check,
        "environment": found.key,
        "path": found.path,
        "row": found.row.name if found.row else None,
        "why_no_row": found.why or None,
        "python": ".".join(map(str, look.minor)) if look else None,
        "torch": look.torch if look else None,
        "hosts": host_documents(found.recaps),
        "seconds": round(found.seconds, 3),
        "exit_code": found.exit_code,
    }
