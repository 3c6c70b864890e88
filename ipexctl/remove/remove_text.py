"""What `remove --all` and `prune` show."""

from __future__ import annotations

from typing import Any

from ipexctl.base.sizes import format_bytes
from ipexctl.errors import printable_text
from ipexctl.local.own_files import OwnFiles
from ipexctl.remove.prune import Pruned
from ipexctl.remove.prune_limits import Amount, describe_amounts
from ipexctl.remove.remove import RemovalPlan, RemovedHost, RemoveReport
from ipexctl.terminal.confirm import DECLINED
from ipexctl.terminal.console import print_lines, print_text, stderr_console, stdout_console
from ipexctl.terminal.recap_lines import host_documents, host_lines, hosts_with_lines


def plan_text(found: RemovalPlan) -> str:
    text = hosts_with_lines((one.host, _host_lines(one)) for one in found.hosts)
    for recap in found.recaps:
        detail = printable_text(recap.detail).removeprefix(f"{recap.host}: ")
        text += f"{recap.host}: nothing, because it was not reached: {detail}\n"
    return text + "".join(f"this machine: {_here_line(one)}\n" for one in found.here)


def _host_lines(one: RemovedHost) -> tuple[str, ...]:
    if not one.there or not one.made:
        return ("nothing",)
    if one.busy:
        return (f"kept: {one.root}", *(f"  {printable_text(text)}" for text in one.busy))
    parts = ", ".join(f"{name} {format_bytes(size)}" for name, size in one.parts)
    lines = [f"{format_bytes(one.bytes)} in {one.root}" + f" ({parts})" * bool(parts)]
    kept = ", ".join(map(printable_text, one.stays))
    return (*lines, *([f"  kept, not made by ipexctl: {kept}"] if kept else []))


def _here_line(one: OwnFiles) -> str:
    places = ", ".join(map(str, one.paths[:4])) + ", ..." * (len(one.paths) > 4)
    named = "" if one.goes else f"; asked about separately, or --also {one.kind}"
    return f"{one.kind}: {format_bytes(one.bytes)}, {one.what}{named} ({places})"


def show_plan(found: RemovalPlan) -> None:
    print_text(stderr_console(), f"to be removed:\n{plan_text(found)}")


def show_removed(removed: RemoveReport) -> None:
    if removed.check:
        print_text(stdout_console(), f"to be removed:\n{plan_text(removed.found)}")
    elif not removed.done:
        print(DECLINED)
        return
    print_lines(stdout_console(), host_lines(removed.recaps))
    for one in removed.here:
        print(f"this machine: {one.kind}: {format_bytes(one.bytes)} removed")
    left = [one.kind for one in removed.found.here if one not in removed.here]
    if left and not removed.check:
        print(f"this machine: kept: {', '.join(left)}")


def removed_document(removed: RemoveReport) -> dict[str, Any]:
    gone = {one.kind for one in removed.here}
    return {
        "schema_version": 1,
        "check": removed.check,
        "done": removed.done,
        "found": [
            {
                "host": one.host,
                "root": one.root,
                "bytes": one.bytes,
                "parts": dict(one.parts),
                "in_use": list(one.busy),
                "kept": list(one.stays),
                "caches_kept": dict(one.caches),
            }
            for one in removed.found.hosts
        ],
        "here": [
            {
                "kind": one.kind,
                "bytes": one.bytes,
                "paths": [str(path) for path in one.paths],
                "removed": one.kind in gone,
            }
            for one in removed.found.here
        ],
        "hosts": host_documents(removed.recaps),
        "exit_code": removed.exit_code,
    }


# --- prune ---------------------------------------------------------------------------------------


def prune_text(plan: Pruned) -> str:
    text = hosts_with_lines(
        (one.host, [describe_amounts(one.amounts) or "nothing"]) for one in plan.hosts
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
        what = "would be removed" if pruned.check else "removed"
        print(f"this machine: {describe_amounts(pruned.here)} {what}")


def pruned_document(pruned: Pruned) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "check": pruned.check,
        "done": pruned.done,
        "found": [
            {"host": one.host, "amounts": _amounts_document(one.amounts)} for one in pruned.hosts
        ],
        "here": _amounts_document(pruned.here),
        "hosts": host_documents(pruned.recaps),
        "exit_code": pruned.exit_code,
    }


def _amounts_document(amounts: tuple[Amount, ...]) -> list[dict[str, Any]]:
    return [{"kind": a.kind, "count": a.count, "bytes": a.bytes} for a in amounts]
