"""Ask a process that has imported ipexctl/in_ranks/rank_site.py for its Python stacks, its last
collectives, and what its threads wait for.

The signal that requests them would kill a process that does not handle it, and a process whose
files were closed would write into whatever it has opened since: neither is asked.
"""

import json
import os
import re

from ipexctl.common.rank_looks import RankAnswer, StackFrame, ThreadLook
from ipexctl.common.tolerant_reads import size_of
from ipexctl.remote.hang import process_state

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from ipexctl.common.rank_looks import Collectives, ThreadReport

SIGNAL = 62  # that of rank_site.py
BIT = 1 << (SIGNAL - 1)
FRAMES, THREADS = 100, 16  # limits; faulthandler writes at most 100 frames, too
IMPORTS = "<frozen importlib"  # half of the frames while modules are imported: left out
SETTLED = 0.06  # seconds without new text after which the answer is complete
LARGEST = 1 << 20
HEAD = re.compile(r"(?:Current thread|Thread) 0x([0-9a-f]+)(?: \[(.*)\])? \(most recent call first")
FRAME = re.compile(r'  File "(.*)", line (\d{1,18}|\?+) in (.*)$')
ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")
TGKILL = {"x86_64": 234, "aarch64": 131}


class Question:
    """A request for the stacks of one process. `why`: "", or why there is no answer."""

    def __init__(self, site: "str | None", pid: int) -> None:
        self.site = site
        self.path = os.path.join(os.path.realpath(site), "%d.stacks" % pid) if site else ""
        self.before = self.size = size_of(self.path)
        self.grew = None  # type: float | None  # when
        self.why = ask_for_stacks(self.path, pid)

    def is_over(self, now: float) -> bool:
        size = size_of(self.path)
        if size != self.size:
            self.size, self.grew = size, now
        return bool(self.why) or (self.grew is not None and now - self.grew >= SETTLED)

    def find_fork(self) -> "StackFrame | None":
        """Return the line that forked this process, or None."""
        match = search_stack_file(self.path, rb"^forked (\d{1,9}) (.+)$")
        if match is None:
            return None
        return StackFrame(match.group(2).decode("utf-8", "replace"), int(match.group(1)), "")

    def answer(self) -> "tuple[str, list[ThreadLook]]":
        """Return ("ok" or why there is no answer, the threads)."""
        if self.why or size_of(self.path) <= self.before:
            return self.why or "silent", []
        try:
            with open(self.path, "rb") as f:
                text = f.read(LARGEST).decode("utf-8", "replace")
            if self.is_over(float("inf")):
                os.truncate(self.path, self.before)  # all of it has been read
        except OSError:
            return "silent", []
        threads = parse_stacks(text, os.path.dirname(self.path))
        return "ok" if threads else "silent", threads


class RankQuestion:
    """A request to the thread of rank_site.py in a rank. `why`: "", or why there is no answer."""

    def __init__(self, site: "str | None", pid: int, state: str) -> None:
        base = os.path.join(site or "", "%d." % pid)
        self.path = base + "answer"
        self.cpu = 0.0  # seconds that the answer took
        self.why = "not asked"
        if site and os.path.exists(base + "ask"):
            self.why = "silent" if state in "TtXZ" else self.ask(base + "ask")

    def ask(self, path: str) -> str:
        """Write to the pipe that the rank reads. Return "", or "silent" if that is not possible."""
        try:
            if os.path.exists(self.path):
                os.unlink(self.path)
            pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            try:
                os.write(pipe, b"?")
            finally:
                os.close(pipe)
        except OSError:
            return "silent"  # nothing reads it any more, or too many asked
        return ""

    def is_over(self) -> bool:
        return bool(self.why) or os.path.exists(self.path)

    def answer(self) -> "tuple[Collectives | None, str, list[ThreadReport]]":
        """Return (collectives or None, why there are none, what each thread waits for)."""
        if self.why:
            return None, self.why, []
        try:
            with open(self.path) as f:
                answer = RankAnswer.read(json.loads(f.read(LARGEST)))
            self.cpu = answer.cpu
            return answer.collectives, answer.why, answer.waits
        except (OSError, ValueError, TypeError, RecursionError):
            return None, "silent", []


def ask_for_stacks(path: str, pid: int) -> str:
    """Send the signal. Return "", or the reason why it was not sent."""
    status = process_state.status_of("/proc/%d" % pid)
    threads = process_state.list_threads(pid)
    if not status or not threads:
        return "none"
    if all(thread.state in "Tt" for thread in threads):
        return "silent"
    ignored, caught, pending = (int(status.get(k, "0"), 16) for k in ("SigIgn", "SigCgt", "ShdPnd"))
    if ignored & BIT:
        return "blocked"
    if not caught & BIT or not process_state.has_open(pid, path):
        return "none"
    receivers = [t for t in threads if not t.blocked & BIT and t.state not in "TtZX"]
    if not receivers:
        return "blocked"
    if (pending | sum(t.pending & BIT for t in threads)) & BIT:
        return ""  # a signal is pending
    awake = [t.id for t in receivers if t.state != "D"]
    match = search_stack_file(path, rb"^asked (\d+)$")  # the thread of rank_site.py
    own_thread = int(match.group(1)) if match else None  # its system call goes on after a signal
    try:
        if own_thread is not None and own_thread in awake:
            send_to_thread(pid, own_thread)
        elif any(t.id == pid and t.state == "D" for t in receivers) and awake:
            send_to_thread(pid, awake[0])  # the kernel would choose the main thread
        else:
            os.kill(pid, SIGNAL)
    except OSError:
        return "none"
    return ""


def search_stack_file(path: str, pattern: bytes) -> "re.Match[bytes] | None":
    """Match a pattern in the head of a file of stacks, written by rank_site.py; None: no match."""
    try:
        with open(path, "rb") as f:
            return re.search(pattern, f.read(4096), re.M)
    except OSError:
        return None


def send_to_thread(pid: int, thread: int) -> None:
    """Send the signal to one thread; any thread writes the stacks of all."""
    number = TGKILL.get(os.uname().machine)
    try:
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        if number is not None and libc.syscall(number, pid, thread, SIGNAL) == 0:
            return
    except Exception:
        pass  # no libffi
    os.kill(pid, SIGNAL)


def parse_stacks(text: str, site: str) -> "list[ThreadLook]":
    """Parse faulthandler's text. The main thread comes first."""
    main, frames = "", []  # type: str, list[StackFrame]
    found = {}  # type: dict[str, tuple[str, list[StackFrame]]]  # by the thread's id: name, frames
    for line in text.splitlines():
        head, frame = HEAD.match(line), FRAME.match(line)
        if line.startswith("main 0x"):
            main = line[7:]
        elif head:
            frames = []
            name = unescape_non_ascii(head.group(2) or "")[: process_state.NAME]
            found[head.group(1)] = name, frames
        elif frame and len(frames) < FRAMES and not frame.group(1).startswith(IMPORTS):
            path, number, function = map(unescape_non_ascii, frame.groups())
            place = StackFrame(path, int(number) if number.isdigit() else 0, function)
            frames.append(shorten_frame(place))
    threads = [
        ThreadLook(ident == main, name, tuple(frames), ident)
        for ident, (name, frames) in found.items()
        if ident == main or not is_ours(frames, site)
    ]
    return sorted(threads, key=lambda thread: not thread.main)[:THREADS]


def shorten_frame(frame: StackFrame) -> StackFrame:
    path, function = frame.path[: process_state.PATH], frame.function[: process_state.NAME]
    return StackFrame(path, frame.line, function)


def is_ours(frames: "list[StackFrame]", site: str) -> bool:
    return any(f.path.startswith(site + "/") and f.function == "answer" for f in frames)


def unescape_non_ascii(text: str) -> str:
    """Undo the escapes that faulthandler writes for characters that are not ASCII."""
    return ESCAPE.sub(lambda match: chr(int("".join(match.groups("")), 16)), text)
