"""Starts guardians for a process that has threads: a child forked before they began.

It receives one end of a socket pair for each guardian, which reads its orders from there.
"""

import array
import os
import select
import socket

from ipexctl.common import frames
from ipexctl.remote.run import guardian

LOOK = 1.0  # seconds until it collects guardians that have ended


class Starter:
    def __init__(self) -> None:
        self.ours, theirs = socket.socketpair()
        if os.fork() == 0:
            try:
                self.ours.close()
                serve_start_requests(theirs)
            finally:
                os._exit(0)
        theirs.close()

    def has_ended(self) -> bool:
        """Return whether the child has ended: it sends nothing, so only end-of-file is readable."""
        return bool(select.select([self.ours], [], [], 0)[0])

    def begin(self) -> "frames.Frames":
        """Start a guardian; return the frames of its link."""
        ours, theirs = socket.socketpair()
        fds = array.array("i", [theirs.fileno()])
        self.ours.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        theirs.close()
        return frames.of_socket(ours)


def serve_start_requests(link: "socket.socket") -> None:
    """Fork a guardian for each file descriptor received; collect guardians that have ended."""
    while True:
        readable = select.select([link], [], [], LOOK)[0]
        try:
            for _ in guardian.collect_children():
                pass
        except ChildProcessError:
            pass  # it has started none, or none is left
        if not readable:
            continue
        fd = receive_fd(link)
        if fd is None:
            return
        if os.fork() == 0:
            link.close()
            os.setsid()
            guardian.guard_run(frames.of_socket(socket.socket(fileno=fd)))
        os.close(fd)


def receive_fd(link: "socket.socket") -> "int | None":
    """Return the next file descriptor; None when the other end has closed the link."""
    fds = array.array("i")
    _, ancillary, _, _ = link.recvmsg(1, socket.CMSG_SPACE(fds.itemsize))
    if not ancillary:
        return None
    fds.frombytes(ancillary[0][2][: fds.itemsize])
    return fds[0]
