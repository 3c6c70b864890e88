"""What `data pull` shows."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ipexctl.base.sizes import human
from ipexctl.data.data_text import pushed_document, show_pushed
from ipexctl.data.pull import Pulled, PullPlan
from ipexctl.inventory.hostfile_text import fold
from ipexctl.project.files.project_files import amount
from ipexctl.terminal.confirm import DECLINED, confirm
from ipexctl.terminal.console import print_text, stderr_console, stdout_console


def plan_text(plan: PullPlan) -> str:
    here = f"{human(plan.lacking)} to fetch" if plan.lacking else "nothing to fetch"
    return (
        f"{plan.source}: {amount(plan.files, plan.bytes)}; {here} (in {plan.folder})\n"
        f"to {fold(plan.hosts)} as {plan.name}\n"
    )


def agreed(pause: Callable[[], None], *, yes: bool) -> Callable[[PullPlan], bool]:
    """Shows the plan, and asks; with `yes` it does not ask."""

    def answer(plan: PullPlan) -> bool:
        pause()
        print_text(stderr_console(), plan_text(plan))
        return yes or confirm("Fetch this? [Y/n] ", sys.stdin)

    return answer


def show_pulled(pulled: Pulled, run: str) -> None:
    """`run`: with the options by which the hosts were named."""
    if pulled.pushed:
        name = pulled.plan.repository
        show_pushed(pulled.pushed, run, name and f"it loads {name!r} without the hub")
    elif pulled.declined:
        print(DECLINED)
    else:
        print_text(stdout_console(), f"would be fetched:\n{plan_text(pulled.plan)}")


def pulled_document(pulled: Pulled) -> dict[str, Any]:
    plan = pulled.plan
    return {
        "schema_version": 1,
        "name": plan.name,
        "source": plan.source,
        "done": pulled.pushed is not None,
        "declined": pulled.declined,
        "plan": {"files": plan.files, "bytes": plan.bytes, "bytes_to_fetch": plan.lacking},
        "fetched_bytes": pulled.fetched,
        "pushed": pushed_document(pulled.pushed) if pulled.pushed else None,
        "exit_code": pulled.exit_code,
    }
