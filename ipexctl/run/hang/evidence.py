"""What a host saw of its ranks: a look, read from its journal. Nothing in it is trusted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from ipexctl.base.values import count_or_none, listed, plain, truth
from ipexctl.quick_dataclass import dataclass

PATH, NAME = 400, 60  # letters
RANKS = 1 << 20


@dataclass(frozen=True)
class Frame:
    path: str
    line: int
    function: str


@dataclass(frozen=True)
class BlockedOn:
    """`pids`: processes below the rank that have the same pipe open."""

    what: str  # file, pipe, socket, futex, poll or ""
    path: str = ""
    fs: str = ""
    peer: str = ""
    pids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Source:
    frame: Frame
    text: str


@dataclass(frozen=True)
class Wait:
    """What a thread waits for, as the objects of its Python know it. `by`: the id of the thread
    that holds the lock (`at`: since which line) or is to end; `child`: the pid of the process."""

    what: str = ""  # lock, thread, exit, future, queue, event, process, asyncio and so on
    call: str = ""  # the function written in C that its innermost frame has called
    text: str = ""  # of the lock
    state: str = ""
    by: str = ""
    at: Frame | None = None
    child: int = 0
    tasks: tuple[Frame, ...] = ()


@dataclass(frozen=True)
class Thread:
    """`frames`: the innermost first. The state and what follows are not known of every thread."""

    main: bool
    name: str
    frames: tuple[Frame, ...]
    id: str = ""
    source: Source | None = None
    state: str = ""
    wchan: str = ""
    syscall: tuple[int, ...] = ()
    blocked_on: BlockedOn | None = None
    wait: Wait = Wait()


@dataclass(frozen=True)
class Collective:
    """`seq` counts per process group; `op` without the backend's prefix."""

    group: str
    name: str
    seq: int
    p2p: bool
    op: str
    sizes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    done: bool
    age: float | None


@dataclass(frozen=True)
class Connection:
    here: str
    peer: str
    state: str
    unsent: int
    unread: int
    retransmits: int
    unanswered: float  # seconds


@dataclass(frozen=True)
class RankLook:
    """A rank, or a process that it has started, of which less is known.

    `forked`: the line that forked it; `ended`: how, of one whose parent has not waited for it.
    `state`, `wchan`, `syscall` and `blocked_on` are those of the main thread.
    `collectives` is None where they could not be read, for the reason `collectives_why`."""

    rank: int
    host: str
    pid: int | None = None
    state: str = ""
    wchan: str = ""
    syscall: tuple[int, ...] = ()
    blocked_on: BlockedOn | None = None
    cpu: float | None = None
    main_cpu: float | None = None
    cpus: int | None = None
    io: tuple[int, int] | None = None
    stacks: str = ""
    threads: tuple[Thread, ...] = ()
    source: Source | None = None
    waits_in_loop: bool = False
    collectives: tuple[Collective, ...] | None = None
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    collectives_why: str = ""
    connections: tuple[Connection, ...] = ()
    children: tuple[RankLook, ...] = ()
    zombies: int = 0
    name: str = ""
    parent: int | None = None
    exited: bool = False
    ended: str = ""
    forked: Frame | None = None

    @property
    def frames(self) -> tuple[Frame, ...]:
        """Of the main thread."""
        return next((thread.frames for thread in self.threads if thread.main), ())

    @property
    def wait(self) -> Wait:
        return next((thread.wait for thread in self.threads if thread.main), Wait())


def read_look(host: str, raw: Any) -> tuple[RankLook, ...]:
    """One for each rank; what is odd in a row is left out, as is a row without a rank."""
    looks = dict[int, RankLook]()
    for row in listed(raw):
        rank = count_or_none(row.get("rank")) if isinstance(row, dict) else None
        if rank is not None and rank < RANKS:
            looks.setdefault(rank, _rank_look(rank, host, row))
    return tuple(looks.values())


def _rank_look(rank: int, host: str, row: dict[str, Any]) -> RankLook:
    recorded = row.get("collectives")
    recorded = recorded if isinstance(recorded, dict) else None
    io = [count_or_none(value) for value in listed(row.get("io"))[:2]]
    return RankLook(
        rank=rank,
        host=host,
        pid=count_or_none(row.get("pid")),
        state=plain(row.get("state"), 1),
        wchan=plain(row.get("wchan"), NAME),
        syscall=_syscall(row.get("syscall")),
        blocked_on=_blocked_on(row.get("blocked_on")),
        cpu=_number(row.get("cpu")),
        main_cpu=_number(row.get("main_cpu")),
        cpus=count_or_none(row.get("cpus")),
        io=(io[0], io[1]) if len(io) == 2 and io[0] is not None and io[1] is not None else None,
        stacks=plain(row.get("stacks"), NAME),
        threads=tuple(_thread(t) for t in _rows(row.get("threads"), 16)),
        source=_source(row.get("source")),
        waits_in_loop=bool(truth(row.get("waits_in_loop"))),
        collectives=_collectives(recorded.get("last")) if recorded is not None else None,
        groups=_groups(recorded.get("groups")) if recorded is not None else {},
        collectives_why=plain(row.get("collectives_why"), NAME),
        connections=_connections(row.get("connections")),
        children=tuple(
            _rank_look(rank, host, {**c, "children": []}) for c in _rows(row.get("children"), 16)
        ),
        zombies=count_or_none(row.get("zombies")) or 0,
        name=plain(row.get("name"), NAME),
        parent=count_or_none(row.get("parent")),
        exited=bool(truth(row.get("exited"))),
        ended=plain(row.get("ended"), NAME),
        forked=_frame(row.get("forked")),
    )


def _thread(row: dict[str, Any]) -> Thread:
    return Thread(
        main=bool(truth(row.get("main"))),
        name=plain(row.get("name"), NAME),
        frames=_frames(row.get("frames")),
        id=plain(row.get("id"), NAME),
        source=_source(row.get("source")),
        state=plain(row.get("state"), 1),
        wchan=plain(row.get("wchan"), NAME),
        syscall=_syscall(row.get("syscall")),
        blocked_on=_blocked_on(row.get("blocked_on")),
        wait=_wait(row.get("waits")),
    )


def _wait(value: Any) -> Wait:
    row = value if isinstance(value, dict) else {}
    what, call, text, state, by = (
        plain(row.get(key), NAME) for key in ("what", "call", "text", "state", "by")
    )
    tasks = _frames(listed(row.get("tasks"))[:8])
    child = count_or_none(row.get("child")) or 0
    return Wait(what, call, text, state, by, _frame(row.get("at")), child, tasks)


def _number(value: Any) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value < 1e12 and math.isfinite(value) else None


def _rows(value: Any, most: int) -> list[dict[str, Any]]:
    return [row for row in listed(value)[:most] if isinstance(row, dict)]


def _syscall(value: Any) -> tuple[int, ...]:
    """The number and the arguments up to the first that cannot be read; hosts may write hex."""
    read = list[int]()
    for one in listed(value)[:4]:
        text = plain(one, 20)
        if text.startswith("0x"):
            try:
                one = int(text, 16)
            except ValueError:
                break
        if not isinstance(one, int) or isinstance(one, bool) or not 0 <= one < 1 << 64:
            break
        read.append(one)
    return tuple(read)


def _blocked_on(value: Any) -> BlockedOn | None:
    if not isinstance(value, dict):
        return None
    path, fs, peer = (plain(value.get(key), PATH) for key in ("path", "fs", "peer"))
    pids = tuple(n for n in map(count_or_none, listed(value.get("pids"))[:16]) if n is not None)
    return BlockedOn(plain(value.get("what"), NAME), path, fs[:NAME], peer[:NAME], pids)


def _frame(value: Any) -> Frame | None:
    path, line, function = (*listed(value)[:3], None, None, None)[:3]
    path, line = plain(path, PATH), count_or_none(line)
    return Frame(path, line, plain(function, NAME)) if path and line is not None else None


def _frames(value: Any) -> tuple[Frame, ...]:
    return tuple(f for f in map(_frame, listed(value)[:40]) if f is not None)


def _source(value: Any) -> Source | None:
    frame = _frame(value)
    return Source(frame, plain((*listed(value), "", "", "", "")[3], 160)) if frame else None


def _collectives(value: Any) -> tuple[Collective, ...]:
    found = list[Collective]()
    for row in _rows(value, 1024):
        seq, group = count_or_none(row.get("seq")), plain(row.get("group"), NAME)
        op = plain(row.get("op"), NAME)
        if seq is None or not op:
            continue
        sizes = tuple(
            tuple(n for n in map(count_or_none, listed(size)[:16]) if n is not None)
            for size in listed(row.get("sizes"))[:256]
        )
        dtypes = tuple(plain(one, NAME) for one in listed(row.get("dtypes"))[:256])
        named, p2p, done = plain(row.get("name"), NAME), truth(row.get("p2p")), row.get("done")
        found.append(
            Collective(
                group,
                named,
                seq,
                bool(p2p),
                op.rpartition(":")[2],
                sizes,
                dtypes,
                done is not False,
                _number(row.get("age")),
            )
        )
    return tuple(found)


def _groups(value: Any) -> dict[str, tuple[int, ...]]:
    """The ranks of each process group, where they are told."""
    found = dict[str, tuple[int, ...]]()
    for key, row in list(value.items())[:256] if isinstance(value, dict) else ():
        ranks = listed(row.get("ranks")) if isinstance(row, dict) else []
        known = [r for r in map(count_or_none, ranks) if r is not None and r < RANKS]
        if known:
            found[plain(key, NAME)] = tuple(known)
    return found


def _connections(value: Any) -> tuple[Connection, ...]:
    found = list[Connection]()
    for row in listed(value)[:32]:
        if not isinstance(row, list) or len(row) < 7:
            continue
        here, peer, state = (plain(text, NAME) for text in row[:3])
        unsent, unread, retransmits = (count_or_none(n) or 0 for n in row[3:6])
        if here and peer:
            seconds = _number(row[6]) or 0.0
            found.append(Connection(here, peer, state, unsent, unread, retransmits, seconds))
    return tuple(found)
