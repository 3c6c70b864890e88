"""Which thread or process is to end the wait of a rank, and what that one does instead."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ipexctl.run.hang.evidence import RankLook, Thread
from ipexctl.run.hang.hang_report import Kind
from ipexctl.run.hang.rank_activity import (
    Activity,
    activity,
    busy_worker,
    child_text,
    child_waited_for,
    slowest_worker,
    thread_text,
    where_text,
)

LINKS, NAMED = 4, 2  # of a chain; threads that are named where it is not known which one it is
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


def explain(look: RankLook) -> str:
    """Sentences about a rank that waits for its own threads or children; "" if none is known."""
    wait = look.wait
    if wait.tasks:
        counted = Counter(where_text(frame) for frame in wait.tasks)
        places = (f"{at} ({n} tasks)" if n > 1 else at for at, n in counted.items())
        return f"Its tasks wait at {', '.join(places)}."
    if wait.by:
        return _threads(look)
    if wait.what == "pool" and (worker := busy_worker(look)):
        return _children(look, worker)
    if wait.what in (*_MISSING, "queue", "future", "pool"):
        return _others(look)
    return "" if wait.what not in ("", "process") else _children(look, child_waited_for(look))


def of_thread(look: RankLook, thread: Thread) -> RankLook:
    """The same process, seen as if that were its main thread."""
    return replace(
        look,
        threads=(replace(thread, main=True),),
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


def _threads(look: RankLook) -> str:
    said, thread = list[str](), _main(look)
    seen = list[str]()
    while thread is not None and len(said) < LINKS:
        seen.append(thread.id)
        wait = thread.wait
        other = next((t for t in look.threads if wait.by and t.id == wait.by), None)
        if other is None:
            ended = wait.by and wait.what == "lock" and len(look.threads) < MOST_THREADS
            said += ["The thread that took it has ended without releasing it."] * bool(ended)
            break
        who, duty = _capital(thread_text(other)), _DUTIES.get(wait.what, "has not ended")
        since = f", taken at {where_text(wait.at)}" if wait.at else ""
        if other is thread:
            said.append(f"{who} holds it itself{since}: use an RLock, or take it once.")
        elif other.id in seen:
            said.append(f"{who} {duty}{since}. {_DEADLOCK if wait.what == 'lock' else ''}".strip())
        else:
            said.append(f"{who} {duty}{since}, and is {_doing(look, other)}.")
        thread = None if other.id in seen else other
        if other.wait.what == "future" and not other.wait.by and other.wait.state == "PENDING":
            said.append(_PENDING)
    return " ".join(said)


def _main(look: RankLook) -> Thread | None:
    return next((thread for thread in look.threads if thread.main), None)


def _doing(look: RankLook, thread: Thread) -> str:
    does = activity(of_thread(look, thread), "")
    return _at(does) if thread.state else f"at {does.where}"


def _at(does: Activity) -> str:
    action = does.action or f"waiting for other ranks in {does.op or 'a collective'}"
    return f"at {does.where}, {action}" if does.where else action


def _others(look: RankLook) -> str:
    """Where it is not known which thread it is."""
    wait = look.wait
    if wait.what == "future" and wait.state == "FINISHED":
        return ""
    head = f"{_PENDING} " if wait.what == "future" and not look.children else ""
    others = [thread for thread in look.threads if not thread.main and thread.source]
    named = [f"{_capital(thread_text(t))} is {_doing(look, t)}." for t in others[:NAMED]]
    more = f" {len(others) - NAMED} more threads run." if len(others) > NAMED else ""
    if named:
        return head + " ".join(named) + more
    if wait.what == "pool":
        return ""
    if look.children or wait.what not in (*_MISSING, "queue"):
        return head + _children(look, busy_worker(look) or child_waited_for(look))
    could = _MISSING.get(wait.what, "could put into it")
    if wait.state == "full":
        could = "could take from it"
    return f"This rank has no other Python thread that {could}."


def explain_worker(look: RankLook) -> str:
    """About the data loader's worker that a rank waits for."""
    return _children(look, slowest_worker(look))


def _children(look: RankLook, child: RankLook | None) -> str:
    said = list[str]()
    while len(said) < LINKS and child is not None:
        does = activity(child, "")
        does_what = "has ended" if does.kind is Kind.LEFT_EARLY else f"is {_at(does)}"
        said.append(f"{_capital(child_text(child))} {does_what}.")
        if does.kind is Kind.STOPPED:
            said.append(f"Continue it: kill -CONT {child.pid} on {look.host}")
        if does.kind is Kind.LOCK and child.forked and len(child.threads) == 1:
            said.append(_FORKED)
        look = replace(child, children=tuple(c for c in look.children if c is not child))
        child = child_waited_for(look)
    return " ".join(said)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
