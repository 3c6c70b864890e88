"""Read what a host saw of its ranks: a look, from its journal. Nothing in it is trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from ipexctl.base.host_answer import read_record, read_rows
from ipexctl.base.values import by, count_or_none, counts_of, list_of, number_or_none, plain
from ipexctl.quick_dataclass import dataclass

RANKS = 1 << 20


def _read_syscall(value: Any) -> tuple[int, ...]:
    """Read a system call's number and arguments, which can be addresses or negative."""
    return tuple(n for n in list_of(value)[:4] if type(n) is int and 0 <= n < 1 << 64)


def _operation_name(value: Any) -> str:
    """Return the operation without the backend's prefix."""
    return plain(value).rpartition(":")[2]


def _read_sizes(value: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(map(counts_of, list_of(value)))


@dataclass(frozen=True)
class StackFrame:
    path: str = field(metadata=by(plain, needed=True))
    line: int = field(metadata=by(count_or_none, needed=True))
    function: str


@dataclass(frozen=True)
class BlockedOn:
    """What the main thread waits for. `pids`: child processes that have the same pipe open."""

    what: str  # file, pipe, socket, futex, poll or ""
    path: str = ""
    fs: str = ""
    peer: str = ""
    pids: tuple[int, ...] = ()


@dataclass(frozen=True)
class WaitSource:
    path: str = field(metadata=by(plain, needed=True))
    line: int = field(metadata=by(count_or_none, needed=True))
    function: str
    text: str

    @property
    def frame(self) -> StackFrame:
        return StackFrame(self.path, self.line, self.function)


@dataclass(frozen=True)
class ThreadWait:
    """What a thread waits for, according to its Python objects. `by`: the id of the thread that
    holds the lock (`at`: since which line) or that is to end; `child`: the pid of the process."""

    what: str = ""  # lock, thread, exit, future, queue, event, process, asyncio and so on
    call: str = ""  # the function written in C that its innermost frame has called
    text: str = ""  # of the lock
    state: str = ""
    by: str = ""
    at: StackFrame | None = None
    child: int = 0
    tasks: tuple[StackFrame, ...] = ()


@dataclass(frozen=True)
class Thread:
    """A thread. `frames`: the innermost first. The state and later fields are not always known."""

    main: bool
    name: str
    frames: tuple[StackFrame, ...]
    id: str = ""
    source: WaitSource | None = None
    state: str = ""
    wchan: str = ""
    syscall: tuple[int, ...] = field(default=(), metadata=by(_read_syscall))
    blocked_on: BlockedOn | None = None
    wait: ThreadWait = field(
        default=ThreadWait(), metadata=by(lambda raw: read_record(ThreadWait, raw), key="waits")
    )


@dataclass(frozen=True)
class Collective:
    """A collective operation. `seq` counts per process group."""

    group: str
    name: str
    seq: int = field(metadata=by(count_or_none, needed=True))
    op: str = field(metadata=by(_operation_name, needed=True))
    sizes: tuple[tuple[int, ...], ...] = field(metadata=by(_read_sizes))
    dtypes: tuple[str, ...]
    done: bool = field(metadata=by(lambda value: value is not False))
    age: float | None


@dataclass(frozen=True)
class Connection:
    here: str = field(metadata=by(plain, needed=True))
    peer: str = field(metadata=by(plain, needed=True))
    unsent: int = 0
    unread: int = 0
    retransmits: int = 0
    unanswered: float = field(default=0.0, metadata=by(number_or_none))  # seconds


@dataclass(frozen=True)
class RankLook:
    """A rank, or a process that it has started, about which less is known.

    `forked`: the line that forked it; `ended`: how it ended, if its parent has not waited for it.
    `state`, `wchan`, `syscall` and `blocked_on` are those of the main thread.
    `collectives` is None if they could not be read, for the reason `collectives_why`."""

    rank: int
    host: str
    pid: int | None = None
    state: str = ""
    wchan: str = ""
    syscall: tuple[int, ...] = field(default=(), metadata=by(_read_syscall))
    blocked_on: BlockedOn | None = None
    cpu: float | None = None
    main_cpu: float | None = None
    stacks: str = ""
    threads: tuple[Thread, ...] = ()
    source: WaitSource | None = None
    waits_in_loop: bool = False
    collectives: tuple[Collective, ...] | None = None
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    collectives_why: str = ""
    connections: tuple[Connection, ...] = ()
    children: tuple[RankLook, ...] = ()
    name: str = ""
    parent: int | None = None
    exited: bool = False
    ended: str = ""
    forked: StackFrame | None = None

    @property
    def frames(self) -> tuple[StackFrame, ...]:
        """The frames of the main thread."""
        return next((thread.frames for thread in self.threads if thread.main), ())

    @property
    def wait(self) -> ThreadWait:
        return next((thread.wait for thread in self.threads if thread.main), ThreadWait())


def read_look(host: str, raw: Any) -> tuple[RankLook, ...]:
    """Read a look for each rank; invalid values are left out, as are rows without a rank."""
    looks = dict[int, RankLook]()
    for row in list_of(raw):
        rank = count_or_none(row.get("rank")) if isinstance(row, dict) else None
        if rank is not None and rank < RANKS:
            looks.setdefault(rank, _rank_look(rank, host, row))
    return tuple(looks.values())


def _rank_look(rank: int, host: str, row: dict[str, Any]) -> RankLook:
    recorded = row.get("collectives")
    recorded = recorded if isinstance(recorded, dict) else None
    children = (child for child in list_of(row.get("children")) if isinstance(child, dict))
    return read_record(
        RankLook,
        row,
        rank=rank,
        host=host,
        collectives=None if recorded is None else read_rows(Collective, recorded.get("last")),
        groups=_read_groups(recorded.get("groups")) if recorded else {},
        children=tuple(_rank_look(rank, host, {**child, "children": []}) for child in children),
    )


def _read_groups(value: Any) -> dict[str, tuple[int, ...]]:
    """Read the ranks of each process group, if they are reported."""
    groups = value.items() if isinstance(value, dict) else ()
    by_name = {
        plain(key): counts_of(row.get("ranks")) for key, row in groups if isinstance(row, dict)
    }
    return {name: ranks for name, ranks in by_name.items() if ranks}
