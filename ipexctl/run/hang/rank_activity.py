"""Decide what one rank does, from its look: its own work, or waiting for other ranks."""

from __future__ import annotations

import re
from itertools import takewhile

from ipexctl.quick_dataclass import dataclass
from ipexctl.run.hang.evidence import RankLook, StackFrame, Thread
from ipexctl.run.hang.hang_report import CauseKind
from ipexctl.run.output.short_paths import shorten_paths

BUSY = 0.5  # CPUs
WORKS = 0.1  # CPUs of a process that does more than wait, as in remote/run/rank_progress.py
NEW_GROUP = "waiting for the other ranks in new_group"
SUBPROCESS = "subprocess"  # what such a rank waits for
# System calls by their numbers on x86-64 and on aarch64.
_SLEEP, _WAIT_CHILD, _FUTEX = {35, 230, 101, 115}, {61, 247, 95, 260}, {202, 98}
_FLOCK = {73, 32}
_LIBRARY = re.compile(
    r"/(?:site|dist)-packages/|/lib(?:64)?/python3(?:\.\d+)?/|^<|/sitecustomize\.py$"
)
_RENDEZVOUS_PATHS = re.compile(r"torch/distributed/(?:rendezvous|elastic/rendezvous/\w+)\.py$")
_RENDEZVOUS = {"init_process_group", "new_group", "_store_based_barrier", "connectFullMesh"}
_RENDEZVOUS |= {"_new_process_group_helper", "init_device_mesh", "init_deepspeed_comm"}
_EXCHANGE = re.compile(
    r"torch/distributed/(?:distributed_c10d|_functional_collectives)\.py$"
    r"|deepspeed/comm/|horovod/|mpi4py/|oneccl_bindings_for_pytorch/"
)
# In these functions, a rank computes or waits for an exchange that C++ has started.
_BACKWARD = re.compile(r"torch/(?:autograd/(?:graph|__init__)|_tensor)\.py$")
_MAY_EXCHANGE = re.compile(
    _BACKWARD.pattern + r"|torch/nn/parallel/distributed\.py$|torch/distributed/(?!checkpoint)"
)
_LOADER = re.compile(r"torch/utils/data/dataloader\.py$")
_LOCKS = re.compile(
    r"/(?:threading|queue|selectors)\.py$|/asyncio/\w+\.py$|/concurrent/futures/\w+\.py$"
    r"|/multiprocessing/(?:queues|synchronize|connection|managers|pool|process|popen_\w+)\.py$"
)
_SOCKETS = re.compile(r"/(?:socket|ssl)\.py$|/http/client\.py$|/(?:urllib3|requests|httpx)/")
_DEBUGGERS = re.compile(r"/(?:pdb|bdb|cmd)\.py$|/(?:IPython|debugpy|ipdb)/")
_POOL = re.compile(r"/multiprocessing/pool\.py$")
_QUEUES = "waiting for an item of a queue", "waiting for room in a queue that is full"
_WAITS = {
    "future": "the result of a future",
    "event": "an event",
    "condition": "a condition",
    "semaphore": "a semaphore",
    "pool": "results of a multiprocessing pool",
}
MOST_CHILDREN = 16  # in a look
_STORE = re.compile(r"store\w*\.(?:get|wait|barrier)\(", re.I)


@dataclass(frozen=True)
class Activity:
    """What a rank does. `kind` None: it waits for others, in the operation `op` ("": not known)."""

    kind: CauseKind | None
    action: str
    where: str
    op: str = ""
    backward: bool = False
    thing: str = ""  # file or peer that it waits for

    @property
    def alike(self) -> tuple[object, ...]:
        return self.kind, self.op, self.where, self.thing


def classify_activity(look: RankLook, master: str) -> Activity:
    place, inner = _user_frame(look)
    where = where_text(place, inner)
    backward = any(_BACKWARD.search(f.path) for f in inner)
    called, inner = inner, tuple(takewhile(lambda f: f.function != "<module>", inner))
    imports = len(inner) < len(called)  # a module's name says nothing about an import inside it
    op = _exchange_operation(look, inner)
    if look.state in ("T", "t"):
        by = "stopped by a debugger" if look.state == "t" else "stopped by a signal"
        return Activity(CauseKind.STOPPED, by, where)
    if look.state in ("Z", "X"):
        return Activity(CauseKind.LEFT_EARLY, "ended", where)
    if any(f.path.endswith("/subprocess.py") for f in inner) and (look.cpu or 0) >= WORKS:
        return Activity(CauseKind.COMPUTING, f"running {child_text(child_waited_for(look))}", where)
    if any(f.function == "new_group" for f in inner):
        return Activity(CauseKind.RENDEZVOUS, NEW_GROUP, where)
    if _in_rendezvous(look, inner, master):
        return Activity(CauseKind.RENDEZVOUS, f"joining the run at {master or 'its master'}", where)
    if look.state == "D":
        return _blocked_activity(look, where)
    if op is not None:
        return Activity(None, "", where, op, backward)
    if _is_busy(look) or (look.state == "R" and not look.syscall):
        idle = not _is_busy(look) and not imports and (look.cpu or 0) < WORKS
        if idle and not look.waits_in_loop:
            return Activity(CauseKind.UNKNOWN, "ready to run, with hardly any CPU time", where)
        return _busy_activity(look, imports, where)
    if any(_LOADER.search(f.path) for f in inner):
        return _loader_activity(look, where)
    found = _outside_activity(look, inner)
    if found:
        kind = CauseKind.BLOCKED_IO if found[1] == SUBPROCESS else CauseKind.OUTSIDE
        return Activity(kind, found[0], where, thing=found[1])
    if _is_sleep_syscall(look) or _is_in_sleep(look, place):
        return Activity(CauseKind.SLEEPING, _sleep_action(look, inner), where)
    if any("/multiprocessing/" in f.path for f in inner) and (lost := _lost_worker(look, inner)):
        return Activity(CauseKind.WORKER, lost, where)
    if look.blocked_on and look.blocked_on.what in ("file", "pipe"):
        return _blocked_activity(look, where)
    if (look.cpu or 0) >= BUSY:
        return Activity(CauseKind.COMPUTING, "computing in other threads or processes", where)
    if look.wait.what or any(_LOCKS.search(f.path) for f in inner[:4]):
        return Activity(CauseKind.LOCK, _lock_action(look, inner), where)
    inside = f" inside {call}" if (call := _called_c_function(look)) else ""
    if _syscall_is(look, _FUTEX) or "futex" in look.wchan:
        kind = CauseKind.LOCK if look.frames else CauseKind.UNKNOWN  # may wait for other ranks
        lock = _named_lock(look)
        inside = "" if lock.startswith("the") else inside
        return Activity(kind, f"waiting{inside or f' for {lock}'}", where)
    waits = f"waiting{inside}" if look.state == "S" else "doing nothing known"
    return Activity(CauseKind.UNKNOWN, waits, where)


def where_text(place: StackFrame | None, inner: tuple[StackFrame, ...] = ()) -> str:
    """Format `data.py:88 in __next__`; at the script's top level, with the call it makes."""
    if place is None:
        return ""
    path, function = shorten_paths(place.path), place.function
    name = path if not path.startswith("/") else path.rpartition("/")[2]
    if function == "<module>":
        function = "backward" if any(_BACKWARD.search(f.path) for f in inner) else ""
    return f"{name}:{place.line}" + (f" in {function}" if function else "")


def state_and_cpu_text(look: RankLook) -> str:
    """Format the state and CPU use, such as `, state D, 0 % CPU`."""
    state = f", state {look.state}" if look.state else ""
    return state + ("" if look.cpu is None else f", {look.cpu * 100:.0f} % CPU")


def is_library(frame: StackFrame) -> bool:
    return bool(_LIBRARY.search(frame.path))


def _user_frame(look: RankLook) -> tuple[StackFrame | None, tuple[StackFrame, ...]]:
    """Return the innermost frame of the user's code, else of any; and frames called from it."""
    for i, frame in enumerate(look.frames):
        if not is_library(frame):
            return frame, look.frames[:i]
    named = (frame for frame in look.frames if not frame.path.startswith("<"))
    return next(named, None), look.frames


def _is_busy(look: RankLook) -> bool:
    if look.main_cpu is not None:
        return look.main_cpu >= BUSY
    return look.cpu >= BUSY if look.cpu is not None else look.state == "R"


def _syscall_is(look: RankLook, numbers: set[int]) -> bool:
    return bool(look.syscall) and look.syscall[0] in numbers


def _is_sleep_syscall(look: RankLook) -> bool:
    return _syscall_is(look, _SLEEP) or "nanosleep" in look.wchan


def _called_c_function(look: RankLook) -> str:
    """Return the C function that the innermost frame has called: `sqlite3.Cursor.execute`."""
    if look.wait.call or look.source is None or look.frames[:1] != (look.source.frame,):
        return look.wait.call
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "", look.source.text)
    calls = re.findall(r"(?<!def )\b([A-Za-z_][\w.]*)\(", text)
    return calls[0] if len(calls) == 1 and not text.startswith("for ") else ""


def _innermost_library(inner: tuple[StackFrame, ...]) -> str:
    """Return the package of the innermost frame, unless that is the user's code."""
    found = re.search(r"-packages/([A-Za-z]\w*)", inner[0].path) if inner else None
    return found[1] if found else ""


def _is_in_sleep(look: RankLook, place: StackFrame | None) -> bool:
    """Return whether the line is a `time.sleep(1)` of the user, without library frames above."""
    innermost = bool(look.frames) and look.frames[0] == place
    called = re.search(r"\bsleep\(", look.source.text) if look.source else None
    return innermost and called is not None and not look.syscall


def _in_rendezvous(look: RankLook, inner: tuple[StackFrame, ...], master: str) -> bool:
    if any(_RENDEZVOUS_PATHS.search(f.path) or f.function in _RENDEZVOUS for f in inner):
        return True
    peer = look.blocked_on.peer if look.blocked_on else ""
    store = look.source is not None and _STORE.search(look.source.text)
    return bool(store and not _is_busy(look)) or (not inner and bool(peer) and peer == master)


def _exchange_operation(look: RankLook, inner: tuple[StackFrame, ...]) -> str | None:
    """Return the operation in which the rank waits for others; None: in none."""
    called = [f for f in inner if _EXCHANGE.search(f.path)]
    if called:
        names = [f.function for f in called if "wrapper" not in f.function]
        return names[-1] if names else ""
    idle = not _is_busy(look) and not _is_sleep_syscall(look)
    if idle and inner and _MAY_EXCHANGE.search(inner[0].path):
        return ""
    waiting = not look.wchan or "futex" in look.wchan or _syscall_is(look, _FUTEX)
    started = [c.op for c in look.collectives or () if not c.done]
    own_wait = bool(look.wait.what) or any(
        _LOCKS.search(f.path) or _LOADER.search(f.path) for f in inner
    )
    # `work.wait()` has no Python frame
    return "" if started and idle and waiting and look.state != "D" and not own_wait else None


def _blocked_activity(look: RankLook, where: str) -> Activity:
    on = look.blocked_on
    if on and on.what == "pipe":
        named = f"the named pipe {on.path}" if on.path else "a pipe"
        return Activity(
            CauseKind.BLOCKED_IO, f"waiting for the other end of {named}", where, thing=on.path
        )
    if on and on.path:
        verb = "writing" if _syscall_is(look, {1, 20, 64, 66, 18, 68}) else "reading"
        return Activity(CauseKind.BLOCKED_IO, f"{verb} {on.path}", where, thing=on.path)
    inside = f" ({look.wchan})" if look.wchan else ""
    return Activity(CauseKind.BLOCKED_IO, f"blocked in the kernel{inside}", where)


def _loader_activity(look: RankLook, where: str) -> Activity:
    if lost := dead_worker(look):
        action = f"waiting for a data loader worker that {_how_ended(lost)}"
        return Activity(CauseKind.WORKER, action, where)
    slowest = slowest_worker(look)
    if slowest is None:
        return Activity(CauseKind.WORKER, "waiting for a data loader worker", where)
    frame = next((f for f in slowest.frames if not is_library(f)), None)
    state = f"state {slowest.state}" if slowest.state else ""
    inside = f"in {where_text(frame).replace(' in ', ' ')}" if frame else ""
    does = f" ({' '.join(filter(None, (state, inside)))})" if state or inside else ""
    if slowest.state == "R":
        action = f"waiting for data loader worker {slowest.pid}, which computes{does}"
        return Activity(CauseKind.COMPUTING, action, where)
    return Activity(CauseKind.WORKER, f"waiting for data loader worker {slowest.pid}{does}", where)


def slowest_worker(look: RankLook) -> RankLook | None:
    workers = [c for c in look.children if "data_worker" in c.name] or [*look.children]
    return max(workers, key=_how_blocked, default=None)


def child_waited_for(look: RankLook) -> RankLook | None:
    """Return the process that a rank, or a process below it, waits for; None if unknown."""
    pid, own = look.wait.child, [c for c in look.children if c.parent in (None, look.pid)]
    if look.blocked_on and look.blocked_on.what == "pipe":
        own = [child for child in look.children if child.pid in look.blocked_on.pids]
    if look.syscall[:1] in ((61,), (260,)) and not pid:
        pid = look.syscall[1] if len(look.syscall) > 1 else 0
    if look.syscall[:1] in ((247,), (95,)) and not pid and look.syscall[1:2] == (1,):
        pid = look.syscall[2] if len(look.syscall) > 2 else 0
    found = next((child for child in own if child.pid == pid), None)
    return found or (own[0] if len(own) == 1 else None)


def child_text(child: RankLook | None) -> str:
    """Format `a subprocess (sleep, PID 47)`, `the child forked at line 12 (PID 47)`."""
    if child is None:
        return "a subprocess"
    if child.forked:
        return f"the child that was forked at {where_text(child.forked)} (PID {child.pid})"
    return f"a subprocess ({', '.join(filter(None, (child.name, f'PID {child.pid}')))})"


def dead_worker(look: RankLook) -> RankLook | None:
    """Return a process of this rank that has ended, if possible one with an error."""
    dead = [child for child in look.children if child.exited or child.state == "Z"]
    dead.sort(key=lambda child: child.ended in ("", "exit code 0"))
    return dead[0] if dead else None


def _lost_worker(look: RankLook, inner: tuple[StackFrame, ...]) -> str:
    """Describe a wait for a worker process that has ended; "" if none is known."""
    lost, alive = dead_worker(look), any(not child.exited for child in look.children)
    if lost and not (alive and lost.ended == "exit code 0"):
        pid = f" (PID {lost.pid})" if lost.pid else ""
        what = _lock_action(look, inner).removeprefix("waiting ")
        return f"waiting {what}; a worker process{pid} {_how_ended(lost)}"
    workers = [c for c in look.children if any(_POOL.search(f.path) for f in c.frames)]
    if not workers or not any(_POOL.search(f.path) for f in inner):
        return ""
    feeds = any(thread.source for thread in look.threads if not thread.main)
    if feeds or len(look.children) >= MOST_CHILDREN or any(map(_has_task, workers)):
        return ""
    return "waiting for a task that a pool's worker took; that worker has ended"


def busy_worker(look: RankLook) -> RankLook | None:
    """Return a process that runs the user's code, or a task of a pool."""
    own = (c for c in look.children if any(not is_library(f) for f in c.frames))
    in_pool = (c for c in look.children if any(_POOL.search(f.path) for f in c.frames))
    return next(own, None) or next(filter(_has_task, in_pool), None)


def _has_task(worker: RankLook) -> bool:
    """Return whether a worker does anything but wait for the next task."""
    waits = [
        f.function for f in worker.frames if re.search(r"/multiprocessing/queues\.py$", f.path)
    ]
    return waits[-1:] != ["get"] or not all(is_library(f) for f in worker.frames)


def _how_ended(child: RankLook) -> str:
    if child.ended.startswith("signal"):
        return f"was killed by {child.ended}"
    return f"has exited with {child.ended}" if child.ended else "has exited"


def _how_blocked(child: RankLook) -> tuple[bool, bool]:
    return child.state in ("D", "T"), any(not is_library(f) for f in child.frames)


def _outside_activity(look: RankLook, inner: tuple[StackFrame, ...]) -> tuple[str, str] | None:
    on, text = look.blocked_on, look.source.text if look.source else ""
    reads_stdin = _syscall_is(look, {0, 63}) and look.syscall[1:2] == (0,) and not look.name
    if any(_DEBUGGERS.search(f.path) for f in inner):
        return "waiting in a debugger", "stdin"
    if re.search(r"\b(?:input|breakpoint|set_trace)\(", text):
        return "waiting for input", "stdin"
    if reads_stdin or (on and re.match(r"/dev/(?:pts/|tty)", on.path)):
        return "waiting for input", "stdin"
    if any(f.path.endswith("/subprocess.py") for f in inner) or _syscall_is(look, _WAIT_CHILD):
        return f"waiting for {child_text(child_waited_for(look))}", SUBPROCESS
    of_file = (on is None or on.what in ("file", "")) and "poll" not in look.wchan
    locks = (_syscall_is(look, _FLOCK) and of_file) or re.search(
        "flock|posix_lock|lock_inode", look.wchan
    )
    if locks or any("/filelock/" in f.path for f in inner):
        path = on.path if on else ""
        return f"waiting for the file lock {path}".strip(), path or "file lock"
    if _is_sleep_syscall(look) or look.wait.what:
        return None
    if any(f.function == "accept" and _SOCKETS.search(f.path) for f in inner[:2]):
        return "waiting for a connection", "connection"
    if on and on.peer and on.what in ("socket", "poll"):
        return f"waiting for data from {on.peer}", on.peer
    if any(_SOCKETS.search(f.path) for f in inner):
        return "waiting for data from a socket", "socket"
    return None


def _busy_activity(look: RankLook, imports: bool, where: str) -> Activity:
    if look.waits_in_loop:
        return Activity(CauseKind.SPINNING, f"spinning{_source_line_text(look)}", where)
    inside = f"computing inside {look.wait.call}" if look.wait.call else "computing"
    return Activity(CauseKind.COMPUTING, "importing modules" if imports else inside, where)


def _sleep_action(look: RankLook, inner: tuple[StackFrame, ...]) -> str:
    if look.waits_in_loop:
        return f"sleeping in a loop{_source_line_text(look)}"
    call = _called_c_function(look)
    if call and not call.endswith("sleep"):
        return f"waiting inside {call}"
    library = _innermost_library(inner)
    return f"sleeping inside {library}" if library else "sleeping"


def _source_line_text(look: RankLook) -> str:
    return f": {look.source.text[:60].rstrip(':')}" if look.source and look.source.text else ""


def _lock_action(look: RankLook, inner: tuple[StackFrame, ...]) -> str:
    wait = look.wait
    by = next((thread for thread in look.threads if wait.by and thread.id == wait.by), None)
    if wait.what in ("thread", "exit"):
        at = " at exit" if wait.what == "exit" else ""
        return f"waiting{at} for {thread_text(by) if by else 'a thread'} to end"
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
    paths = " ".join(f.path for f in inner)
    if "/asyncio/" in paths:
        return "waiting in the asyncio event loop"
    if "/multiprocessing/pool.py" in paths:
        return f"waiting for {_WAITS['pool']}"
    if "/queue.py" in paths or "/multiprocessing/queues.py" in paths:
        return _QUEUES[any(f.function == "put" for f in inner)]
    if "/multiprocessing/synchronize.py" in paths:
        return "waiting for a lock of multiprocessing"
    return "waiting for another thread or process"


def _named_lock(look: RankLook) -> str:
    """Name the lock by the line of the source if the rank did not report it."""
    text = look.source.text if look.source and look.frames[:1] == (look.source.frame,) else ""
    found = re.search(r"^with ([\w.\[\]\"']+):|([\w.]+)\.acquire\(", text)
    if module := re.match(r"(?:import|from) ([\w.]+)", text):
        return f"the import of {module[1]}"
    name = look.wait.text or (found and (found[1] or found[2]))
    return f"the lock {name}" if name else "a lock or another thread"


def thread_text(thread: Thread) -> str:
    return "the main thread" if thread.main else f"thread {thread.name or thread.id}"
