"""Recognize what one rank does. The causes of cause_kinds.py name these rules, with their places.

A rule returns what the rank does, or None if it does something else. Rules with lower places have
been tried before it.
"""

from __future__ import annotations

import re

from ipexctl.common.rank_looks import RankLook
from ipexctl.run.hang.rank_evidence import (
    BUSY,
    FUTEX,
    LOADER,
    LOCKS,
    POOL,
    Activity,
    RankEvidence,
    child_text,
    child_waited_for,
    dead_worker,
    has_task,
    how_ended_text,
    is_library,
    slowest_worker,
    thread_text,
    where_text,
)

WORKS = 0.1  # CPUs of a process that does more than wait, as in remote/run/rank_progress.py
NEVER_HAPPENS = "Likely: what it waits for here never happens."
_LOST_TASK = (
    "A worker that dies takes its task with it (dmesg says whether memory ran out); "
    "concurrent.futures.ProcessPoolExecutor raises an error instead."
)
_NO_MEMORY = "Likely: the worker was killed for lack of memory: check dmesg."
# System calls by their numbers on x86-64 and on aarch64.
_WAIT_CHILD, _FLOCK = {61, 247, 95, 260}, {73, 32}
_READ, _WRITE = {0, 63}, {1, 20, 64, 66, 18, 68}
_RENDEZVOUS_PATHS = re.compile(r"torch/distributed/(?:rendezvous|elastic/rendezvous/\w+)\.py$")
_RENDEZVOUS = {"init_process_group", "new_group", "_store_based_barrier", "connectFullMesh"}
_RENDEZVOUS |= {"_new_process_group_helper", "init_device_mesh", "init_deepspeed_comm"}
_STORE = re.compile(r"store\w*(?:\(\))?\.(?:get|wait)\((?P<keys>.*)", re.I)
_KEY = re.compile(
    r"\s*[\[(]?\s*(?:key\w*\s*=\s*\[?)?[bB]?(?P<quote>['\"])(?P<key>[^'\"]+)(?P=quote)"
)
_SOCKETS = re.compile(r"/(?:socket|ssl)\.py$|/http/client\.py$|/(?:urllib3|requests|httpx)/")
_DEBUGGERS = re.compile(r"/(?:pdb|bdb|cmd)\.py$|/(?:IPython|debugpy|ipdb)/")
_PROGRAM = re.compile(r"/subprocess\.py$")
_QUEUES = "waiting for an item of a queue", "waiting for room in a queue that is full"
_WAITS = {
    "future": "the result of a future",
    "event": "an event",
    "condition": "a condition",
    "semaphore": "a semaphore",
    "pool": "results of a multiprocessing pool",
}
MOST_CHILDREN = 16  # in a look


# --- stopped, ended, joining, exchanging ---------------------------------------------------------


def is_stopped(rank: RankEvidence) -> Activity | None:
    look = rank.look
    if look.state == "t":
        advice = "Detach the debugger or tracer (gdb, strace, py-spy)."
        return rank.make_activity("stopped by a debugger", advice)
    resume = f"Continue it: kill -CONT {look.pid} on {look.host}" if look.pid else ""
    return rank.make_activity("stopped by a signal", resume) if look.state == "T" else None


def has_ended(rank: RankEvidence) -> Activity | None:
    return rank.make_activity("ended") if rank.look.state in ("Z", "X") else None


def joins_run(rank: RankEvidence) -> Activity | None:
    """Recognize a rank in the rendezvous of torch.distributed, or in new_group."""
    if any(f.function == "new_group" for f in rank.inner):
        advice = "Every rank must call it, also those that are not in the group."
        return rank.make_activity("waiting for the other ranks in new_group", advice)
    look = rank.look
    peer = look.blocked_on.peer if look.blocked_on else ""
    if _is_in_rendezvous(rank) or (not rank.inner and bool(peer) and peer == rank.master):
        return rank.make_activity(f"joining the run at {rank.master or 'its master'}")
    return None


def _is_in_rendezvous(rank: RankEvidence) -> bool:
    return any(_RENDEZVOUS_PATHS.search(f.path) or f.function in _RENDEZVOUS for f in rank.inner)


def waits_for_key(rank: RankEvidence) -> Activity | None:
    """Recognize `store.get(KEY)` and `store.wait([KEY])` in the user's code: they end when a rank
    sets the key. That is after the rendezvous, also in the rank that serves the store."""
    source = rank.look.source
    call = _STORE.search(source.text) if source else None
    if call is None or rank.is_busy or "sleep(" in call["keys"] or _is_in_rendezvous(rank):
        return None
    match = _KEY.match(call["keys"])
    key = f"the key {match['key']!r}" if match else "a key"
    return rank.make_activity(f"waiting for {key} of the store", thing=key)


def exchanges_data(rank: RankEvidence) -> Activity | None:
    """Recognize a rank that waits for other ranks; if it is blamed, they are in another call."""
    op = rank.exchange()
    return None if op is None else Activity("", rank.where, True, op, rank.backward)


# --- computing ------------------------------------------------------------------------------------


def runs_program(rank: RankEvidence) -> Activity | None:
    if not rank.has_call_in(_PROGRAM) or (rank.look.cpu or 0) < WORKS:
        return None
    return rank.make_activity(f"running {child_text(child_waited_for(rank.look))}")


def lacks_cpu_time(rank: RankEvidence) -> Activity | None:
    look = rank.look
    idle = not rank.is_busy and not rank.imports and (look.cpu or 0) < WORKS
    if not rank.runs or not idle or look.waits_in_loop:
        return None
    return rank.make_activity("ready to run, with hardly any CPU time")


def spins_in_loop(rank: RankEvidence) -> Activity | None:
    if not rank.runs or not rank.look.waits_in_loop:
        return None
    return rank.make_activity(f"spinning{_source_line_text(rank.look)}")


def is_computing(rank: RankEvidence) -> Activity | None:
    if not rank.runs:
        return None
    inside = f" inside {rank.look.wait.call}" if rank.look.wait.call else ""
    return rank.make_activity("importing modules" if rank.imports else f"computing{inside}")


def computes_in_other_threads(rank: RankEvidence) -> Activity | None:
    busy = (rank.look.cpu or 0) >= BUSY
    return rank.make_activity("computing in other threads or processes") if busy else None


# --- workers --------------------------------------------------------------------------------------


def waits_for_computing_loader(rank: RankEvidence) -> Activity | None:
    slowest = slowest_worker(rank.look)
    if (
        not rank.has_call_in(LOADER)
        or slowest is None
        or slowest.state != "R"
        or dead_worker(rank.look)
    ):
        return None
    text = f"waiting for data loader worker {slowest.pid}, which computes"
    return rank.make_activity(text + _worker_state_text(slowest))


def waits_for_loader(rank: RankEvidence) -> Activity | None:
    if not rank.has_call_in(LOADER):
        return None
    if lost := dead_worker(rank.look):
        ending = how_ended_text(lost)
        advice = _NO_MEMORY if ending.endswith("by signal 9") else ""
        return rank.make_activity(f"waiting for a data loader worker that {ending}", advice)
    slowest = slowest_worker(rank.look)
    if slowest is None:
        return rank.make_activity("waiting for a data loader worker")
    text = f"waiting for data loader worker {slowest.pid}"
    return rank.make_activity(text + _worker_state_text(slowest))


def _worker_state_text(worker: RankLook) -> str:
    frame = next((f for f in worker.frames if not is_library(f)), None)
    state = f"state {worker.state}" if worker.state else ""
    inside = f"in {where_text(frame).replace(' in ', ' ')}" if frame else ""
    return f" ({' '.join(filter(None, (state, inside)))})" if state or inside else ""


def has_lost_worker(rank: RankEvidence) -> Activity | None:
    """Recognize a wait for a worker process of multiprocessing that has ended."""
    if not any("/multiprocessing/" in f.path for f in rank.inner):
        return None
    look = rank.look
    lost, alive = dead_worker(look), any(not child.exited for child in look.children)
    if lost and not (alive and lost.ended == "exit code 0"):
        pid, ending = f" (PID {lost.pid})" if lost.pid else "", how_ended_text(lost)
        advice = _NO_MEMORY if ending.endswith("by signal 9") else _LOST_TASK
        return rank.make_activity(f"{_lock_action(rank)}; a worker process{pid} {ending}", advice)
    workers = [child for child in look.children if any(POOL.search(f.path) for f in child.frames)]
    if not workers or not rank.has_call_in(POOL):
        return None
    feeds = any(thread.source for thread in look.threads if not thread.main)
    if feeds or len(look.children) >= MOST_CHILDREN or any(map(has_task, workers)):
        return None
    text = "waiting for a task that a pool's worker took; that worker has ended"
    return rank.make_activity(text, _LOST_TASK)


# --- files, and what is outside the run -----------------------------------------------------------


def waits_in_kernel(rank: RankEvidence) -> Activity | None:
    return _blocked_activity(rank) if rank.look.state == "D" else None


def waits_for_file(rank: RankEvidence) -> Activity | None:
    target = rank.look.blocked_on
    return _blocked_activity(rank) if target and target.what in ("file", "pipe") else None


def _blocked_activity(rank: RankEvidence) -> Activity:
    look, target = rank.look, rank.look.blocked_on
    if target and target.what == "pipe":
        pipe = f"the named pipe {target.path}" if target.path else "a pipe"
        advice = "Likely: the process at the other end of the pipe does not write or read."
        return rank.make_activity(f"waiting for the other end of {pipe}", advice, target.path)
    if target and target.path:
        verb = "writing" if rank.is_in_syscall(_WRITE) else "reading"
        return rank.make_activity(f"{verb} {target.path}", thing=target.path)
    return rank.make_activity("blocked in the kernel" + (f" ({look.wchan})" if look.wchan else ""))


def waits_for_input(rank: RankEvidence) -> Activity | None:
    """Recognize a wait for stdin, a terminal or a debugger."""
    look, target = rank.look, rank.look.blocked_on
    advice = "A run has no input: remove input() or breakpoint() from the script."
    if rank.has_call_in(_DEBUGGERS):
        return rank.make_activity("waiting in a debugger", advice, "stdin")
    reads_stdin = rank.is_in_syscall(_READ) and look.syscall[1:2] == (0,) and not look.name
    text = look.source.text if look.source else ""
    asks = re.search(r"\b(?:input|breakpoint|set_trace)\(", text)
    if asks or reads_stdin or (target and re.match(r"/dev/(?:pts/|tty)", target.path)):
        return rank.make_activity("waiting for input", advice, "stdin")
    return None


def waits_for_program(rank: RankEvidence) -> Activity | None:
    if not rank.has_call_in(_PROGRAM) and not rank.is_in_syscall(_WAIT_CHILD):
        return None
    advice = "Likely: the command that it started hangs."
    return rank.make_activity(
        f"waiting for {child_text(child_waited_for(rank.look))}", advice, "program"
    )


def waits_for_file_lock(rank: RankEvidence) -> Activity | None:
    look, target = rank.look, rank.look.blocked_on
    of_file = (target is None or target.what in ("file", "")) and "poll" not in look.wchan
    locks = (rank.is_in_syscall(_FLOCK) and of_file) or re.search(
        "flock|posix_lock|lock_inode", look.wchan
    )
    if not locks and not any("/filelock/" in frame.path for frame in rank.inner):
        return None
    path = target.path if target else ""
    advice = "Likely: another process holds the lock file."
    return rank.make_activity(
        f"waiting for the file lock {path}".strip(), advice, path or "file lock"
    )


def waits_for_peer(rank: RankEvidence) -> Activity | None:
    """Recognize a wait for data or a connection from outside the run."""
    look, target = rank.look, rank.look.blocked_on
    if rank.is_in_sleep_syscall or look.wait.what:
        return None
    if any(frame.function == "accept" and _SOCKETS.search(frame.path) for frame in rank.inner[:2]):
        advice = "Likely: the program that should connect does not."
        return rank.make_activity("waiting for a connection", advice, "connection")
    if target and target.peer and target.what in ("socket", "poll"):
        advice = f"Likely: {target.peer} does not answer."
        return rank.make_activity(f"waiting for data from {target.peer}", advice, target.peer)
    advice = "Likely: a server outside the run does not answer; set a timeout."
    sockets = rank.has_call_in(_SOCKETS)
    return (
        rank.make_activity("waiting for data from a socket", advice, "socket") if sockets else None
    )


# --- sleeping, locks, unknown ---------------------------------------------------------------------


def is_sleeping(rank: RankEvidence) -> Activity | None:
    if not rank.is_sleeping:
        return None
    if rank.look.waits_in_loop:
        return rank.make_activity(
            f"sleeping in a loop{_source_line_text(rank.look)}", NEVER_HAPPENS
        )
    call = rank.c_function
    if call and not call.endswith("sleep"):
        return _inside_activity(rank, "waiting", call)
    # the package of the innermost frame, unless that is the user's code
    library = re.search(r"-packages/([A-Za-z]\w*)", rank.inner[0].path) if rank.inner else None
    return _inside_activity(rank, "sleeping", library[1] if library else "")


def _inside_activity(rank: RankEvidence, verb: str, call: str) -> Activity:
    """Name the function or the library that the rank has called, if that is known."""
    return (
        rank.make_activity(f"{verb} inside {call}", f"{call} has not returned.")
        if call
        else rank.make_activity(verb)
    )


def _source_line_text(look: RankLook) -> str:
    return f": {look.source.text[:60].rstrip(':')}" if look.source and look.source.text else ""


def waits_for_lock(rank: RankEvidence) -> Activity | None:
    if rank.look.wait.what or any(LOCKS.search(frame.path) for frame in rank.inner[:4]):
        action = _lock_action(rank)
        full = action.endswith("is full")
        return rank.make_activity(action, "Likely: nothing takes items out of it." if full else "")
    return _futex_activity(rank) if rank.look.frames else None  # else it may wait for other ranks


def does_unknown_thing(rank: RankEvidence) -> Activity:
    if activity := _futex_activity(rank):
        return activity
    if rank.look.state != "S":
        return rank.make_activity("doing nothing known")
    return _inside_activity(rank, "waiting", rank.c_function)


def _futex_activity(rank: RankEvidence) -> Activity | None:
    look = rank.look
    if not rank.is_in_syscall(FUTEX) and "futex" not in look.wchan:
        return None
    call, lock = rank.c_function, _named_lock(look)
    if call and not lock.startswith("the"):
        return _inside_activity(rank, "waiting", call)
    return rank.make_activity(f"waiting for {lock}")


def _lock_action(rank: RankEvidence) -> str:
    """Describe what the rank waits for by its Python objects, else by its frames."""
    look, wait = rank.look, rank.look.wait
    holder = next((thread for thread in look.threads if wait.by and thread.id == wait.by), None)
    if wait.what in ("thread", "exit"):
        when = " at exit" if wait.what == "exit" else ""
        return f"waiting{when} for {thread_text(holder) if holder else 'a thread'} to end"
    if wait.what == "lock":
        return (
            f"waiting for a lock of {wait.state}"
            if wait.state
            else f"waiting for {_named_lock(look)}"
        )
    if wait.what == "barrier":
        return f"waiting at a barrier of threads ({wait.state} have arrived)"
    if wait.what == "queue":
        return _QUEUES[wait.state == "full"]
    if wait.what in _WAITS:
        return f"waiting for {_WAITS[wait.what]}"
    paths = " ".join(frame.path for frame in rank.inner)
    if "/asyncio/" in paths:
        return "waiting in the asyncio event loop"
    if "/multiprocessing/pool.py" in paths:
        return f"waiting for {_WAITS['pool']}"
    if "/queue.py" in paths or "/multiprocessing/queues.py" in paths:
        return _QUEUES[any(frame.function == "put" for frame in rank.inner)]
    if "/multiprocessing/synchronize.py" in paths:
        return "waiting for a lock of multiprocessing"
    return "waiting for another thread or process"


def _named_lock(look: RankLook) -> str:
    """Name the lock by the line of the source if the rank did not report it."""
    text = look.source.text if look.source and look.frames[:1] == (look.source.frame,) else ""
    match = re.search(r"^with ([\w.\[\]\"']+):|([\w.]+)\.acquire\(", text)
    if module := re.match(r"(?:import|from) ([\w.]+)", text):
        return f"the import of {module[1]}"
    name = look.wait.text or (match and (match[1] or match[2]))
    if name == "lock":
        return "the lock"
    return f"the lock {name}" if name else "a lock or another thread"
