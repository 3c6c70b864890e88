"""What `install` shows: the choice, a line per host while it works, and a recap like Ansible's."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ipexctl.base.host_outcome import HostState
from ipexctl.base.sizes import format_bytes, transfer_minutes
from ipexctl.common.install_answers import EnvState
from ipexctl.install.command.install_forecast import (
    describe_sending,
    forecast_document,
    show_forecast,
)
from ipexctl.install.install_plan import InstallReport, Plan
from ipexctl.inventory.hostfile_text import fold
from ipexctl.stack import mpi
from ipexctl.stack.version_table import END_OF_LIFE
from ipexctl.terminal.confirm import DECLINED
from ipexctl.terminal.console import print_lines, print_text, stdout_console
from ipexctl.terminal.recap_lines import folded_lines, host_documents, host_lines

if TYPE_CHECKING:
    from ipexctl.install.rollback import Back
    from ipexctl.install.use_env import UseEnvReport


def chosen_text(plan: Plan) -> str:
    """Return the first line: what will be installed on the hosts, and the reason."""
    stack, lock = plan.found.stack, plan.lock
    n = len(plan.hosts)
    title = f"{stack.title}, {stack.row.backend}, {mpi.describe_locked(lock.mpi, lock.version)}"
    python = f"{lock.cpython.version} (carried there)" if lock.cpython else lock.python
    where = f"Python {python} on {n} host{'s' * (n != 1)} ({fold(plan.hosts)})"
    lines = [f"{title}, {where}, because: {stack.reason}"]
    lines += [END_OF_LIFE] if stack.row.ipex else []
    lines += [f"not tested: {'; '.join(stack.row.doubts)}"] if stack.row.doubts else []
    lines += _cuda_lines(plan) if lock.cuda else []
    lines += [f"warning: {note}" for note in plan.found.notes]
    origin = "new ipexctl.lock" if plan.new_lock else "ipexctl.lock"
    lines.append(f"environment {lock.key} ({origin}), torch {lock.version('torch')}")
    return "\n  ".join(lines)


def _cuda_lines(plan: Plan) -> list[str]:
    """Return what a CUDA build costs, even if the user has agreed to it already."""
    lock, n, why = plan.lock, len(plan.hosts), plan.found.no_cpu_build
    fetch = f"{format_bytes(plan.to_fetch)} to fetch ({transfer_minutes(plan.to_fetch)}), "
    size = f"{format_bytes(lock.size)} for {'each of ' * (n != 1)}{n} host{'s' * (n != 1)}"
    line = f"torch {lock.version('torch')} is a CUDA build: {fetch * bool(plan.to_fetch)}{size}"
    return [line, *([why] if why else [])]


def cost_line(report: InstallReport) -> str:
    if report.check and report.plan:
        plan = report.plan
        fetch = f"would fetch {format_bytes(plan.to_fetch)}, send {describe_sending(plan)}"
        return f"{fetch}. Nothing was changed, {report.seconds:.1f} s"
    return (
        f"{format_bytes(report.fetched)} from indexes, {format_bytes(report.sent)} to hosts, "
        + f"{format_bytes(report.passed)} from host to host, " * bool(report.passed)
        + f"{report.seconds:.1f} s"
        + ", nothing was changed" * report.check
    )


def install_document(report: InstallReport) -> dict[str, Any]:
    """Return the document that --json prints."""
    plan, resolved = report.plan, report.plan.found if report.plan else None
    return {
        "schema_version": 1,
        "check": report.check,
        "environment": resolved.lock.key if resolved else None,
        "row": resolved.stack.row.name if resolved else None,
        "torch": resolved.lock.version("torch") if resolved else None,
        "ipex": (resolved.stack.row.ipex or None) if resolved else None,
        "oneccl": (resolved.stack.row.oneccl or None) if resolved else None,
        "backend": resolved.stack.row.backend if resolved else None,
        "ended": bool(resolved and resolved.stack.row.ipex),
        "cuda": bool(resolved and resolved.lock.cuda),
        "python": resolved.lock.python if resolved else None,
        "reason": resolved.stack.reason if resolved else None,
        "warnings": list(resolved.notes) if resolved else [],
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
    print_text(stdout_console(), package_difference(plan))
    sys.stdout.flush()


def package_difference(plan: Plan) -> str:
    """Return the text of --diff: packages that change; hosts with the same changes together."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for part in plan.todo:
        n = len(part.changes)
        head = f"{n or 'no'} package{'s' * (n != 1)} to change, {_compared_with(part.state)}"
        groups.setdefault((head, *map(str, part.changes)), []).append(part.host.name)
    text = ""
    for (head, *lines), hosts in groups.items():
        text += f"{fold(hosts)}: {head}\n" + "".join(f"  {line}\n" for line in lines)
    return text


def _compared_with(state: EnvState) -> str:
    if state.own:
        return f"compared with {state.before}, which this project uses"
    if not state.before:
        return "no environment yet"
    return f"compared with {state.before}, the current one: this project has none there"


def show_install(report: InstallReport) -> None:
    console = stdout_console()
    if report.declined:
        print_text(console, DECLINED)
        return
    if report.check and report.plan and report.plan.todo:
        show_forecast(report.plan, stdout_console())
    print_lines(console, host_lines(report.recaps))
    print_text(console, cost_line(report))
    if report.without_downs:
        print_text(console, f"try: {report.without_downs}")
    if report.run:
        print_text(console, f"next: {report.run}")


# --- install --rollback --------------------------------------------------------------------------


def show_back(back: Back) -> None:
    print_lines(stdout_console(), folded_lines(back.recaps))
    if back.key and not back.check and any(r.state is not HostState.FAILED for r in back.recaps):
        print(
            "`ipexctl run` uses it here until the next `ipexctl install`; ipexctl.lock is unchanged"
        )


def back_document(back: Back) -> dict[str, Any]:
    return {
        "check": back.check,
        "environment": back.key or None,
        "hosts": host_documents(back.recaps),
        "exit_code": back.exit_code,
    }


# --- install --use-env ---------------------------------------------------------------------------


def show_used_env(report: UseEnvReport) -> None:
    print_lines(stdout_console(), host_lines(report.recaps))
    if any(recap.state.value in ("ok", "changed") for recap in report.recaps) and not report.check:
        words = "`ipexctl run` uses it there; `ipexctl install` goes back to ipexctl.lock"
        print_text(stdout_console(), words)


def used_env_document(report: UseEnvReport) -> dict[str, Any]:
    """Return the document that --json prints."""
    look = report.looks[0] if report.looks else None
    return {
        "schema_version": 1,
        "check": report.check,
        "environment": report.key,
        "path": report.path,
        "python": ".".join(map(str, look.minor)) if look else None,
        "torch": look.torch if look else None,
        "hosts": host_documents(report.recaps),
        "seconds": round(report.seconds, 3),
        "exit_code": report.exit_code,
    }


def install_question(plan: Plan) -> str:
    return "Install the CUDA build? [y/N] " if plan.found.no_cpu_build else "Install? [Y/n] "
