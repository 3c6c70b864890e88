"""Read the evidence about one rank: where its main thread is, and which child it may wait for."""

from __future__ import annotations

import re
from itertools import takewhile

from ipexctl.common.rank_looks import RankLook, StackFrame, ThreadLook
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.output.short_paths import shorten_paths

BUSY = 0.5  # CPUs
# System calls by their numbers on x86-64 and on aarch64.
_SLEEP, FUTEX = {35, 230, 101, 115}, {202, 98}
_LIBRARY = re.compile(
    r"/(?:site|dist)-packages/|/lib(?:64)?/python3(?:\.\d+)?/|^<|/sitecustomize\.py$"
)
_EXCHANGE = re.compile(
    r"torch/distributed/(?:distributed_c10d|_functional_collectives)\.py$"
    r"|deepspeed/comm/|horovod/|mpi4py/|oneccl_bindings_for_pytorch/"
)
# In these functions, a rank computes or waits for an exchange that C++ has started.
_BACKWARD = re.compile(r"torch/(?:autograd/(?:graph|__init__)|_tensor)\.py$")
_MAY_EXCHANGE = re.compile(
    _BACKWARD.pattern + r"|torch/nn/parallel/distributed\.py$|torch/distributed/(?!checkpoint)"
)
LOADER = re.compile(r"torch/utils/data/dataloader\.py$")
POOL = re.compile(r"/multiprocessing/pool\.py$")
LOCKS = re.compile(
    r"/(?:threading|queue|selectors)\.py$|/asyncio/\w+\.py$|/concurrent/futures/\w+\.py$"
    r"|/multiprocessing/(?:queues|synchronize|connection|managers|pool|process|popen_\w+)\.py$"
)


@dataclass(frozen=True)
class Activity:
    """What a rank does. `waits`: it waits for others, in the operation `op` ("": not known).
    `advice`: what to do in this case; "": what the cause says."""

    action: str
    where: str
    waits: bool = False
    op: str = ""
    backward: bool = False
    thing: str = ""  # file or peer that it waits for
    advice: str = ""

    @property
    def comparison_key(self) -> tuple[str, ...]:
        return self.op, self.where, self.thing


@dataclass(frozen=True)
class RankEvidence:
    """A look at a rank, as the rules take it. `place`: the innermost frame of the user's code;
    `inner`: the frames called from it, without those of modules that are being imported."""

    look: RankLook
    master: str
    place: StackFrame | None
    inner: tuple[StackFrame, ...]
    imports: bool
    where: str
    backward: bool

    @staticmethod
    def of(look: RankLook, master: str) -> RankEvidence:
        place, called = _user_frame(look)
        # a module's name says nothing about an import inside it
        inner = tuple(takewhile(lambda frame: frame.function != "<module>", called))
        backward = any(_BACKWARD.search(frame.path) for frame in called)
        imports, where = len(inner) < len(called), where_text(place, called)
        return RankEvidence(look, master, place, inner, imports, where, backward)

    def make_activity(self, action: str, advice: str = "", thing: str = "") -> Activity:
        return Activity(action, self.where, thing=thing, advice=advice)

    def has_call_in(self, paths: re.Pattern[str]) -> bool:
        return any(paths.search(frame.path) for frame in self.inner)

    def is_in_syscall(self, numbers: set[int]) -> bool:
        return bool(self.look.syscall) and self.look.syscall[0] in numbers

    @property
    def is_busy(self) -> bool:
        if self.look.main_cpu is not None:
            return self.look.main_cpu >= BUSY
        return self.look.cpu >= BUSY if self.look.cpu is not None else self.look.state == "R"

    @property
    def runs(self) -> bool:
        return self.is_busy or (self.look.state == "R" and not self.look.syscall)

    @property
    def is_in_sleep_syscall(self) -> bool:
        return self.is_in_syscall(_SLEEP) or "nanosleep" in self.look.wchan

    @property
    def is_sleeping(self) -> bool:
        """Return whether it sleeps, also in a `time.sleep(1)` whose system call is unknown."""
        look = self.look
        innermost = bool(look.frames) and look.frames[0] == self.place
        called = re.search(r"\bsleep\(", look.source.text) if look.source else None
        return self.is_in_sleep_syscall or (innermost and called is not None and not look.syscall)

    @property
    def c_function(self) -> str:
        """Return the C function that the innermost frame has called: `sqlite3.Cursor.execute`."""
        look = self.look
        if look.wait.call or look.source is None or look.frames[:1] != (look.source.frame,):
            return look.wait.call
        text = re.sub(r"'[^']*'|\"[^\"]*\"", "", look.source.text)
        calls = re.findall(r"(?<!def )\b([A-Za-z_][\w.]*)\(", text)
        return calls[0] if len(calls) == 1 and not text.startswith("for ") else ""

    def exchange(self) -> str | None:
        """Return the operation in which the rank waits for others; None: in none."""
        look, inner = self.look, self.inner
        exchanges = [frame for frame in inner if _EXCHANGE.search(frame.path)]
        if exchanges:
            names = [frame.function for frame in exchanges if "wrapper" not in frame.function]
            return names[-1] if names else ""
        idle = not self.is_busy and not self.is_in_sleep_syscall
        if idle and inner and _MAY_EXCHANGE.search(inner[0].path):
            return ""
        waiting = not look.wchan or "futex" in look.wchan or self.is_in_syscall(FUTEX)
        started = [call.op for call in look.calls if not call.done]
        own_wait = bool(look.wait.what) or self.has_call_in(LOCKS) or self.has_call_in(LOADER)
        # `work.wait()` has no Python frame
        return "" if started and idle and waiting and look.state != "D" and not own_wait else None


def where_text(place: StackFrame | None, inner: tuple[StackFrame, ...] = ()) -> str:
    """Format `data.py:88 in __next__`; at the script's top level, with the call it makes."""
    if place is None:
        return ""
    path, function = shorten_paths(place.path), place.function
    name = path if not path.startswith("/") else path.rpartition("/")[2]
    if function == "<module>":
        function = "backward" if any(_BACKWARD.search(frame.path) for frame in inner) else ""
    return f"{name}:{place.line}" + (f" in {function}" if function else "")


def state_and_cpu_text(look: RankLook) -> str:
    """Format the state and CPU use, such as `, state D, 0 % CPU`."""
    state = f", state {look.state}" if look.state else ""
    return state + ("" if look.cpu is None else f", {look.cpu * 100:.0f} % CPU")


def thread_text(thread: ThreadLook) -> str:
    return "the main thread" if thread.main else f"thread {thread.name or thread.id}"


def is_library(frame: StackFrame) -> bool:
    return bool(_LIBRARY.search(frame.path))


def _user_frame(look: RankLook) -> tuple[StackFrame | None, tuple[StackFrame, ...]]:
    """Return the innermost frame of the user's code, else of any; and frames called from it."""
    for i, frame in enumerate(look.frames):
        if not is_library(frame):
            return frame, look.frames[:i]
    in_files = (frame for frame in look.frames if not frame.path.startswith("<"))
    return next(in_files, None), look.frames


# --- child processes ------------------------------------------------------------------------------


def slowest_worker(look: RankLook) -> RankLook | None:
    workers = [child for child in look.children if "data_worker" in child.name] or [*look.children]
    return max(workers, key=_how_blocked, default=None)


def child_waited_for(look: RankLook) -> RankLook | None:
    """Return the process that a rank, or a process below it, waits for; None if unknown."""
    pid, children = look.wait.child, [c for c in look.children if c.parent in (None, look.pid)]
    if look.blocked_on and look.blocked_on.what == "pipe":
        children = [child for child in look.children if child.pid in look.blocked_on.pids]
    if look.syscall[:1] in ((61,), (260,)) and not pid:
        pid = look.syscall[1] if len(look.syscall) > 1 else 0
    if look.syscall[:1] in ((247,), (95,)) and not pid and look.syscall[1:2] == (1,):
        pid = look.syscall[2] if len(look.syscall) > 2 else 0
    match = next((child for child in children if child.pid == pid), None)
    return match or (children[0] if len(children) == 1 else None)


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


def busy_worker(look: RankLook) -> RankLook | None:
    """Return a process that runs the user's code, or a task of a pool."""
    busy = (child for child in look.children if any(not is_library(f) for f in child.frames))
    in_pool = (child for child in look.children if any(POOL.search(f.path) for f in child.frames))
    return next(busy, None) or next(filter(has_task, in_pool), None)


def has_task(worker: RankLook) -> bool:
    """Return whether a worker does anything but wait for the next task."""
    waits = [
        f.function for f in worker.frames if re.search(r"/multiprocessing/queues\.py$", f.path)
    ]
    return waits[-1:] != ["get"] or not all(is_library(frame) for frame in worker.frames)


def how_ended_text(child: RankLook) -> str:
    if child.ended.startswith("signal"):
        return f"was killed by {child.ended}"
    return f"has exited with {child.ended}" if child.ended else "has exited"


def _how_blocked(child: RankLook) -> tuple[bool, bool]:
    return child.state in ("D", "T"), any(not is_library(frame) for frame in child.frames)
