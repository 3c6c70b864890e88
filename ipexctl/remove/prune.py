"""prune: remove what can be sent or made again, down to the limits of the settings."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ipexctl.base.host_outcome import HostResult, HostState, PerHost
from ipexctl.base.sizes import format_bytes
from ipexctl.common.removal_answers import HostPruned
from ipexctl.errors import IpexctlError
from ipexctl.inventory.inventory import Host
from ipexctl.local.project_lock import this_person
from ipexctl.local.settings import load_settings
from ipexctl.local.user_dirs import cache_dir
from ipexctl.machines.agent import LONG
from ipexctl.machines.fleet import Fleet, fan_out
from ipexctl.machines.target import ROOT, Target
from ipexctl.quick_dataclass import dataclass
from ipexctl.remove.prune_limits import (
    MB,
    WORDS,
    Amount,
    PruneLimits,
    add_amounts,
    describe_amounts,
    read_limits,
)
from ipexctl.terminal.progress import DONE, HostProgress, ProgressStep

OP = "remove.prune_rules.prune"
LARGE = 100 * MB  # bytes; smaller copies that are sent again anyway are removed silently
IN_USE = 3600  # seconds: an install may be about to send a younger cached file
SILENCE, TOTAL = 10.0, 30.0  # seconds after a run, while its user waits


@dataclass(frozen=True)
class PrunedHost:
    host: str
    amounts: tuple[Amount, ...]


@dataclass(frozen=True)
class Pruned(PerHost):
    hosts: tuple[PrunedHost, ...]
    here: tuple[Amount, ...]
    recaps: tuple[HostResult, ...]
    done: bool = True
    check: bool = False

    @property
    def declined(self) -> bool:
        return not self.done and not self.check


def prune(
    target: Target,
    agreed: Callable[[Pruned], bool],
    progress: HostProgress,
    root: str = ROOT,
    *,
    runs: int | None = None,
    check: bool = False,
) -> Pruned:
    """Prune. `runs`: how many to keep, however new, instead of the settings. `agreed` sees the plan
    first."""
    limits = read_limits(load_settings())
    limits = limits if runs is None else replace(limits, runs=runs, days=0)
    by = this_person()
    with Fleet(target, root) as fleet:

        def one(host: Host, *, check: bool) -> PrunedHost:
            if host not in fleet.agents:
                progress.step(ProgressStep(host.name, "connecting"))
                fleet.connect(host)
            progress.step(
                ProgressStep(host.name, "looking for files to remove" if check else "removing")
            )
            body = {"limits": limits.for_host(by), "check": check}
            pruned = fleet.call(host, OP, total=LONG, **body).read(HostPruned)
            progress.step(ProgressStep(host.name, DONE))
            return PrunedHost(host.name, _amounts_of(pruned))

        planned = fleet.map_hosts(progress.track(lambda host: one(host, check=True)))
        cached = prune_cache(limits.cache_mb * MB, check=True)
        plan = Pruned(tuple(planned.values()), cached, fleet.recaps(), done=False, check=check)
        if check:
            recaps = {h: _prune_recap(result, "would be removed") for h, result in planned.items()}
            return replace(plan, recaps=fleet.recaps(recaps))
        if (cached or any(result.amounts for result in planned.values())) and not agreed(plan):
            return replace(plan, recaps=())
        pruned = fleet.map_hosts(progress.track(lambda host: one(host, check=False)))
        cached = prune_cache(limits.cache_mb * MB, check=False)
        recaps = {h: _prune_recap(result, "removed") for h, result in pruned.items()}
        return Pruned(tuple(pruned.values()), cached, fleet.recaps(recaps))


def after_run(
    fleet: Fleet,
    hosts: Sequence[Host],
    limits: PruneLimits,
    first: Callable[[Host], None] = lambda host: None,
    others: Sequence[Host] = (),
) -> str:
    """Apply the limits on hosts whose agents are connected. Returns one line, "" if nothing removed
    is large or would be missed. `first` is called before, also for the `others`."""
    by = this_person()

    def one(host: Host) -> tuple[Amount, ...]:
        first(host)
        if host not in hosts:
            return ()
        body = {"root": fleet.root_of(host), "limits": limits.for_host(by), "check": False}
        answer = fleet.agents[host].call(OP, body, timeout=SILENCE, total=TOTAL).done
        return _amounts_of(answer.read(HostPruned))

    outcomes = fan_out([*hosts, *others], one, forks=fleet.target.forks)
    per_host = [amounts for amounts in outcomes.values() if isinstance(amounts, tuple)]
    with suppress(IpexctlError, OSError, RuntimeError):
        per_host.append(prune_cache(limits.cache_mb * MB, check=False))
    amounts = add_amounts(per_host)
    size = sum(amount.bytes for amount in amounts)
    worth_a_line = size >= LARGE or any(amount.kind == "runs" for amount in amounts)
    return f"pruned {format_bytes(size)}: {describe_amounts(amounts)}" if worth_a_line else ""


def prune_cache(limit: int, *, check: bool) -> tuple[Amount, ...]:
    """Remove the least recently used cached files, so that at most `limit` bytes are left. Returns
    what is, or with `check` would be, removed."""
    files: list[tuple[float, int, Path]] = []
    for path in (cache_dir() / "blobs").glob("*/**/*"):
        with suppress(OSError):
            info = path.lstat()
            if path.is_file() and not path.is_symlink():
                files.append((max(info.st_mtime, info.st_atime), info.st_size, path))
    total = count = size = 0
    for used_at, length, path in sorted(files, reverse=True):
        total += length
        if total > limit and used_at < time.time() - IN_USE:
            count, size = count + 1, size + length
            if not check:
                with suppress(OSError):
                    path.unlink()
    return (Amount("cache", count, size),) if count else ()


def _amounts_of(pruned: HostPruned) -> tuple[Amount, ...]:
    runs = tuple(pruned.runs)
    return tuple(
        Amount(row.kind, row.count, row.bytes, runs if row.kind == "runs" else ())
        for row in pruned.found
        if row.kind in WORDS
    )


def _prune_recap(pruned: PrunedHost, verb: str) -> HostResult:
    if not pruned.amounts:
        return HostResult(pruned.host, HostState.OK, "nothing to remove")
    return HostResult(pruned.host, HostState.CHANGED, f"{describe_amounts(pruned.amounts)} {verb}")
