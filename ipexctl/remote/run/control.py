"""Talk to the supervisor of a run on this host: an abstract Unix socket, one line each way.

Its name vanishes with the supervisor, so a connection proves that it is alive; process ids and
locks on a shared disk cannot. Any account can take a name that it knows before, so the name is
drawn by lot, and a file in the run's folder has it. The guardian has such a socket, too, which
answers nothing.
"""

import errno
import json
import os
import socket
import struct
import time

from ipexctl.common.control_questions import SupervisorQuestion, WatchRun
from ipexctl.common.files import write_atomic
from ipexctl.common.processes import stat_of, user_name
from ipexctl.common.strict_json import read_strict_json
from ipexctl.remote import root_folder
from ipexctl.remote.failure import Failure
from ipexctl.remote.own_process import start_thread

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable
    from typing import Any

    Message = dict[str, Any]
    Answer = Callable[[Message], Message]
    Watch = Callable[[socket.socket], object]

PATIENCE = 5.0  # seconds for one question
PAUSE = 0.05
DRAWS = 3  # names that are tried
NONCE_BYTES = 200  # more than its file has
BACKLOG = 1024  # connections that wait; the kernel's own limit may be lower


def serve_control_socket(folder: str, host: str, answer: "Answer", watch: "Watch") -> None:
    """Listen in a thread. `answer(message)` returns a reply; it is called in a separate thread, as
    is `watch(connection)` for an agent that wants to watch the run."""
    start_thread(accept_connections, open_control_socket(folder, host), answer, watch)


def open_control_socket(folder: str, host: str) -> "socket.socket":
    """Return a listener under a name that nobody can know before, once that is written down in the
    run's folder. It shows that this process is alive until it is closed."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    for draw in range(DRAWS):
        nonce = os.urandom(8).hex()
        address = socket_address(folder, nonce)
        try:
            listener.bind(address)
            break
        except OSError as e:
            if e.errno != errno.EADDRINUSE or draw == DRAWS - 1:
                listener.close()
                raise name_refused(address, e) from None
    listener.listen(BACKLOG)
    root_folder.make_subfolder(folder, os.path.dirname(nonce_path("", host)))
    write_atomic(nonce_path(folder, host), "%s %d %s" % (nonce, os.getpid(), start_of(os.getpid())))
    return listener


def socket_address(folder: str, nonce: str) -> str:
    """Return the socket's name, which has at most 107 bytes."""
    return "\0ipexctl-run/%d/%s/%s" % (os.getuid(), os.path.basename(folder), nonce)


def nonce_path(folder: str, host: str) -> str:
    """Return the file of a process's nonce, its id and its start; hosts may share the folder."""
    return os.path.join(folder, "sockets", os.path.basename(host) or "-")


def account_that_holds(address: str) -> "int | None":
    """Return the uid of the process that listens under this name; None if none accepts."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connect_with_timeout(link, address, PAUSE)
        return peer_credentials(link)[1]
    except OSError:
        return None
    finally:
        link.close()


def name_refused(address: str, error: OSError) -> "Failure":
    """Return the failure of a socket that got no name. Who holds the last one is asked."""
    uid = account_that_holds(address)
    why = error.strerror or str(error)
    if error.errno == errno.EADDRINUSE:
        why = "another process holds it" if uid is None else "account %s holds it" % user_name(uid)
    return Failure(
        "cannot open the control socket @%s of the run: %s" % (address[1:], why),
        "without it, `ipexctl ps` and `ipexctl stop` could not reach the run",
        slug="control-socket-taken",
    )


def start_of(pid: "int | str") -> str:
    """Return when a process began, in ticks; "" if it has ended."""
    return "".join(stat_of(pid)[1][19:20])


def guardian_of(host: str) -> str:
    return "guardian of " + host


def keeper_of(host: str) -> str:
    """Return the keeper's name in a run with --restarts, under the id of the first attempt."""
    return "keeper of " + host


def accept_connections(listener: "socket.socket", answer: "Answer", watch: "Watch") -> None:
    while True:
        try:
            link, _ = listener.accept()
        except OSError:  # too many open files: no reason to stop listening
            time.sleep(PAUSE)
            continue
        if peer_credentials(link)[1] in (os.getuid(), 0):
            start_thread(answer_connection, link, answer, watch)
        else:
            link.close()


def answer_connection(link: "socket.socket", answer: "Answer", watch: "Watch") -> None:
    """Answer one message, or hand the connection to `watch` if the message asks for that."""
    link.settimeout(PATIENCE)
    is_watched = False
    try:
        message = receive_line(link)
        if isinstance(message, dict) and SupervisorQuestion.kind_of(message) is WatchRun:
            is_watched = True
            watch(link)
        elif isinstance(message, dict):
            send_line(link, answer(message))
    except (OSError, ValueError):
        pass
    finally:
        if not is_watched:
            link.close()


def receive_line(link: "socket.socket") -> "Any":
    """Return the next message, or None if the other end has closed the connection. It is one line
    of JSON: every version of ipexctl can ask a supervisor of another one."""
    received = b""
    while b"\n" not in received:
        data = link.recv(65536)
        if not data:
            return None
        received += data
    return read_strict_json(received.split(b"\n", 1)[0])


def send_line(link: "socket.socket", message: "Message") -> None:
    link.sendall(json.dumps(message).encode("utf-8") + b"\n")


def open_watch_socket(folder: str, host: str) -> "socket.socket | None":
    """Return a socket to the supervisor for frames; it sends first. None: no supervisor."""
    try:
        link = connect_to_supervisor(folder, host)
        if link is not None:
            send_line(link, WatchRun().document())
            link.settimeout(None)
        return link
    except OSError:
        return None


def ask_supervisor(folder: str, host: str, message: "Message") -> "Message | None":
    """Return the supervisor's reply. None: no supervisor, or no answer in time."""
    try:
        link = connect_to_supervisor(folder, host)
        if link is None:
            return None
        with link:
            send_line(link, message)
            reply = receive_line(link)  # type: Message | None
    except (OSError, ValueError):
        return None
    return reply


def is_alive(folder: str, host: str) -> bool:
    """Return whether a supervisor exists, even one that is stopped or whose queue is full."""
    try:
        link = connect_to_supervisor(folder, host, patience=0.0)
    except BlockingIOError:  # another account may have filled it, or taken the name of a dead one
        words = read_nonce(folder, host)
        return bool(words) and start_of(words[1]) == words[2]
    if link is not None:
        link.close()
    return link is not None


def read_nonce(folder: str, host: str) -> "list[str]":
    """Return [nonce, process id, its start], [] if there was no such process."""
    try:  # a rank could have put a pipe or a device there, which must not stop `ps`
        fd = os.open(nonce_path(folder, host), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return []
    try:
        words = os.read(fd, NONCE_BYTES).decode("ascii", "replace").split()
    except OSError:
        return []
    finally:
        os.close(fd)
    return words if len(words) == 3 else []


def connect_to_supervisor(
    folder: str, host: str, patience: "float | None" = None
) -> "socket.socket | None":
    """Connect to this user's supervisor; None if there is none. Raises BlockingIOError."""
    written = read_nonce(folder, host)
    if not written:
        return None
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connect_with_timeout(link, socket_address(folder, written[0]), patience)
        if peer_credentials(link)[1] == os.getuid():
            return link
    except BlockingIOError:
        link.close()
        raise
    except OSError:
        pass
    link.close()
    return None


def connect_with_timeout(
    link: "socket.socket", address: str, patience: "float | None" = None
) -> None:
    """Connect. Raise BlockingIOError if the listener's queue stays full: any user can fill it."""
    patience = PATIENCE if patience is None else max(0.0, patience)
    if not patience:
        link.setblocking(False)
    seconds = struct.pack("ll", int(patience), int(patience % 1 * 1e6) + 1)  # 0 is no limit
    link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, seconds)
    link.connect(address)
    link.settimeout(patience)


def peer_credentials(link: "socket.socket") -> "tuple[int, int]":
    """Return (process, user) at the other end."""
    credentials = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", credentials)[:2]
