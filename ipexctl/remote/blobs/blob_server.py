"""Serve blobs to other hosts of the same command, over mutual TLS: GET /SHA256.

Only the named blobs are served, and only to clients with the certificate of this command. The port
is open until the agent ends. The receiver of a blob checks its hash.
"""

import http.server
import os
import re
import socketserver
import threading

from ipexctl.common.port_answers import PortOpened
from ipexctl.remote import root_folder
from ipexctl.remote.blobs import blobs
from ipexctl.remote.connection import listeners, peer_tls
from ipexctl.remote.own_process import start_thread

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    import io
    import socket
    import ssl
    from typing import Any

    from typing_extensions import Protocol

    from ipexctl.remote.main import Call

    Request = socket.socket | tuple[bytes, socket.socket]

    class PathsBySha(Protocol):
        """A dict, for one."""

        def get(self, __sha: str) -> str | None: ...


CHUNK = 1 << 18
RANGE = re.compile(r"bytes=([0-9]{1,15})-\Z")
TIMEOUT = 30.0  # seconds for a client that takes no data
HANDSHAKE = 5.0  # seconds for a client to present its certificate
AT_ONCE = 32  # connections; a further one waits for the end of one that shows no certificate


def op_open(call: "Call", root: str, wanted: "list[str]", keys: "dict[str, str]") -> PortOpened:
    """Serve the blobs of these sha256. `keys`: cert and key of the command."""
    root = root_folder.prepare_root(root)
    paths = {sha: blobs.path_of(root, sha) for sha in wanted}
    return PortOpened(Server(keys, paths).begin())


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

    def __init__(self, keys: "dict[str, str]", paths: "PathsBySha") -> None:
        self.context, self.paths = peer_tls.make_tls_context(keys, True), paths
        self.free = threading.BoundedSemaphore(AT_ONCE)
        listener = listeners.open_listener()
        self.address_family = listener.family
        http.server.HTTPServer.__init__(self, listener.getsockname(), Handler, False)
        self.socket.close()
        self.socket = listener
        self.server_address = listener.getsockname()

    def begin(self) -> int:
        """Serve in a separate thread. Return the port."""
        start_thread(self.serve_forever)
        return self.server_address[1]

    def get_request(self) -> "tuple[ssl.SSLSocket, Any]":
        """Accept a connection; its own thread does the TLS handshake."""
        request, address = self.socket.accept()
        request.settimeout(HANDSHAKE)
        tls = self.context.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
        return tls, address

    def process_request(self, request: "Request", client_address: "Any") -> None:
        if not self.free.acquire(timeout=HANDSHAKE + 1):
            return self.shutdown_request(request)
        return socketserver.ThreadingMixIn.process_request(self, request, client_address)

    def process_request_thread(self, request: "Request", client_address: "Any") -> None:
        try:
            socketserver.ThreadingMixIn.process_request_thread(self, request, client_address)
        finally:
            self.free.release()

    def handle_error(self, request: "Request", client_address: "Any") -> None:
        """Ignore clients that close their connection."""


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server
    timeout = TIMEOUT
    protocol_version = "HTTP/1.1"  # one connection for many files

    def setup(self) -> None:
        self.request.do_handshake()
        http.server.BaseHTTPRequestHandler.setup(self)

    def do_GET(self) -> None:
        path = self.server.paths.get(self.path[1:])
        if not path or not os.path.isfile(path):
            self.send_error(404)
            return
        with open(path, "rb") as file:
            self.send_file(file)

    def send_file(self, file: "io.BufferedReader") -> None:
        """Send the file, or the rest of it that the Range header asks for."""
        size = os.fstat(file.fileno()).st_size
        range_match = RANGE.match(self.headers.get("Range", ""))
        begin = int(range_match.group(1)) if range_match else 0
        if begin > size or (range_match and begin == size):
            self.send_error(416)
            return
        self.send_response(206 if range_match else 200)
        if range_match:
            self.send_header("Content-Range", "bytes %d-%d/%d" % (begin, size - 1, size))
        self.send_header("Content-Length", str(size - begin))
        self.end_headers()
        self.wfile.flush()
        file.seek(begin)
        buffer = memoryview(bytearray(CHUNK))
        for n in iter(lambda: file.readinto(buffer), 0):
            self.connection.sendall(buffer[:n])

    def log_message(self, *words: object) -> None:
        """Log nothing."""

    def version_string(self) -> str:
        return "ipexctl"
