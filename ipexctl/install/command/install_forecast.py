"""The cost of an install: shown before the question and by --check, and included in --json."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from ipexctl.base.blob import Blob
from ipexctl.base.sizes import format_bytes
from ipexctl.blobs.blob_relay import LEAST
from ipexctl.install.install_plan import HostInstall, Plan
from ipexctl.inventory.hostfile_text import fold
from ipexctl.terminal.console import print_lines

NAMES = 40  # characters of the hosts' names
LABEL = 10
LABELLED = 3  # lines that begin with a label
UNPACKED = 3  # unpacked files take about this many times the size of the wheels
GROUPS = 5  # of equal hosts; 24 lines have room for this many beside the choice


def show_forecast(plan: Plan, console: Console) -> None:
    lines = forecast_text(plan).splitlines()
    print_lines(console, map(Text, lines[:LABELLED]), " " * LABEL)
    print_lines(console, map(Text, lines[LABELLED:]))


def forecast_text(plan: Plan) -> str:
    """Return the text; equal hosts are one entry."""
    labelled = {
        "packages": _packages_text(plan),
        "fetch": _fetch_text(plan),
        "send": describe_sending(plan),
    }
    lines = [f"{label:{LABEL}}{text}" for label, text in labelled.items()]
    groups: dict[tuple[str, ...], list[HostInstall]] = {}
    for part in plan.parts:
        groups.setdefault(_entry_key(plan, part), []).append(part)
    shown = list(groups.items())[:GROUPS]
    for (today, *then), parts in shown:
        lines.append(f"{_short_host_names(parts)}: {today}")
        lines += [f"  {line}" for line in (*then, *_disk_lines(plan, parts))]
    if rest := len(groups) - len(shown):
        lines.append(f"… and {rest} more groups of hosts: --check --json")
    out: dict[str, list[str]] = {}
    for down in plan.left_out:
        out.setdefault(down.brief, []).append(down.host)
    for reason, hosts in list(out.items())[:GROUPS]:
        lines.append(f"{fold(hosts)}: left out: {reason}")
    return "\n".join(lines)


def _short_host_names(parts: Sequence[HostInstall]) -> str:
    return textwrap.shorten(fold([part.host.name for part in parts]), NAMES, placeholder="…")


def _packages_text(plan: Plan) -> str:
    requested = plan.requested_packages
    added = len(plan.lock.packages) - len(requested)
    text = f"{len(requested)} requested ({', '.join(requested)})"
    return f"{text}, {added} {'dependency' if added == 1 else 'dependencies'}" if added else text


def _fetch_text(plan: Plan) -> str:
    if plan.bundled:
        return "nothing: everything is in the bundle"
    if not plan.lacking:
        return "nothing: this machine has every file"
    return f"{_bytes_text(plan.lacking)} to this machine"


def describe_sending(plan: Plan) -> str:
    """Return how much each host gets, and from where."""
    hosts = [part for part in plan.todo if part.lacking]
    if not hosts:
        return "nothing: the hosts have every file"
    n = len(hosts)
    largest = max(hosts, key=lambda part: part.to_send)
    equal = len({part.to_send for part in hosts}) == 1
    text = _bytes_text(largest.lacking)
    if n > 1:
        text = f"{text} to each of {n} hosts" if equal else f"up to {text} to each of {n} hosts"
        if plan.relay and largest.to_send >= LEAST:
            text += "; from here once, then from host to host"
    return text


def _bytes_text(blobs: Iterable[Blob]) -> str:
    sizes, unknown = [b.size for b in blobs if b.size], sum(not b.size for b in blobs)
    if not unknown:
        return format_bytes(sum(sizes))
    files = f"{unknown} file{'s' * (unknown != 1)} of unknown size"
    return f"{format_bytes(sum(sizes))} and {files}" if sizes else files


def _entry_key(plan: Plan, part: HostInstall) -> tuple[str, ...]:
    """Return what the host has, and what happens to it: equal for hosts in one entry."""
    key, state = plan.lock.key, part.state
    place = f"{state.root}/envs/{key}"
    if part.complete:
        return (f"has {key} already: nothing to do",)
    current = f"has {current_env_text(part) or 'no environment'}"
    if not part.needs_build:
        return current, f"switches to {place}, which is already built there"
    words = "to be rebuilt" if state.built else "to be built"
    changes = ": it was changed by hand" * bool(state.changed)
    send = f", {_bytes_text(part.lacking)} to send" if part.lacking else ", nothing to send"
    return current, f"{words}{changes}{send}, in {place}"


def current_env_text(part: HostInstall) -> str:
    """Return its current environment, "" for none."""
    state = part.state
    torch = dict(state.packages).get("torch")
    return f"{state.current} (torch {torch})" if state.current and torch else state.current


def _disk_lines(plan: Plan, parts: Sequence[HostInstall]) -> Iterator[str]:
    if not parts[0].needs_build:
        return
    needed = disk_needed(plan, parts[0])
    known = [part.free for part in parts if part.free is not None]
    free = (
        f"{'at least ' * (len(known) > 1)}{format_bytes(min(known))} free"
        if known
        else "free: unknown"
    )
    short = ": may be too little" * bool(known and needed > min(known))
    yield f"disk: about {format_bytes(needed)} needed (estimated), {free}{short}"


def disk_needed(plan: Plan, part: HostInstall) -> int:
    """Estimate bytes from the size of the files. Environments share wheels, so it may be less."""
    return part.to_send + UNPACKED * plan.lock.size


def forecast_document(plan: Plan) -> dict[str, Any]:
    """Return the data for --json. Bytes are of files whose size is known; null: unknown."""
    requested = plan.requested_packages
    return {
        "packages_asked": list(requested),
        "packages_added": len(plan.lock.packages) - len(requested),
        "bytes_to_fetch": plan.to_fetch,
        "files_to_fetch_of_unknown_size": sum(not blob.size for blob in plan.lacking),
        "bytes_to_send": plan.to_send,
        "hosts": [_host_document(plan, part) for part in plan.parts],
    }


def _host_document(plan: Plan, part: HostInstall) -> dict[str, Any]:
    return {
        "host": part.host.name,
        "folder": f"{part.state.root}/envs/{plan.lock.key}",
        "today": part.state.current or None,
        "compared_with": part.state.before or None,
        "changes": [{"package": c.package, "was": c.was, "now": c.now} for c in part.changes],
        "complete": part.complete,
        "builds": part.needs_build,
        "bytes_to_send": part.to_send,
        "files_to_send_of_unknown_size": sum(not blob.size for blob in part.lacking),
        "disk_bytes_needed": disk_needed(plan, part) if part.needs_build else None,
        "disk_bytes_free": part.free,
    }
