"""What the ranks of a host do at one moment (remote/hang/look.py), and what a rank answers when it
is asked about itself (in_ranks/thread_waits.py). Few commands need this module: where a message has
a field of it, it is imported when the first such message is read."""

from ipexctl.common.message import Line, Message


class StackFrame(Message):
    """A call that a thread is in."""

    path: "Line"
    line: int
    function: "Line"


class WaitSource(Message):
    """The line of the user's code that a thread is in."""

    path: "Line"
    line: int
    function: "Line"
    text: "Line"  # of the line; "" if it cannot be read

    @property
    def frame(self) -> StackFrame:
        return StackFrame(self.path, self.line, self.function)


class BlockedOn(Message):
    """What a thread waits for in the kernel."""

    what: "Line"  # file, pipe, socket, futex, poll or ""
    path: "Line" = ""
    fs: "Line" = ""  # the type of the path's file system
    peer: "Line" = ""  # the other end of a socket
    open: "Line" = ""  # the pipe, as the host's kernel names it
    pids: "tuple[int, ...]" = ()  # child processes that have the same pipe open


class ThreadWait(Message):
    """What a thread waits for, according to its Python objects."""

    what: "Line" = ""  # lock, thread, exit, future, queue, event, process, asyncio and so on
    call: "Line" = ""  # the function written in C that its innermost frame has called
    text: "Line" = ""  # of the lock
    state: "Line" = ""
    by: "Line" = ""  # the id of the thread that holds the lock, or that is to end
    at: "StackFrame | None" = None  # since which line it holds the lock
    child: int = 0  # the process
    tasks: "tuple[StackFrame, ...]" = ()


class ThreadLook(Message):
    """A thread. The state and later fields are not always known."""

    main: bool
    name: "Line"
    frames: "tuple[StackFrame, ...]"  # the innermost first
    id: "Line" = ""
    source: "WaitSource | None" = None
    waits: ThreadWait = ThreadWait()
    state: "Line" = ""
    wchan: "Line" = ""
    syscall: "tuple[int, ...]" = ()  # its number and arguments
    blocked_on: "BlockedOn | None" = None


class Collective(Message):
    """A collective operation."""

    group: "Line"
    name: "Line"  # of the group
    seq: int  # counts per group
    op: "Line"
    sizes: "tuple[tuple[int, ...], ...]"
    dtypes: "tuple[Line, ...]"
    done: bool
    age: "float | None"  # seconds


class GroupRanks(Message):
    """A process group."""

    name: "Line"
    ranks: "tuple[int, ...]"


class Collectives(Message):
    """The last collectives of each group, as gloo recorded them."""

    last: "tuple[Collective, ...]"
    groups: "dict[Line, GroupRanks]" = {}


class RankConnection(Message):
    """A TCP connection of a rank."""

    here: "Line"
    peer: "Line"
    unsent: int = 0  # bytes
    unread: int = 0
    retransmits: int = 0
    unanswered: float = 0.0  # seconds


class RankLook(Message):
    """A rank, or a process that it has started, about which less is known. The state, `wchan`,
    `syscall` and `blocked_on` are those of its main thread."""

    rank: int
    pid: int
    host: "Line" = ""  # the controller adds it
    state: "Line" = "X"
    wchan: "Line" = ""
    syscall: "tuple[int, ...]" = ()
    blocked_on: "BlockedOn | None" = None
    cpu: "float | None" = None  # CPUs in use
    main_cpu: "float | None" = None  # by the main thread
    stacks: "Line" = ""  # "ok", or why there are none
    threads: "tuple[ThreadLook, ...]" = ()
    source: "WaitSource | None" = None
    waits_in_loop: bool = False
    collectives: "Collectives | None" = None  # None: could not be read
    collectives_why: "Line" = ""  # why
    connections: "tuple[RankConnection, ...]" = ()
    children: "tuple[RankLook, ...]" = ()
    name: "Line" = ""
    parent: "int | None" = None
    exited: bool = False
    ended: "Line" = ""  # how, if its parent has not waited for it
    forked: "StackFrame | None" = None  # the line that forked it

    @property
    def frames(self) -> "tuple[StackFrame, ...]":
        """The frames of the main thread."""
        return next((thread.frames for thread in self.threads if thread.main), ())

    @property
    def wait(self) -> ThreadWait:
        """The wait of the main thread."""
        return next((thread.waits for thread in self.threads if thread.main), ThreadWait())

    @property
    def calls(self) -> "tuple[Collective, ...]":
        """The last collectives, as far as they are known."""
        return self.collectives.last if self.collectives else ()

    def ranks_of(self, group: str) -> "tuple[int, ...]":
        """Return the ranks of a group, () if they are not known."""
        known = self.collectives.groups.get(group) if self.collectives else None
        return known.ranks if known else ()


class ThreadReport(ThreadWait):
    """What a rank says of one of its threads."""

    id: "Line" = ""
    name: "Line" = ""
    native: "int | None" = None  # the kernel's number
    place: "StackFrame | None" = None  # of its innermost frame; None: it went on meanwhile


class RankAnswer(Message):
    """A rank's answer."""

    collectives: "Collectives | None"
    why: "Line"  # there are none
    waits: "list[ThreadReport]"
    cpu: float  # seconds that the answer took
