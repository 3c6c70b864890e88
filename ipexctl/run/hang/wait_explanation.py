"""Explain what a rank waits for in itself: which thread or process has to end its wait, and what
that one does instead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from ipexctl.common.rank_looks import RankLook, ThreadLook
from ipexctl.run.hang.rank_evidence import (
    Activity,
    busy_worker,
    child_text,
    child_waited_for,
    thread_text,
    where_text,
)

if TYPE_CHECKING:
    from ipexctl.run.hang.cause_kinds import CauseKind

# what a rank, a thread or a child does, and which cause that is; `str`: the master's address
Classify = Callable[[RankLook, str], "tuple[CauseKind, Activity]"]
LINKS, NAMED = 4, 2  # links of a chain; threads named if it is not known which one it is
MOST_THREADS = 16  # in a look
_DUTIES = {"lock": "holds it", "semaphore": "holds it", "future": "computes it"}
_MISSING = {
    "lock": "could release it",
    "semaphore": "could release it",
    "event": "could set it",
    "condition": "could notify it",
    "barrier": "could arrive",
}
_FORKED = (
    "Likely: a thread of its parent held that lock at the fork, so it is never released in the "
    "child: fork before threads start, or use the start method spawn."
)
_PENDING = "No thread has begun to compute it."
_DEADLOCK = "They wait for each other: take the locks in the same order everywhere."


def explain_rank_wait(look: RankLook, classify: Classify) -> str:
    """Explain a rank that waits for its own threads or children; "" if nothing is known."""
    wait = look.wait
    if wait.tasks:
        counts = Counter(where_text(frame) for frame in wait.tasks)
        places = (f"{place} ({n} tasks)" if n > 1 else place for place, n in counts.items())
        return f"Its tasks wait at {', '.join(places)}."
    if wait.by:
        return _thread_cause(look, classify)
    if wait.what == "pool" and (worker := busy_worker(look)):
        return explain_child(look, worker, classify)
    if wait.what in (*_MISSING, "queue", "future", "pool"):
        return _other_threads_cause(look, classify)
    child = child_waited_for(look) if wait.what in ("", "process") else None
    return explain_child(look, child, classify)


def of_thread(look: RankLook, thread: ThreadLook) -> RankLook:
    """Return the look of the same process as if that were its main thread."""
    return look.replace(
        threads=(thread.replace(main=True),),
        source=thread.source,
        state=thread.state,
        wchan=thread.wchan,
        syscall=thread.syscall,
        blocked_on=thread.blocked_on,
        waits_in_loop=False,
        cpu=None,
        main_cpu=None,
        collectives=None,
    )


def _thread_cause(look: RankLook, classify: Classify) -> str:
    """Follow the chain of threads that wait for each other, and describe each link."""
    lines, thread = list[str](), _main_thread(look)
    visited = list[str]()
    while thread is not None and len(lines) < LINKS:
        visited.append(thread.id)
        wait = thread.waits
        other = next((t for t in look.threads if wait.by and t.id == wait.by), None)
        if other is None:
            ended = wait.by and wait.what == "lock" and len(look.threads) < MOST_THREADS
            lines += ["The thread that took it has ended without releasing it."] * bool(ended)
            break
        who, duty = _capitalize(thread_text(other)), _DUTIES.get(wait.what, "has not ended")
        since = f", taken at {where_text(wait.at)}" if wait.at else ""
        if other is thread:
            lines.append(f"{who} holds it itself{since}: use an RLock, or take it once.")
        elif other.id in visited:
            lines.append(f"{who} {duty}{since}. {_DEADLOCK if wait.what == 'lock' else ''}".strip())
        else:
            lines.append(f"{who} {duty}{since}, and is {_thread_doing(look, other, classify)}.")
        thread = None if other.id in visited else other
        if other.waits.what == "future" and not other.waits.by and other.waits.state == "PENDING":
            lines.append(_PENDING)
    return " ".join(lines)


def _main_thread(look: RankLook) -> ThreadLook | None:
    return next((thread for thread in look.threads if thread.main), None)


def _thread_doing(look: RankLook, thread: ThreadLook, classify: Classify) -> str:
    _, activity = classify(of_thread(look, thread), "")
    return _place_and_action(activity) if thread.state else f"at {activity.where}"


def _place_and_action(activity: Activity) -> str:
    action = activity.action or f"waiting for other ranks in {activity.op or 'a collective'}"
    return f"at {activity.where}, {action}" if activity.where else action


def _other_threads_cause(look: RankLook, classify: Classify) -> str:
    """Describe the other threads, if it is not known which one the wait depends on."""
    wait = look.wait
    if wait.what == "future" and wait.state == "FINISHED":
        return ""
    head = f"{_PENDING} " if wait.what == "future" and not look.children else ""
    others = [thread for thread in look.threads if not thread.main and thread.source]
    named = [
        f"{_capitalize(thread_text(t))} is {_thread_doing(look, t, classify)}."
        for t in others[:NAMED]
    ]
    more = f" {len(others) - NAMED} more threads run." if len(others) > NAMED else ""
    if named:
        return head + " ".join(named) + more
    if wait.what == "pool":
        return ""
    if look.children or wait.what not in (*_MISSING, "queue"):
        return head + explain_child(look, busy_worker(look) or child_waited_for(look), classify)
    could = _MISSING.get(wait.what, "could put into it")
    if wait.state == "full":
        could = "could take from it"
    return f"This rank has no other Python thread that {could}."


def explain_child(look: RankLook, child: RankLook | None, classify: Classify) -> str:
    """Follow the chain of child processes that are waited for, and describe each."""
    lines = list[str]()
    while len(lines) < LINKS and child is not None:
        kind, activity = classify(child, "")
        doing = "has ended" if kind.name == "left-early" else f"is {_place_and_action(activity)}"
        lines.append(f"{_capitalize(child_text(child))} {doing}.")
        if kind.name == "stopped":
            lines.append(f"Continue it: kill -CONT {child.pid} on {look.host}")
        if kind.name == "lock" and child.forked and len(child.threads) == 1:
            lines.append(_FORKED)
        look = child.replace(children=tuple(c for c in look.children if c is not child))
        child = child_waited_for(look)
    return " ".join(lines)


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]
