"""Read from /proc the state of a process, what its main thread waits for, and what it used.

Nothing here opens a file that the process has open, or reads its attributes: with a dead file
server, that would block like the process.
"""

import collections
import os
import re
import struct

from ipexctl.common.message import HUGE
from ipexctl.common.processes import fields_of, stat_of
from ipexctl.common.tolerant_reads import link_of, names_in, read_text

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any

    from ipexctl.common.rank_looks import BlockedOn

TICKS = float(os.sysconf("SC_CLK_TCK"))
PATH, NAME = 400, 60  # characters of one that are kept
MOST_THREADS = 512
ON_FILES = "0 1 5 8 17 18 19 20 42 43 44 45 46 47 72 73 74 75 77 78 217 288 295 296"
ON_FILES_ARM = "25 32 46 61 62 63 64 65 66 67 68 69 70 80 82 83 202 203 206 207 211 212 242"
# System calls by their numbers: those whose first argument is an open file, those whose first or
# second is a path, and those that wait for a lock, for files in a list, for files in a set
CALLS = {
    "x86_64": {
        "file": {int(word) for word in ON_FILES.split()},
        "path": ({2, 4, 6, 21, 59, 76, 82, 83, 87, 89}, {257, 258, 262, 263, 269, 332, 437, 439}),
        "futex": {202},
        "poll": {7, 271},
        "select": {23, 270},
        "epoll": {232, 281},
    },
    "aarch64": {
        "file": {int(word) for word in ON_FILES_ARM.split()},
        "path": ({45, 221}, {34, 35, 48, 56, 78, 79, 291, 437, 439}),
        "futex": {98},
        "poll": {73},
        "select": {72},
        "epoll": {22},
    },
}
# the function of the kernel in which a thread waits, where its system call may not be read
WAITS = (
    ("futex", "futex"),
    ("pipe", r"pipe|fifo"),
    ("poll", r"poll|do_select|ep_wait"),
    ("socket", r"sk_|inet|tcp|unix_|skb"),
    ("file", r"nfs|rpc|folio|page|io_sched|fuse|locks_lock|flock|lustre|cl_sync|ceph|cifs|smb"),
)
# the same for the statistics of a run: a main thread that sleeps, waits for a disk, for a process
IDLE_WAITS = (
    ("sleep", "nanosleep"),
    ("disk", r"folio|page|io_sched|blk|jbd2|xfs|ext4|btrfs|nfs|rpc|fuse|lustre|cl_sync|ceph|cifs"),
    ("process", r"poll|do_select|ep_wait|pipe|fifo|sk_|inet|tcp|unix_|skb|do_wait"),
)
Thread = collections.namedtuple("Thread", "id state blocked pending")


def read_process_state(pid: int) -> str:
    """Return the state of the main thread, or T if all threads are stopped."""
    words = stat_of("%d/task/%d" % (pid, pid))[1]
    if not words or words[0] == "T":
        states = {thread.state for thread in list_threads(pid)}
        return "T" if states == {"T"} else (words or ["X"])[0]
    return words[0]


def list_threads(pid: int) -> "list[Thread]":
    threads = []
    for name in names_in("/proc/%d/task" % pid)[:MOST_THREADS]:
        status = status_of("/proc/%d/task/%s" % (pid, name))
        if status:
            blocked, pending = (int(status.get(key, "0"), 16) for key in ("SigBlk", "SigPnd"))
            threads.append(Thread(int(name), status.get("State", "X")[:1], blocked, pending))
    return threads


def status_of(folder: str) -> "dict[str, str]":
    return fields_of(read_text(folder + "/status"))


def cpu_seconds(pid: "int | str", with_children: bool = True) -> float:
    """Return the CPU time of a process, or of a thread (PID/task/TID), including children that have
    ended, so that nothing is lost when one ends."""
    words = stat_of(pid)[1][11 : 15 if with_children else 13]
    return sum(int(word) for word in words) / TICKS


def idle_wait(pid: int) -> str:
    """Return what the main thread of a process waits for: a name in IDLE_WAITS, "" for all else."""
    channel = wait_channel("/proc/%d/task/%d" % (pid, pid))
    return next((what for what, words in IDLE_WAITS if re.search(words, channel)), "")


def exit_status(pid: int) -> str:
    """Return how a zombie process ended: "signal 9", "exit code 1", or ""."""
    words = stat_of(pid)[1]
    if len(words) < 50 or words[0] != "Z":
        return ""
    status = int(words[49])
    return "signal %d" % (status & 127) if status & 127 else "exit code %d" % (status >> 8)


def read_thread_state(task: str) -> str:
    """Return the state of one thread. `task`: its folder in /proc."""
    words = stat_of(task[len("/proc/") :])[1]
    return words[0] if words else "X"


def system_call(task: str) -> "tuple[int, ...]":
    """Return its number and its first three arguments; (): not in a call, or not readable. What is
    larger than any address or number of a process is HUGE."""
    words = read_text(task + "/syscall").split()
    if len(words) < 7 or not words[0].isdigit():
        return ()
    return (int(words[0]),) + tuple(min(HUGE, int(word, 16)) for word in words[1:4])


def wait_channel(task: str) -> str:
    name = read_text(task + "/wchan").strip()
    return "" if name == "0" else name[:NAME]


def blocked_on(
    pid: int, call: "tuple[int, ...]", channel: str, peers: "dict[int, str]"
) -> "BlockedOn | None":
    """Return what the main thread waits for, or None. `peers`: socket inode -> its other end."""
    if not call:
        what = next((what for what, words in WAITS if re.search(words, channel)), None)
        return describe_blocker(what) if what else None
    number, first, second, _ = call
    calls: "dict[str, Any]" = CALLS.get(os.uname().machine, {})
    kind = next((k for k in calls if k != "path" and number in calls[k]), "")
    if kind == "file":
        return open_file(pid, first, channel, peers)
    if kind in ("poll", "epoll"):
        watched = read_poll_fds(pid, first, second) if kind == "poll" else watched_by(pid, first)
        if kind == "poll" and not second:
            return None  # a sleep
        rows = [open_file(pid, number, "", peers) for number in watched]
        rows.sort(key=lambda row: not row.peer)
        return (rows[0] if rows else describe_blocker()).replace(what="poll")
    if kind:
        return describe_blocker("poll" if kind == "select" else kind)
    for argument, numbers in enumerate(calls.get("path", ())):
        if number in numbers:
            path = string_at(pid, call[1 + argument])
            if not path:
                return open_file(pid, first, channel, peers) if argument else None
            path = os.path.join(link_of("/proc/%d/cwd" % pid), path)
            if re.search("wait_for_partner|fifo|pipe", channel):  # the process is opening a pipe
                return describe_blocker("pipe", path=path)
            return describe_blocker("file", path=path, fs=file_system(pid, path))
    return None


def describe_blocker(what: str = "", path: str = "", fs: str = "", peer: str = "") -> "BlockedOn":
    from ipexctl.common.rank_looks import BlockedOn  # the statistics of a run need none

    return BlockedOn(what, path[:PATH], fs[:NAME], peer[:NAME])


def open_file(pid: int, number: int, channel: str, peers: "dict[int, str]") -> "BlockedOn":
    name = link_of("/proc/%d/fd/%d" % (pid, number))
    kind, _, inode = name.partition(":[")
    if kind == "socket":
        return describe_blocker("socket", peer=peers.get(int(inode.rstrip("]")), ""))
    if kind == "pipe" or re.search("pipe|fifo", channel):
        return describe_blocker("pipe", path="" if kind == "pipe" else name).replace(open=name)
    if not name.startswith("/"):
        return describe_blocker("file" if name else "", path=name)
    return describe_blocker("file", path=name, fs=file_system(pid, name))


def has_open(pid: int, name: str) -> bool:
    """Return whether a process has that file or pipe open."""
    folder = "/proc/%d/fd" % pid
    return any(link_of("%s/%s" % (folder, number)) == name for number in names_in(folder))


def read_poll_fds(pid: int, address: int, count: int) -> "list[int]":
    data = read_process_memory(pid, address, 8 * min(count, 64))
    return [number for number, _ in struct.iter_unpack("=iI", data[: len(data) & ~7])]


def watched_by(pid: int, number: int) -> "list[int]":
    numbers = re.findall(r"^tfd: +(\d+)", read_text("/proc/%d/fdinfo/%d" % (pid, number)), re.M)
    return [int(word) for word in numbers[:64]]


def string_at(pid: int, address: int) -> str:
    """Read the text at an address, up to the end of its page: the next may not exist. After the
    system call has ended, anything may be there: unprintable bytes are not a text."""
    data = read_process_memory(pid, address, min(PATH, 4096 - address % 4096))
    text = data.partition(b"\0")[0].decode("utf-8", "replace")
    return text if text.isprintable() and "\ufffd" not in text else ""


def read_process_memory(pid: int, address: int, size: int) -> bytes:
    try:
        with open("/proc/%d/mem" % pid, "rb", 0) as f:
            f.seek(address)
            return f.read(size) or b""
    except (OSError, ValueError, OverflowError):
        return b""


def file_system(pid: int, path: str) -> str:
    """Return the type of the file system that holds the path."""
    mount, kind = "", ""
    for line in read_text("/proc/%d/mountinfo" % pid).splitlines():
        words, _, source = line.partition(" - ")
        folder = re.sub(r"\\(\d{3})", lambda match: chr(int(match.group(1), 8)), words.split()[4])
        if (path + "/").startswith(folder.rstrip("/") + "/") and len(folder) >= len(mount):
            mount, kind = folder, source.split(" ")[0]
    return kind
