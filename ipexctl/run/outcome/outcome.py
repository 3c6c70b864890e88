"""How a run ended, as values; and as the documents that `--json` and the run's folder hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ipexctl.errors import EXIT_OK
from ipexctl.explain.causes import causes
from ipexctl.explain.causes.causes import Cause
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome.rank_exchange import Exchange
from ipexctl.run.outcome.run_state import RankEnd, without_colour, without_rank_prefix
from ipexctl.run.output.slow_rank import Slow
from ipexctl.run.pace.slow_steps import SlowSteps
from ipexctl.run.plan.launch import LaunchPlan

SCHEMA = 1
EXIT_LOST = 121
EXIT_MPIRUN = 122
EXIT_HOST_FAILED = 123
EXIT_TIMEOUT = 124
EXIT_NOT_TOGETHER = 125
EXIT_NOT_KNOWN = 126
FILE_MISSING = "file-missing"  # the cause in causes.toml that says: not on this host
_MISSING = (FILE_MISSING, "checkpoint-missing")
GPU_CHECK = (
    "gpu-check"  # the cause in causes.toml that says: the script did nothing, for want of GPUs
)
LAST_WORDS = 3  # lines of a rank, in which a script says why it ends itself
PEER_GONE = "peer-gone"  # the cause in causes.toml that says: another rank ended before


@dataclass(frozen=True)
class Load:
    """What a host was busy with. None: the host did not say."""

    cpu: float | None = None  # share of its CPUs, 0 to 1
    used: int | None = None  # bytes of memory
    total: int | None = None  # memory, or its control group's limit
    net: float | None = None  # bytes per second, of its busiest network interface


@dataclass(frozen=True)
class HostEnd:
    """What a host reported when the run was over. `survivors` None: it was unreachable."""

    host: str
    survivors: int | None
    logs: str
    load: Load = Load()  # the mean of its CPUs, the peak of its memory


@dataclass(frozen=True)
class Kept:
    """The run's folder here."""

    folder: str = ""
    trouble: tuple[str, ...] = ()  # what is not in it, and why
    outputs: tuple[str, ...] = ()  # what was fetched, in words


@dataclass(frozen=True)
class LeftOut:
    """A file that a rank did not find, as it was not sent."""

    path: str
    why: str
    fix: str


@dataclass(frozen=True)
class RunResult:
    run_id: str
    exit_code: int
    ended_by: str  # ranks rank-failed rank-frozen host-lost host-failed controller-lost interrupted
    # timeout mpirun not-together not-known unknown
    seconds: float
    plan: LaunchPlan
    hosts: tuple[HostEnd, ...]
    first: RankEnd | None = None
    tail: tuple[str, ...] = ()
    same: tuple[RankEnd, ...] = ()  # failed like the first one, by themselves
    victims: tuple[RankEnd, ...] = ()  # failed after it, most likely because of it
    cause: str = ""
    hidden: int = 0  # harmless warnings and frames of C++ that were not shown
    aborted: tuple[int, ...] = ()  # ranks that torch-ccl aborted after their work was complete
    ends: tuple[RankEnd, ...] = ()
    kept: Kept = Kept()
    exchange: Exchange | None = None  # None: one rank
    again: str = ""  # the command that starts it again
    left_out: LeftOut | None = None
    gpu_check: str = ""  # the line with which the script ended itself, for want of GPUs
    slow: Slow | None = None  # ranks that the others waited for, most of the time
    steps: SlowSteps | None = None  # what the last ones waited for
    lost_host: str = ""  # the cause, as the hub lost it, or as no host reaches the hub's

    @property
    def lost(self) -> frozenset[str]:
        """The host that ended the run by being lost, if it has not answered since."""
        gone = {h.host for h in self.hosts if h.survivors is None}
        return frozenset({self.lost_host} & gone)

    @property
    def last_words(self) -> tuple[str, ...]:
        """Of the rank that failed first: from Python's traceback on, where there is one."""
        tail = tuple(without_rank_prefix(text) for text in self.tail)
        return tail[traceback_start(tail) :]

    def spelled(self, spell: Callable[[str], str]) -> RunResult:
        """`spell`: a command of ours with the user's options, by its name."""
        return replace(self, steps=self.steps.spelled(spell)) if self.steps else self

    def reachable(self, host: str) -> bool:
        """Whether the host was reachable at the end of the run."""
        return any(h.host == host and h.logs for h in self.hosts)


@dataclass(frozen=True)
class Left:
    """The run continues without this command. `why` is empty if the user asked for that."""

    run_id: str
    why: str = ""

    @property
    def exit_code(self) -> int:
        return EXIT_LOST if self.why else EXIT_OK


@dataclass(frozen=True)
class Tally:
    """The current state of a run, for status lines."""

    ranks: int
    alive: int
    done: int
    failed: int
    seconds: float
    loads: tuple[tuple[str, Load], ...] = ()
    codes: tuple[tuple[int, int], ...] = ()  # of ranks that have ended
    slow: Slow | None = None  # ranks that the others wait for
    busy: tuple[float, ...] = ()  # of each host: the share of their CPUs that its ranks use


# --- who failed first, and who like it ------------------------------------------------------------


def first_cause(
    first: RankEnd | None,
    ends: Iterable[RankEnd],
    tails: Mapping[int, Sequence[str]],
    known: tuple[Cause, ...],
    asked: Container[int] = (),
) -> RankEnd | None:
    """The first rank that failed; if it only tells that a peer was gone, the first that does not.

    The news of two hosts can overtake each other; a rank's own last words cannot. One that ended
    without a word is believed, but for the `asked`: those that ended only after we ended them.
    """
    failed = [e for e in ends if not e.ok]
    if first is None or not _only_tells_of_a_peer(tails.get(first.rank, ()), known):
        return first
    for end in failed:
        tail = tails.get(end.rank, ())
        killed = end.lost or end.signal is not None
        own_words = not killed and any(t.strip() for t in tail)
        if (own_words or end.rank not in asked) and not _only_tells_of_a_peer(tail, known):
            return end
    return first


def _only_tells_of_a_peer(tail: Sequence[str], known: tuple[Cause, ...]) -> bool:
    found = causes.match(map(without_rank_prefix, map(without_colour, tail)), known)
    return found is not None and found.cause.slug == PEER_GONE


def traceback_start(lines: Sequence[str]) -> int:
    """Where the last traceback begins, with those that led to it; 0 if there is none."""
    starts = [i for i, text in enumerate(lines) if text.startswith(_TRACEBACK)]
    while len(starts) > 1 and any(map(_LED_TO.match, lines[starts[-2] : starts[-1]])):
        starts.pop()
    return starts[-1] if starts else 0


_LED_TO = re.compile(r"During handling of the above|The above exception was the direct cause")


def same_endings(
    first: RankEnd, ends: Iterable[RankEnd], tails: Mapping[int, Sequence[str]]
) -> tuple[RankEnd, ...]:
    """The other ranks that ended in the same way, with the same last line."""
    said = _last_words(tails.get(first.rank, ()))
    return tuple(
        e
        for e in ends
        if e.rank != first.rank
        and not e.ok
        and (e.code, e.signal) == (first.code, first.signal)
        and said
        and _last_words(tails.get(e.rank, ())) == said
    )


def _last_words(tail: Sequence[str]) -> str:
    """The last line with something in it; numbers apart, as ranks and addresses differ."""
    last = next((t for t in reversed(tail) if t.strip()), "")
    return re.sub(r"0x[0-9a-f]+|\d+", "#", without_colour(last)).strip()


def known_cause(result: RunResult, table: causes.Known) -> Cause | None:
    """The known failure that matches the first failed rank's last lines, or the cause."""
    if result.gpu_check:
        return next(cause for cause in table() if cause.slug == GPU_CHECK)
    if result.ended_by == "timeout":  # what ranks say after Ctrl-C is no cause
        found = causes.match([result.cause], table())
        return found.cause if found else None
    if result.exit_code == 0 or result.ended_by == "interrupted":
        return None
    known = table()
    stuck = result.exchange.stuck if result.exchange else ""
    if stuck and (found := causes.match([stuck], known)):  # ranks only say that others are missing
        return found.cause
    known = tuple(cause for cause in known if not cause.harmless)
    lines = [*map(without_rank_prefix, map(without_colour, result.tail)), result.cause]
    start = traceback_start(lines)
    earlier = (text for text in lines[:start] if "warn" not in text.lower())
    found = causes.match(lines[start:], known) or causes.match(earlier, known)
    if (left := result.left_out) and (found is None or found.cause.slug in _MISSING):
        missing = next(cause for cause in known if cause.slug == FILE_MISSING)
        why = f"{left.path} is not sent to the hosts: {left.why}"
        return replace(missing, why=why, fix=left.fix)
    if found is None:
        return None
    if found.cause.slug == PEER_GONE and not result.victims and any(e.ok for e in result.ends):
        return replace(found.cause, why=_PEER_DONE[0], fix=_PEER_DONE[1])
    return _with_its_host(_with_its_port(found.cause, found.line), result)


_TRACEBACK = "Traceback (most recent call last)"  # what came before it, the script has survived
_PEER_DONE = (
    "Another rank had already ended with code 0: the ranks took different numbers of steps, or "
    "one of them left out a collective call, such as a barrier that only rank 0 reaches.",
    "DistributedSampler(..., drop_last=True) or Accelerate's prepare() for equal shares; with "
    "DistributedDataParallel: `with model.join():` around the loop",
)


_PORT = re.compile(r"(?:\bport: |\]:)(\d{1,5})\b")  # torch's: [::]:29500, port: 29500


def _with_its_port(cause: Cause, line: str) -> Cause:
    """The table's fixes name torchrun's port; the line may name another."""
    port = _PORT.search(line)
    return replace(cause, fix=cause.fix.replace(":29500", f":{port[1]}")) if port else cause


_HOST = re.compile(r"\bon that host\b|\bHOST\b")


def _with_its_host(cause: Cause, result: RunResult) -> Cause:
    """The table's fixes name no host; the run knows which one failed."""
    host = result.first.host if result.first else result.lost_host
    if not host:
        return cause
    fix = _HOST.sub(lambda found: f"on {host}" if "that" in found[0] else host, cause.fix)
    return replace(cause, fix=fix)


def own_gpu_check(tails: Mapping[int, Sequence[str]], table: causes.Known) -> str:
    """The last words of a rank that ended itself with code 0, as it found too few GPUs."""
    for _, tail in sorted(tails.items()):
        said = [without_rank_prefix(without_colour(t)) for t in tail if t.strip()][-LAST_WORDS:]
        if not any(word in line.lower() for line in said for word in ("gpu", "cuda")):
            continue
        checks = tuple(cause for cause in table() if cause.slug == GPU_CHECK)
        if found := causes.match(said, checks):
            return found.line.strip()
    return ""


def slowest(ends: Iterable[RankEnd]) -> tuple[RankEnd, RankEnd] | None:
    """The ranks that took longest and shortest, each measured by its own host's clock; None if
    they differ by nothing that matters: all begin and end with the first and the last step."""
    timed = sorted((e.usage.seconds, e.rank, e) for e in ends if e.usage)
    if len(timed) < 2 or timed[-1][0] - timed[0][0] < max(2.0, 0.1 * timed[-1][0]):
        return None
    return timed[-1][2], timed[0][2]


# --- documents -----------------------------------------------------------------------------------


def plan_document(run_id: str, plan: LaunchPlan) -> dict[str, Any]:
    hosts = [{"name": h.host, "nic": h.nic, "ranks": [r.rank for r in h.ranks]} for h in plan.hosts]
    return {
        "schema_version": SCHEMA,
        "event": "plan",
        "run_id": run_id,
        "world_size": plan.world_size,
        "master": plan.master,
        "environment": plan.environment.document() if plan.environment else None,
        "hosts": hosts,
    }


def kept_plan(run_id: str, plan: LaunchPlan) -> dict[str, Any]:
    """For the run's folder. Of what ranks have in their environment only the names are kept."""
    hosts = [
        {
            "name": h.host,
            "nic": h.nic,
            "prefix": h.prefix,
            "env": sorted({key for key, _ in (*h.env, *h.rank_env)}),
            "ranks": [
                {"rank": p.rank, "local_rank": p.local_rank, "cpus": list(p.cpus)} for p in h.ranks
            ],
        }
        for h in plan.hosts
    ]
    return {
        **plan_document(run_id, plan),
        "hosts": hosts,
        "argv": list(plan.argv),
        "mpirun": list(plan.mpirun),
        "machinefile": plan.machinefile,
        "notes": list(plan.notes),
        "secret": list(plan.secret),
    }


def result_document(result: RunResult, table: causes.Known) -> dict[str, Any]:
    first, cause = result.first, known_cause(result, table)
    return {
        "schema_version": SCHEMA,
        "event": "result",
        "run_id": result.run_id,
        "exit_code": result.exit_code,
        "ended_by": result.ended_by,
        "cause": result.cause,
        "known": {"slug": cause.slug, "title": cause.title, "fix": cause.fix} if cause else None,
        "hidden": result.hidden,
        "seconds": round(result.seconds, 3),
        "first": _rank(first) if first else None,
        "tail": [without_colour(t) for t in result.tail],
        "same": [_rank(e) for e in result.same],
        "victims": [_rank(e) for e in result.victims],
        "aborted_at_exit": list(result.aborted),
        "ranks": [_used(e) for e in sorted(result.ends, key=lambda e: e.rank)],
        "hosts": [
            {
                "name": h.host,
                "survivors": h.survivors,
                "logs": h.logs,
                "cpu": None if h.load.cpu is None else round(h.load.cpu, 3),
                "memory_peak": h.load.used,
                "memory": h.load.total,
            }
            for h in result.hosts
        ],
        "exchange": _exchange(result.exchange) if result.exchange else None,
        "steps": result.steps.document() if result.steps else None,
        "again": result.again or None,
        "folder": result.kept.folder or None,
        "not_kept": list(result.kept.trouble),
        "outputs": list(result.kept.outputs),
    }


def _exchange(found: Exchange) -> dict[str, Any]:
    return {
        "verdict": found.verdict.value,
        "bytes": found.bytes,
        "groups": [list(group) for group in found.groups],
        "shared_memory": found.shared,
        "printed_steps": found.steps,
        "alarm": found.alarming,
        "reason": found.reason or None,
    }


def _rank(end: RankEnd) -> dict[str, Any]:
    return {"rank": end.rank, "host": end.host, "code": end.exit_code}


def _used(end: RankEnd) -> dict[str, Any]:
    use = end.usage
    return {
        **_rank(end),
        "seconds": round(use.seconds, 3) if use else None,
        "cpu_seconds": round(use.cpu, 3) if use else None,
        "memory_peak": use.memory if use else None,
    }
