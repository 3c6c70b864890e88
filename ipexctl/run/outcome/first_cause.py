"""Find which rank failed first, and why: the others fail because it has gone."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace

from ipexctl.base import quoting
from ipexctl.base.located_errors import ask_if_meant
from ipexctl.base.sizes import rank_text
from ipexctl.explain.causes import causes
from ipexctl.explain.causes.causes import Cause
from ipexctl.project.files.missing_file import (
    DISTRIBUTIONS,
    find_meant_module,
    missing_module,
)
from ipexctl.run.outcome.rank_states import RankEnd
from ipexctl.run.outcome.run_result import (
    RunResult,
    exception_in,
    from_traceback,
    traceback_start,
)
from ipexctl.run.output.rank_lines import without_colour, without_noise, without_rank_prefix

FILE_MISSING = "file-missing"  # a cause in causes.toml: a file is not on this host
_MODULE_MISSING = "module-missing"
_MISSING = (FILE_MISSING, "checkpoint-missing", _MODULE_MISSING)
GPU_CHECK = "gpu-check"  # a cause in causes.toml: the script did nothing, as it found no GPUs
LAST_WORDS = 3  # last lines of a rank, in which a script says why it ends itself
SIGABRT = 6
ABORTS = ("", "aborted", "ccl-abort-at-exit")  # causes that name no reason
PEER_GONE = "peer-gone"  # a cause in causes.toml: another rank ended before


# --- which rank failed first, and which failed in the same way ------------------------------------


def first_cause(
    first: RankEnd | None,
    ends: Iterable[RankEnd],
    tails: Mapping[int, Sequence[str]],
    known: tuple[Cause, ...],
    stopped: Container[int] = (),
) -> RankEnd | None:
    """Return the first rank that failed; if it only reports a lost peer, the first that does not.

    Reports of two hosts can arrive in any order; a rank's own last lines cannot. A rank that ended
    silently counts, except the `stopped`: those that were told to end before. An abort without a
    known reason counts if no other rank has an exception of its own.
    """
    failed = [e for e in ends if not e.ok]
    if first is None:
        return None
    reason = _known_failure_slug(tails.get(first.rank, ()), known)
    if reason == PEER_GONE:
        for end in failed:
            tail = tails.get(end.rank, ())
            killed = end.lost or end.signal is not None
            own_words = not killed and any(line.strip() for line in tail)
            slug = _known_failure_slug(tail, known)
            if slug != PEER_GONE and (own_words or end.rank not in stopped):
                return end
    elif first.signal == SIGABRT and reason in ABORTS:
        for end in failed:
            tail = tails.get(end.rank, ())
            if exception_in(bare_lines(tail)) and _known_failure_slug(tail, known) != PEER_GONE:
                return end
    return first


def _known_failure_slug(tail: Iterable[str], known: tuple[Cause, ...]) -> str:
    """Return the slug of the known failure; "" if there is none."""
    match = causes.find_likeliest_cause(from_traceback(bare_lines(tail)), known)
    return match.cause.slug if match else ""


def bare_lines(tail: Iterable[str]) -> list[str]:
    """Return lines of a rank as it wrote them, without colours, and without those that are hidden
    when they come: a warning that healthy runs print is no evidence."""
    return without_noise([without_rank_prefix(without_colour(text)) for text in tail])


def describe_lost_worker(lines: Sequence[str]) -> str:
    """Say how a DataLoader worker ended, according to its rank's traceback; "" if none did."""
    last = "\n".join(from_traceback(lines))
    if match := _WORKER.search(last):
        return f"was killed (signal: {match[1]})" if match[1] else "exited unexpectedly"
    return "was killed or crashed" if _WORKER_GONE.search(last) else ""


_WORKER = re.compile(
    r"DataLoader worker \(pid.{1,60}?\) (?:is killed by signal: ([\w ]+)|exited unexpectedly)"
)
_WORKER_GONE = re.compile(  # it passed a tensor on
    r'multiprocessing/resource_sharer\.py", line \d{1,6}, in (?:detach|get_connection)'
)


def same_endings(
    first: RankEnd, ends: Iterable[RankEnd], tails: Mapping[int, Sequence[str]]
) -> tuple[RankEnd, ...]:
    """Return the other ranks that ended in the same way, with the same last line."""
    last_words = _last_words(tails.get(first.rank, ()))
    return tuple(
        e
        for e in ends
        if e.rank != first.rank
        and not e.ok
        and (e.code, e.signal) == (first.code, first.signal)
        and last_words
        and _last_words(tails.get(e.rank, ())) == last_words
    )


def _last_words(tail: Sequence[str]) -> str:
    """Return the last line with text, without numbers, as ranks and addresses differ."""
    last = next((line for line in reversed(tail) if line.strip()), "")
    return re.sub(r"0x[0-9a-f]+|\d+", "#", without_colour(last)).strip()


def known_cause(result: RunResult, table: causes.Known) -> Cause | None:
    """Return the known failure that matches the first failed rank's last lines, or the cause."""
    if result.gpu_check:
        return next(cause for cause in table() if cause.slug == GPU_CHECK)
    if result.ended_by == "timeout":  # what ranks print after Ctrl-C is not the cause
        match = causes.find_likeliest_cause([result.cause], table())
        return match.cause if match else None
    if result.exit_code == 0 or result.ended_by == "interrupted":
        return None
    known = table()
    stuck = result.exchange.stuck if result.exchange else ""
    match = causes.find_likeliest_cause([stuck], known) if stuck else None
    if match:  # the other ranks only report that some are missing
        return match.cause
    at_exit = result.first is not None and result.first.at_exit  # it then explains Python's crash
    excluded = ABORTS if at_exit else ()
    known = tuple(cause for cause in known if not cause.harmless and cause.slug not in excluded)
    lines = bare_lines(result.tail)
    start = traceback_start(lines)
    earlier = (text for text in lines[:start] if "warn" not in text.lower())
    match = causes.find_likeliest_cause([*from_traceback(lines), result.cause], known)
    match = match or causes.find_likeliest_cause(earlier, known)
    if (left_out := result.left_out) and (match is None or match.cause.slug in _MISSING):
        slug = _MODULE_MISSING if match and match.cause.slug == _MODULE_MISSING else FILE_MISSING
        missing = next(cause for cause in known if cause.slug == slug)
        why = f"{left_out.path} is not sent to the hosts: {left_out.why}"
        return replace(missing, why=why, fix=left_out.fix)
    if match is None:
        return None
    if match.cause.slug == PEER_GONE and not result.victims and any(e.ok for e in result.ends):
        done = rank_text(end.rank for end in result.ends if end.ok)
        return replace(match.cause, why=f"{done} {_PEER_DONE[0]}", fix=_PEER_DONE[1])
    cause = _with_its_package(_with_its_port(match.cause, match.line), match.line)
    return _with_its_host(cause, result)


def _with_its_package(cause: Cause, line: str) -> Cause:
    """Put the package of the missing module into the fix, which says PACKAGE."""
    module = missing_module([line]).partition("/")[0]
    if cause.slug != _MODULE_MISSING or not module:
        return cause
    if meant := find_meant_module(module):
        return replace(cause, fix=f"correct the name in the import{ask_if_meant(meant)}")
    package = quoting.quote((DISTRIBUTIONS.get(module, module),))
    return replace(cause, fix=cause.fix.replace("PACKAGE", package, 1))


_PEER_DONE = (
    "had ended with code 0 while the others still waited: the ranks took different numbers of "
    "steps, or one of them left out a collective call, such as a barrier that only rank 0 reaches.",
    "DistributedSampler(..., drop_last=True) or Accelerate's prepare() for equal shares; with "
    "DistributedDataParallel: `with model.join():` around the loop",
)


_PORT = re.compile(r"(?:\bport: |\]:)(\d{1,5})\b")  # torch's: [::]:29500, port: 29500


def _with_its_port(cause: Cause, line: str) -> Cause:
    """Replace the default port 29500 in the fix by the port in the matched line."""
    port = _PORT.search(line)
    return replace(cause, fix=cause.fix.replace(":29500", f":{port[1]}")) if port else cause


_HOST = re.compile(r"\bon that host\b|\bHOST\b")


def _with_its_host(cause: Cause, result: RunResult) -> Cause:
    """Put the name of the failed host into the fix, which says `on that host` or HOST."""
    host = result.first.host if result.first else result.lost_host
    if not host:
        return cause
    fix = _HOST.sub(lambda match: f"on {host}" if "that" in match[0] else host, cause.fix)
    return replace(cause, fix=fix)


def own_gpu_check(tails: Mapping[int, Sequence[str]], table: causes.Known) -> str:
    """Return the last line of a rank that ended itself with code 0, as it found too few GPUs."""
    for _, tail in sorted(tails.items()):
        last_lines = bare_lines(text for text in tail if text.strip())[-LAST_WORDS:]
        if not any(word in line.lower() for line in last_lines for word in ("gpu", "cuda")):
            continue
        checks = tuple(cause for cause in table() if cause.slug == GPU_CHECK)
        if match := causes.find_likeliest_cause(last_lines, checks):
            return match.line.strip()
    return ""
