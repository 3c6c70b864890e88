"""A package index over HTTP, from a folder of wheels: counts what is asked, misbehaves when told.

Pages as PEP 503 has them, with each wheel's sha256; metadata beside the wheels as in PEP 658, so
that a resolver has no reason to ask for a wheel itself.
"""

from __future__ import annotations

import hashlib
import re
import socket
import ssl
import struct
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote


@dataclass(frozen=True)
class Fault:
    """What happens to the next `times` requests for a file.

    `cut` and `reset`: the connection ends after so many bytes, politely or not. `status`: that
    answer instead. `to`: that answer sends them there. `other`: as many bytes, of another content.
    `silent`: no answer at all.
    """

    kind: str
    number: int = 0
    times: int = 1
    to: str = ""


@dataclass
class Served:
    """`seen`: every GET as (path, Range). `faults`: by file name; `then`: once those are over.

    `wanted`: requests without this Authorization are refused. `at_ask`: called before every
    answer, while a client waits for it.
    """

    folder: Path
    url: str = ""
    ranges: bool = True
    seen: list[tuple[str, str]] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    wanted: str = ""
    faults: dict[str, Fault] = field(default_factory=dict)
    then: dict[str, Fault] = field(default_factory=dict)
    at_ask: Callable[[], object] = lambda: None
    over: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _hashes: dict[tuple[Path, int], str] = field(default_factory=dict)

    @property
    def index(self) -> str:
        return f"{self.url}/simple/"

    def asked(self, name: str) -> list[str]:
        """The Range of each request for a file."""
        return [asked for path, asked in self.seen if path == f"/files/{name}"]

    def wheels_asked(self) -> list[str]:
        return sorted(path[7:] for path, _ in self.seen if path.endswith(".whl"))

    def fault_of(self, name: str) -> Fault:
        with self._lock:
            fault = self.faults.get(name, Fault(""))
            if fault.times > 1:
                self.faults[name] = replace(fault, times=fault.times - 1)
            elif name in self.faults:
                del self.faults[name]
                self.faults.update({name: self.then.pop(name)} if name in self.then else {})
            return fault

    def page(self, project: str) -> bytes | None:
        links = [
            f'<a href="/files/{p.name}#sha256={self._sha256(p)}" data-core-metadata="true">'
            f"{p.name}</a>"
            for p in sorted(self.folder.glob("*.whl"))
            if re.sub(r"[-_.]+", "-", p.name.split("-")[0]).lower() == project
        ]
        return "\n".join(links).encode() if links else None

    def _sha256(self, path: Path) -> str:
        key = path, path.stat().st_mtime_ns
        if key not in self._hashes:
            self._hashes[key] = hashlib.sha256(path.read_bytes()).hexdigest()
        return self._hashes[key]


@contextmanager
def served(
    folder: Path, address: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> Iterator[Served]:
    told = Served(folder)
    http = _Server((address, 0), _handler(told))
    told.url = f"http://{address}:{http.server_port}"
    if tls:
        http.socket = tls.wrap_socket(http.socket, server_side=True, do_handshake_on_connect=False)
        told.url = f"https://{address}:{http.server_port}"
    threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield told
    finally:
        told.over.set()
        http.shutdown()
        http.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Clients hang up where a certificate does not suit them."""
        if not isinstance(sys.exc_info()[1], ssl.SSLError):
            super().handle_error(*_)


def _handler(told: Served) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            told.at_ask()
            if self.command == "GET":
                told.seen.append((self.path, self.headers.get("Range", "")))
                told.users.append(self.headers.get("Authorization", ""))
            name = unquote(self.path).rpartition("/files/")[2]
            fault = told.fault_of(name)
            if told.wanted and self.headers.get("Authorization") != told.wanted:
                self.say(401, b"who are you?")
            elif fault.kind == "silent":
                told.over.wait()
                self.close_connection = True
            elif fault.kind == "status":
                self.say(fault.number, b"not now", to=fault.to)
            elif self.path.startswith("/simple/"):
                page = told.page(self.path.split("/")[2])
                self.say(404 if page is None else 200, page or b"", "text/html")
            elif name.endswith(".metadata"):
                self.say(200, _metadata(told.folder / name[: -len(".metadata")]))
            else:
                self.send_file(told.folder / Path(name).name, fault)

        do_HEAD = do_GET

        def say(
            self, status: int, body: bytes, kind: str = "application/octet-stream", to: str = ""
        ) -> None:
            self.send_response(status)
            if to:
                self.send_header("Location", to)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def send_file(self, path: Path, fault: Fault) -> None:
            size = path.stat().st_size
            asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            start, end = 0, size
            if asked and told.ranges:
                start = int(asked[1])
                end = min(size, int(asked[2] or size) + 1)
            if start >= size > 0:
                return self.say(416, b"")
            self.send_response(206 if asked and told.ranges else 200)
            if asked and told.ranges:
                self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
            self.send_header("Content-Length", str(end - start))
            self.send_header("Accept-Ranges", "bytes" if told.ranges else "none")
            self.end_headers()
            if self.command == "HEAD":
                return None
            if fault.kind == "other":
                self.wfile.write(b"x" * (end - start))
                return None
            broken = fault.kind in ("cut", "reset")
            self.stream(path, start, min(fault.number, end - start) if broken else end - start)
            if broken:
                self.hang_up(rudely=fault.kind == "reset")
            return None

        def stream(self, path: Path, start: int, count: int) -> None:
            self.wfile.flush()
            with path.open("rb") as file:
                if count:
                    self.connection.sendfile(file, start, count)

        def hang_up(self, *, rudely: bool) -> None:
            if rudely:  # a reset instead of an end
                linger = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def _metadata(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return archive.read(name)
