"""Talk to the supervisor of a run on this host: an abstract Unix socket, one line each way.

Its name vanishes with the supervisor, so a connection proves that it is alive; process ids and
locks on a shared disk cannot. The guardian has such a socket, too, which answers nothing.
"""

import hashlib
import json
import os
import socket
import struct
import time

from ipexctl.remote.own_process import start_thread

PATIENCE = 5.0  # seconds for one question
PAUSE = 0.05


def socket_address(run_id, host):
    """Return the socket's name. It has at most 107 bytes, so the host's name is hashed."""
    short = hashlib.sha256(host.encode("utf-8")).hexdigest()[:16]
    return "\0ipexctl-run/%d/%s/%s" % (os.getuid(), run_id, short)


def serve_control_socket(run_id, host, answer, watch):
    """Listen in a thread. `answer(message)` returns a reply; it is called in a separate thread, as
    is `watch(connection)` for an agent that wants to watch the run."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(socket_address(run_id, host))
    except OSError:  # the name is taken: the run continues, and ps shows it as lost
        return
    listener.listen(64)
    start_thread(accept_connections, listener, answer, watch)


def guardian_socket(run_id, host):
    """Return a listener that shows that the guardian lives, until it is closed."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(socket_address(run_id, guardian_of(host)))
        listener.listen(64)
    except OSError:
        pass
    return listener


def guardian_of(host):
    return "guardian of " + host


def keeper_of(host):
    """Return the keeper's name in a run with --restarts, under the id of the first attempt."""
    return "keeper of " + host


def accept_connections(listener, answer, watch):
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


def answer_connection(link, answer, watch):
    """Answer one message, or hand the connection to `watch` if the message asks for that."""
    link.settimeout(PATIENCE)
    try:
        message = receive_line(link)
        if isinstance(message, dict) and "watch" in message:
            link, watched = None, link
            watch(watched)
        elif isinstance(message, dict):
            send_line(link, answer(message))
    except (OSError, ValueError):
        pass
    finally:
        if link is not None:
            link.close()


def receive_line(link):
    """Return the next message, or None if the other end has closed the connection. It is one line
    of JSON: every version of ipexctl can ask a supervisor of another one."""
    received = b""
    while b"\n" not in received:
        data = link.recv(65536)
        if not data:
            return None
        received += data
    return json.loads(received.split(b"\n", 1)[0].decode("utf-8"))


def send_line(link, message):
    link.sendall(json.dumps(message).encode("utf-8") + b"\n")


def open_watch_socket(run_id, host):
    """Return a socket to the supervisor for frames; it sends first. None: no supervisor."""
    try:
        link = connect_to_supervisor(run_id, host)
        if link is not None:
            send_line(link, {"watch": True})
            link.settimeout(None)
        return link
    except OSError:
        return None


def ask_supervisor(run_id, host, message):
    """Return the supervisor's reply. None: no supervisor, or no answer in time."""
    try:
        link = connect_to_supervisor(run_id, host)
        if link is None:
            return None
        with link:
            send_line(link, message)
            return receive_line(link)
    except (OSError, ValueError):
        return None


def is_alive(run_id, host):
    """Return whether a supervisor exists, even one that is stopped or whose queue is full."""
    try:
        link = connect_to_supervisor(run_id, host)
    except BlockingIOError:
        return True
    if link is not None:
        link.close()
    return link is not None


def connect_to_supervisor(run_id, host):
    """Connect to this user's supervisor; None if there is none. Raises BlockingIOError."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connect_with_timeout(link, socket_address(run_id, host))
        if peer_credentials(link)[1] == os.getuid():
            return link
    except BlockingIOError:
        link.close()
        raise
    except OSError:
        pass
    link.close()
    return None


def connect_with_timeout(link, address, patience=None):
    """Connect. Raise BlockingIOError if the listener's queue stays full: any user can fill it."""
    patience = PATIENCE if patience is None else patience
    seconds = struct.pack("ll", int(patience), int(patience % 1 * 1e6))
    link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, seconds)
    link.connect(address)
    link.settimeout(patience)


def peer_credentials(link):
    """Return (process, user) at the other end."""
    credentials = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", credentials)[:2]
