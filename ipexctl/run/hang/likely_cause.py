"""Explain the likely cause of what holds up a rank, and what to do: which thread or process has to
end its wait, and what that one does instead."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from ipexctl.run.hang.evidence import RankLook, Thread
from ipexctl.run.hang.hang_report import CauseKind
from ipexctl.run.hang.rank_activity import (
    NEW_GROUP,
    SUBPROCESS,
    Activity,
    busy_worker,
    child_text,
    child_waited_for,
    classify_activity,
    slowest_worker,
    thread_text,
    where_text,
)

_REMOTE = re.compile(r"nfs|cifs|smb|lustre|gpfs|beegfs|ceph|gluster|fuse|9p|orangefs|afs")
EVERY = "every rank"
HOST = (CauseKind.BLOCKED_IO, CauseKind.STOPPED)  # their sentences name the host
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
_LOST_TASK = (
    "A worker that dies takes its task with it (dmesg says whether memory ran out); "
    "concurrent.futures.ProcessPoolExecutor raises an error instead."
)
_OUTSIDE = {
    "stdin": "A run has no input: remove input() or breakpoint() from the script.",
    SUBPROCESS: "Likely: the command that it started hangs.",
    "connection": "Likely: the program that should connect does not.",
    "socket": "Likely: a server outside the run does not answer; set a timeout.",
    "file lock": "Likely: another process holds the lock file.",
}
FIXED = {
    CauseKind.LEFT_EARLY: "Its log says why it ended.",
    CauseKind.STOPPED: "Continue it with kill -CONT, or detach the debugger.",
    CauseKind.MISMATCH: "All ranks must call the same collectives in the same order: look for a "
    "branch that depends on the rank or its data.",
    CauseKind.RENDEZVOUS: "Check that MASTER_ADDR is reachable from every host.",
    CauseKind.WORKER: "Likely: a data loader worker hangs.",
    CauseKind.OUTSIDE: "Likely: it waits for something outside the run.",
    CauseKind.LOCK: "Likely: the thread or process that it waits for is stuck, or has ended.",
    CauseKind.SPINNING: "Likely: the condition of this loop never becomes true on this rank.",
    CauseKind.SLEEPING: "It sleeps while the others wait: remove the sleep, or let all ranks wait.",
    CauseKind.COMPUTING: "It may be slow, not stuck: does it do work that the others do not?",
    CauseKind.COLLECTIVE: "Likely: the network between hosts; run ipexctl doctor.",
    CauseKind.UNKNOWN: "The evidence does not tell why.",
}


def advise_on_suspect(kind: CauseKind, does: Activity, look: RankLook, detail: str) -> str:
    """Return what to do. `detail`: the host, EVERY, or "" if no other rank waits."""
    if does.thing == SUBPROCESS:
        return explain_rank_wait(look) or _OUTSIDE[SUBPROCESS]
    if kind is CauseKind.LOCK and (said := explain_rank_wait(look)):
        return said
    if kind is CauseKind.LOCK and does.action.endswith("is full"):
        return "Likely: nothing takes items out of it."
    if does.action.startswith(("waiting inside", "sleeping inside")):
        return f"{does.action.partition(' inside ')[2]} has not returned."
    in_pipe = look.blocked_on is not None and look.blocked_on.what == "pipe"
    if kind is CauseKind.BLOCKED_IO and in_pipe and (said := explain_rank_wait(look)):
        return said
    if kind is CauseKind.BLOCKED_IO or (kind is CauseKind.OUTSIDE and look.state == "D"):
        return f"Likely: {_disk_cause(look, detail)}"
    if kind is CauseKind.STOPPED and look.state == "t":
        return "Detach the debugger or tracer (gdb, strace, py-spy)."
    if kind is CauseKind.STOPPED and look.pid:
        return f"Continue it: kill -CONT {look.pid} on {look.host}"
    if "for data loader worker" in does.action:
        return _child_cause(look, slowest_worker(look))
    if kind is CauseKind.WORKER and "by signal 9" in does.action:
        return "Likely: the worker was killed for lack of memory: check dmesg."
    if kind is CauseKind.WORKER and "data loader worker" not in does.action:
        return _LOST_TASK
    if does.action == NEW_GROUP:
        return "Every rank must call it, also those that are not in the group."
    if does.action.startswith("waiting for the file lock"):
        return _OUTSIDE["file lock"]
    if kind is CauseKind.OUTSIDE and does.thing:
        return _OUTSIDE.get(does.thing, f"Likely: {does.thing} does not answer.")
    if kind is CauseKind.COMPUTING and detail == EVERY:
        return "Nothing hangs: every rank computes. Raise --stall if steps take this long."
    if kind in (CauseKind.SLEEPING, CauseKind.SPINNING) and (
        detail in ("", EVERY) or "loop" in does.action
    ):
        return "Likely: what it waits for here never happens."
    return FIXED[kind]


def _disk_cause(look: RankLook, host: str) -> str:
    on = look.blocked_on
    if on and on.what == "pipe":
        return "the process at the other end of the pipe does not write or read."
    fs = on.fs if on else ""
    folder = "/" + on.path.split("/")[1] if on and on.path.count("/") > 1 else ""
    at = ", ".join(filter(None, (folder, fs)))
    whose = "its file server" if _REMOTE.search(fs) else "its disk"
    if host == EVERY:
        whose, host = whose.replace("its", "the"), ""
    if not at and host:
        return f"a disk of {host} does not answer."
    about = ": ".join(filter(None, (host, at)))
    return f"{whose} does not answer" + (f" ({about})." if about else ".")


def explain_rank_wait(look: RankLook) -> str:
    """Explain a rank that waits for its own threads or children; "" if nothing is known."""
    wait = look.wait
    if wait.tasks:
        counted = Counter(where_text(frame) for frame in wait.tasks)
        places = (f"{at} ({n} tasks)" if n > 1 else at for at, n in counted.items())
        return f"Its tasks wait at {', '.join(places)}."
    if wait.by:
        return _thread_cause(look)
    if wait.what == "pool" and (worker := busy_worker(look)):
        return _child_cause(look, worker)
    if wait.what in (*_MISSING, "queue", "future", "pool"):
        return _other_threads_cause(look)
    return "" if wait.what not in ("", "process") else _child_cause(look, child_waited_for(look))


def of_thread(look: RankLook, thread: Thread) -> RankLook:
    """Return the look of the same process as if that were its main thread."""
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


def _thread_cause(look: RankLook) -> str:
    said, thread = list[str](), _main_thread(look)
    seen = list[str]()
    while thread is not None and len(said) < LINKS:
        seen.append(thread.id)
        wait = thread.wait
        other = next((t for t in look.threads if wait.by and t.id == wait.by), None)
        if other is None:
            ended = wait.by and wait.what == "lock" and len(look.threads) < MOST_THREADS
            said += ["The thread that took it has ended without releasing it."] * bool(ended)
            break
        who, duty = _capitalize(thread_text(other)), _DUTIES.get(wait.what, "has not ended")
        since = f", taken at {where_text(wait.at)}" if wait.at else ""
        if other is thread:
            said.append(f"{who} holds it itself{since}: use an RLock, or take it once.")
        elif other.id in seen:
            said.append(f"{who} {duty}{since}. {_DEADLOCK if wait.what == 'lock' else ''}".strip())
        else:
            said.append(f"{who} {duty}{since}, and is {_thread_doing(look, other)}.")
        thread = None if other.id in seen else other
        if other.wait.what == "future" and not other.wait.by and other.wait.state == "PENDING":
            said.append(_PENDING)
    return " ".join(said)


def _main_thread(look: RankLook) -> Thread | None:
    return next((thread for thread in look.threads if thread.main), None)


def _thread_doing(look: RankLook, thread: Thread) -> str:
    does = classify_activity(of_thread(look, thread), "")
    return _place_and_action(does) if thread.state else f"at {does.where}"


def _place_and_action(does: Activity) -> str:
    action = does.action or f"waiting for other ranks in {does.op or 'a collective'}"
    return f"at {does.where}, {action}" if does.where else action


def _other_threads_cause(look: RankLook) -> str:
    """Describe the other threads, if it is not known which one the wait depends on."""
    wait = look.wait
    if wait.what == "future" and wait.state == "FINISHED":
        return ""
    head = f"{_PENDING} " if wait.what == "future" and not look.children else ""
    others = [thread for thread in look.threads if not thread.main and thread.source]
    named = [f"{_capitalize(thread_text(t))} is {_thread_doing(look, t)}." for t in others[:NAMED]]
    more = f" {len(others) - NAMED} more threads run." if len(others) > NAMED else ""
    if named:
        return head + " ".join(named) + more
    if wait.what == "pool":
        return ""
    if look.children or wait.what not in (*_MISSING, "queue"):
        return head + _child_cause(look, busy_worker(look) or child_waited_for(look))
    could = _MISSING.get(wait.what, "could put into it")
    if wait.state == "full":
        could = "could take from it"
    return f"This rank has no other Python thread that {could}."


def _child_cause(look: RankLook, child: RankLook | None) -> str:
    said = list[str]()
    while len(said) < LINKS and child is not None:
        does = classify_activity(child, "")
        does_what = (
            "has ended" if does.kind is CauseKind.LEFT_EARLY else f"is {_place_and_action(does)}"
        )
        said.append(f"{_capitalize(child_text(child))} {does_what}.")
        if does.kind is CauseKind.STOPPED:
            said.append(f"Continue it: kill -CONT {child.pid} on {look.host}")
        if does.kind is CauseKind.LOCK and child.forked and len(child.threads) == 1:
            said.append(_FORKED)
        look = replace(child, children=tuple(c for c in look.children if c is not child))
        child = child_waited_for(look)
    return " ".join(said)


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]
