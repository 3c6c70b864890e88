"""Fetch files from another host of the same command into this host's blobs; each is checked.

The controller says which host has them. Only a host with the key of this command is asked, without
a proxy; redirects are not followed.
"""

import contextlib
import http.client
import socket
import ssl
import time
import urllib.parse

from ipexctl.common.blob_answers import BlobsFetched, BytesArrived
from ipexctl.common.http_body import BodyBroken, read_body_pieces
from ipexctl.common.sizes import format_bytes
from ipexctl.remote import root_folder
from ipexctl.remote.blobs import blobs
from ipexctl.remote.connection import peer_tls
from ipexctl.remote.failure import Failure

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Iterator

    from ipexctl.remote.main import Call, Emitter

TOLD = 0.2  # seconds between two events about bytes
REACHED = 3.0  # seconds for a connection
TIMEOUT = 10.0  # short: the requester can get the file from the controller instead, and others wait
SLOWEST = 50000  # bytes per second
HEADERS = {"User-Agent": "ipexctl", "Accept-Encoding": "identity"}
AGAIN = "run the same command again"


def op_fetch(
    call: "Call", root: str, giver: str, files: "list[tuple[str, str, int]]", keys: "dict[str, str]"
) -> BlobsFetched:
    """Fetch `files`, each a name, sha256 and size, from the address `giver`. `keys`: cert and key
    of the command. BytesArrived reports bytes that are here now, fetched or left by an earlier try.
    """
    root = root_folder.prepare_root(root)
    blobs.remove_dead_parts(root_folder.make_subfolder(root, "blobs", "parts"))
    missing = [file for file in files if not blobs.has_blob(root, *file[1:])]
    needed = sum(max(0, size - blobs.part_size(root, sha)) for _, sha, size in missing)
    root_folder.need_space(root, needed, len(missing))
    with contextlib.closing(BlobDownload(call, root, keys, giver)) as download:
        for name, sha, size in missing:
            download.fetch(name, sha, size)
        download.report_received()
    return BlobsFetched(download.fetched)


class BlobDownload:
    """Fetch the files of one host one after the other: this uses the network fully, and a host that
    holds one file at a time never waits in a ring with others that want the same."""

    def __init__(self, call: "Emitter", root: str, keys: "dict[str, str]", giver: str) -> None:
        self.call, self.root = call, root
        address = urllib.parse.urlsplit(giver)
        assert address.hostname
        self.link = http.client.HTTPSConnection(
            address.hostname,
            address.port,
            timeout=REACHED,
            context=peer_tls.make_tls_context(keys, False),
        )
        self.fetched = self.untold = 0
        self.told = time.time()

    def close(self) -> None:
        self.link.close()

    def fetch(self, name: str, sha: str, size: int) -> None:
        """Fetch one file into this host's blobs. Raise Failure."""
        part = blobs.claim_part(self.call, self.root, sha, size)
        if part is None:
            self.count_received(size)
            return
        try:
            self.count_received(blobs.resume_offset(part, size))
            blobs.fill_part(
                self.root, part, sha, size, lambda offset: self.read_rest(name, sha, size, offset)
            )
        finally:
            part.close()

    def read_rest(self, name: str, sha: str, size: int, offset: int) -> "Iterator[bytes]":
        """Yield the bytes of the file from `offset` on."""
        if offset == size:
            return
        try:
            with self.request_bytes(sha, offset) as answer:
                for piece in read_body_pieces(answer, size, TIMEOUT, SLOWEST, have=offset):
                    yield piece
                    offset += len(piece)
                    self.count_received(len(piece), len(piece))
        except BodyBroken as e:
            note = "; %s of it are kept" % format_bytes(offset) if offset else ""
            what = "%s did not send %s" % (self.link.host, name)
            raise Failure(what, str(e) + note, AGAIN, slug="fetch") from None

    def connect(self) -> None:
        self.link.connect()
        self.link.sock.settimeout(TIMEOUT)

    def request_bytes(self, sha: str, offset: int) -> "http.client.HTTPResponse":
        """Return the HTTP response from byte `offset` on. Raise BodyBroken."""
        headers = dict(HEADERS, Range="bytes=%d-" % offset) if offset else HEADERS
        try:
            if self.link.sock is None:
                self.connect()
            self.link.request("GET", "/" + sha, headers=headers)
            answer = self.link.getresponse()
        except (http.client.HTTPException, OSError, ValueError) as e:
            raise BodyBroken(error_text(e)) from None
        if answer.status != (206 if offset else 200):
            raise BodyBroken("HTTP %d %s" % (answer.status, answer.reason))
        return answer

    def count_received(self, size: int, fetched: int = 0) -> None:
        self.fetched += fetched
        self.untold += size
        if time.time() - self.told > TOLD:
            self.report_received()

    def report_received(self) -> None:
        size, self.untold, self.told = self.untold, 0, time.time()
        self.call.emit(BytesArrived(size).document())


def error_text(error: Exception) -> str:
    """Describe the error in the system's words."""
    if isinstance(error, socket.timeout):
        return "no answer in time"
    if isinstance(error, ssl.SSLError):
        return peer_tls.in_words(error)
    if isinstance(error, OSError) and error.strerror:
        return str(error.strerror)
    if isinstance(error, http.client.RemoteDisconnected):
        return "the host closed the connection"
    return type(error).__name__
