"""What `remove --all` and `prune` show."""

from __future__ import annotations

from typing import Any

from ipexctl.base.sizes import format_bytes
from ipexctl.errors import printable_text
from ipexctl.local.own_files import OwnFiles
from ipexctl.remove.prune import Pruned
from ipexctl.remove.prune_limits import Amount, describe_amounts
from ipexctl.remove.remove import RemovalPlan, RemovedHost, RemoveReport, work_text
from ipexctl.terminal.confirm import DECLINED
from ipexctl.terminal.console import print_lines, print_text, stderr_console, stdout_console
from ipexctl.terminal.recap_lines import (
    folded_lines,
    host_documents,
    host_lines,
    hosts_with_lines,
)


def plan_text(plan: RemovalPlan) -> str:
    text = hosts_with_lines((item.host, _host_lines(item)) for item in plan.hosts)
    for recap in plan.recaps:
        detail = printable_text(recap.detail).removeprefix(f"{recap.host}: ")
        text += f"{recap.host}: nothing, because it was not reached: {detail}\n"
    return text + "".join(f"this machine: {_here_line(item)}\n" for item in plan.here)


def _host_lines(state: RemovedHost) -> tuple[str, ...]:
    found = state.survey
    if not found.there or not found.made:
        return ("nothing",)
    if found.busy:
        return (f"kept: {found.root}", *(f"  {printable_text(text)}" for text in found.busy))
    parts = ", ".join(f"{name} {format_bytes(size)}" for name, size in found.parts)
    lines = [f"{format_bytes(found.bytes)} in {found.root}" + f" ({parts})" * bool(parts)]
    lines += [f"  also of {printable_text(work_text(owner))}" for owner in state.others]
    kept = ", ".join(map(printable_text, found.stays))
    return (*lines, *([f"  kept, not made by ipexctl: {kept}"] if kept else []))


def _here_line(files: OwnFiles) -> str:
    places = ", ".join(map(str, files.paths[:4])) + ", ..." * (len(files.paths) > 4)
    note = "" if files.is_removed else f"; asked about separately, or --also {files.kind}"
    return f"{files.kind}: {format_bytes(files.bytes)}, {files.what}{note} ({places})"


def show_plan(plan: RemovalPlan) -> None:
    print_text(stderr_console(), f"to be removed:\n{plan_text(plan)}")


def show_removed(removed: RemoveReport) -> None:
    if removed.check:
        print_text(stdout_console(), f"to be removed:\n{plan_text(removed.found)}")
    elif not removed.done:
        print(DECLINED)
        return
    print_lines(stdout_console(), folded_lines(removed.recaps))
    for files in removed.here:
        print(f"this machine: {files.kind}: {format_bytes(files.bytes)} removed")
    kept = [files.kind for files in removed.found.here if files not in removed.here]
    if kept and not removed.check:
        print(f"this machine: kept: {', '.join(kept)}")


def removed_document(removed: RemoveReport) -> dict[str, Any]:
    kinds = {item.kind for item in removed.here}
    return {
        "schema_version": 1,
        "check": removed.check,
        "done": removed.done,
        "found": [
            {
                "host": item.host,
                "root": item.survey.root,
                "bytes": item.survey.bytes,
                "parts": dict(item.survey.parts),
                "in_use": list(item.survey.busy),
                "kept": list(item.survey.stays),
                "caches_kept": dict(item.survey.caches),
                "of_others": [
                    {
                        "by": owner.by,
                        "runs": owner.runs,
                        "environments": owner.environments,
                        "projects": list(owner.projects),
                    }
                    for owner in item.others
                ],
            }
            for item in removed.found.hosts
        ],
        "here": [
            {
                "kind": item.kind,
                "bytes": item.bytes,
                "paths": [str(path) for path in item.paths],
                "removed": item.kind in kinds,
            }
            for item in removed.found.here
        ],
        "hosts": host_documents(removed.recaps),
        "exit_code": removed.exit_code,
    }


# --- prune ---------------------------------------------------------------------------------------


def prune_text(plan: Pruned) -> str:
    text = hosts_with_lines(
        (host.host, [describe_amounts(host.amounts) or "nothing"]) for host in plan.hosts
    )
    return text + (f"this machine: {describe_amounts(plan.here)}\n" if plan.here else "")


def show_prune_plan(plan: Pruned) -> None:
    print_text(stderr_console(), f"to be removed:\n{prune_text(plan)}")


def show_pruned(pruned: Pruned) -> None:
    if not pruned.done and not pruned.check:
        print(DECLINED)
        return
    print_lines(stdout_console(), host_lines(pruned.recaps))
    if pruned.here:
        ending = "would be removed" if pruned.check else "removed"
        print(f"this machine: {describe_amounts(pruned.here)} {ending}")


def pruned_document(pruned: Pruned) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "check": pruned.check,
        "done": pruned.done,
        "found": [
            {"host": host.host, "amounts": _amounts_document(host.amounts)} for host in pruned.hosts
        ],
        "here": _amounts_document(pruned.here),
        "hosts": host_documents(pruned.recaps),
        "exit_code": pruned.exit_code,
    }


def _amounts_document(amounts: tuple[Amount, ...]) -> list[dict[str, Any]]:
    return [
        {"kind": a.kind, "count": a.count, "bytes": a.bytes}
        | ({"runs": [run for run, _ in a.runs]} if a.runs else {})
        for a in amounts
    ]
