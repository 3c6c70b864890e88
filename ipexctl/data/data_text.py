"""What `data push`, `data pull`, `data ls` and `data rm` show."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ipexctl.base.quoting import quote
from ipexctl.base.sizes import format_bytes
from ipexctl.data.data import DatasetList, Pushed, RemovedDatasets
from ipexctl.data.pull import Pulled, PullPlan
from ipexctl.data.rules.dataset_rules import Held
from ipexctl.inventory.hostfile_text import fold
from ipexctl.project.files.dataset_names import data_variable_name
from ipexctl.project.files.project_files import amount_text
from ipexctl.project.training_script import training_script
from ipexctl.terminal.confirm import DECLINED, confirm
from ipexctl.terminal.console import print_lines, print_text, stderr_console, stdout_console
from ipexctl.terminal.live_lines import without_live_lines
from ipexctl.terminal.recap_lines import host_documents, host_lines, not_shown


def show_pushed(pushed: Pushed, run: str = "ipexctl run", usage: str = "") -> None:
    """Print the outcome. `run`: with the options that name hosts. `usage`: how scripts find it."""
    print_lines(stdout_console(), host_lines(pushed.recaps))
    if pushed.exit_code == 0:
        script = quote((training_script(Path.cwd()),))
        usage = usage or f"its path: ${data_variable_name(pushed.name)}"
        print_text(
            stdout_console(),
            f"{pushed.name}: {amount_text(pushed.files, pushed.bytes)}, version {pushed.version}\n"
            f"next: {run} --data {pushed.name} {script}   # {usage}",
        )


def pushed_document(pushed: Pushed) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "name": pushed.name,
        "version": pushed.version,
        "files": pushed.files,
        "bytes": pushed.bytes,
        "sent_bytes": pushed.sent,
        "bytes_between_hosts": pushed.passed,
        "hosts": host_documents(pushed.recaps),
        "exit_code": pushed.exit_code,
    }


def listed_text(
    listed: DatasetList, push: str = "ipexctl data push", *, paths: bool = False
) -> str:
    """Return the list; hosts that have the same version of a dataset share a line."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for host, held in listed.hosts:
        for dataset in held:
            text = _describe_dataset(dataset)
            text += f", in {dataset.path}" * (paths and bool(dataset.path))
            text += f", from {dataset.source}" * bool(dataset.source)
            groups.setdefault((dataset.name, dataset.version, text), []).append(host)
    if not groups:
        return f"no data on these hosts; {push} DIR puts some there\n"
    width = max(len(name) for name, _, _ in groups)
    return "".join(
        f"{name:{width}}  {version or 'incomplete':16}  {text}  {fold(hosts)}\n"
        for (name, version, text), hosts in sorted(groups.items())
    )


def _describe_dataset(held: Held) -> str:
    words = [amount_text(held.files, held.bytes), *(["hub cache"] if held.hub else [])]
    words += [f"{held.old} older version{'s' * (held.old != 1)}"] if held.old else []
    words += [f"{held.parts} push{'es' * (held.parts != 1)} not finished"] if held.parts else []
    return ", ".join(words)


def show_listed(listed: DatasetList, push: str = "ipexctl data push") -> None:
    print_text(stdout_console(), listed_text(listed, push))
    print_lines(stdout_console(), not_shown(listed.recaps, len(listed.hosts)))


def listed_document(listed: DatasetList) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "hosts": [{"host": h, "data": [asdict(d) for d in held]} for h, held in listed.hosts],
        "not_asked": host_documents(listed.recaps),
        "exit_code": listed.exit_code,
    }


def show_going(listed: DatasetList) -> None:
    print_text(stderr_console(), f"to be removed:\n{listed_text(listed, paths=True)}")


def show_removed(removed: RemovedDatasets) -> None:
    if removed.declined:
        print(DECLINED)
    elif removed.done:
        print_lines(stdout_console(), host_lines(removed.recaps))
    else:
        going = listed_text(removed.going, paths=True)
        print_text(stdout_console(), f"would be removed:\n{going}")


def removed_document(removed: RemovedDatasets) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "name": removed.name,
        "done": removed.done,
        "declined": removed.declined,
        "plan": listed_document(removed.going)["hosts"],
        "hosts": host_documents(removed.recaps),
        "exit_code": removed.exit_code,
    }


# --- data pull -----------------------------------------------------------------------------------


def plan_text(plan: PullPlan) -> str:
    amount = f"{format_bytes(plan.lacking)} to fetch" if plan.lacking else "nothing to fetch"
    return (
        f"{plan.source}: {amount_text(plan.files, plan.bytes)}; {amount} (in {plan.folder})\n"
        f"to {fold(plan.hosts)} as {plan.name}\n"
    )


def confirm_pull(*, yes: bool) -> Callable[[PullPlan], bool]:
    """Return a function that shows the plan and asks; with `yes` it does not ask."""

    @without_live_lines()
    def answer(plan: PullPlan) -> bool:
        print_text(stderr_console(), plan_text(plan))
        return yes or confirm("Fetch this? [Y/n] ", sys.stdin)

    return answer


def show_pulled(pulled: Pulled, run: str) -> None:
    """Print the outcome. `run`: with the options that name the hosts."""
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
