"""Files from another host of the same command into this host's blobs: checked, each once.

The controller says which host has them. Only one with the key of this command is asked, by no
proxy, and for no other place that it names.
"""

import concurrent.futures
import http.client
import socket
import ssl
import threading
import time
import urllib.parse

from ipexctl.remote import root_folder
from ipexctl.remote.blobs import blobs
from ipexctl.remote.connection import peer_tls
from ipexctl.remote.failure import Failure, human_size

PIECE = 1 << 17
TOLD = 0.2  # seconds between two events about bytes
REACHED = 3.0  # seconds for a connection
TIMEOUT = 10.0  # who asks another host can be sent the file instead, and others wait
SLOWEST = 50000  # bytes per second
AT_ONCE = 4
HEADERS = {"User-Agent": "ipexctl", "Accept-Encoding": "identity"}
AGAIN = "run the same command again"


class TransferError(Exception):
    """The other host's fault or the network's."""


def op_fetch(call, header):
    """{root, giver: its address, files: [[file, sha256, size], ...], keys: {cert, key}}
    -> {fetched}

    {"event": "got", "bytes": n} tells of bytes that are there now, fetched or left by an earlier
    try; `fetched` is what came over the network.
    """
    root = root_folder.checked(header["root"])
    work = Work(call, root, header["keys"], header["giver"])
    return fetch_all(work, [File(*raw) for raw in header["files"]])


def fetch_all(work, wanted):
    root = work.root
    blobs.remove_dead_parts(root_folder.subfolder(root, "blobs", "parts"))
    missing = [f for f in wanted if not blobs.has(root, f.sha, f.size)]
    left = sum(max(0, f.size - blobs.part_size(root, f.sha)) for f in missing)
    root_folder.need_space(root, left, len(missing))
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for f in missing:
            pool.submit(work.one_of_several, f)
    if work.cause:
        raise work.cause
    work.tell()
    return {"fetched": work.fetched}


class File:
    def __init__(self, name, sha, size):
        self.name, self.sha, self.size = str(name), blobs.checked_sha(sha), int(size)

    def is_in(self, out):
        return out.digest.hexdigest() == self.sha


class Arriving:
    """A part, to which what comes is added: hashed as it comes, after what was there."""

    def __init__(self, file):
        self.file = file
        self.read()

    def read(self):
        self.file.seek(0)
        self.digest, self.size = blobs.hash_of(self.file), self.file.tell()

    def write(self, data):
        blobs.write_all(self.file.write, data)
        self.digest.update(data)
        self.size += len(data)

    def empty(self):
        self.file.truncate(0)
        self.read()


class Work:
    """What the files of one request have in common. After one failure no other file is begun."""

    def __init__(self, call, root, keys, giver):
        self.call, self.root = call, root
        self.context = peer_tls.context(keys, False)
        self.giver = urllib.parse.urlsplit(giver)
        self.over = threading.Event()
        self.cause = None  # type: BaseException | None  # of the end; the others end because of it
        self.fetched = self.untold = 0
        self.told = time.time()
        self.counting = threading.Lock()

    def one(self, file):
        # one file at a time is held, so that two who want the same files never wait in a ring
        part = blobs.claim_part(self.call, self.root, file.sha, file.size)
        if part is None:
            self.got(file.size)
            return
        try:
            self.fill(part, file)
        finally:
            part.close()

    def one_of_several(self, file):
        try:
            if not self.over.is_set():
                self.one(file)
        except BaseException as e:
            self.cause = self.cause or e
            self.over.set()

    def fill(self, part, file):
        try:
            had = blobs.resume_offset(part, file.size)
            self.got(had)
            out = Arriving(part.file)
            self.download(out, file)
            if had and not file.is_in(out):  # what was left was not of this file
                self.got(-out.size)
                out.empty()
                self.download(out, file)
            if not file.is_in(out):
                blobs.unlink(part.path)
                raise self.damage_failure(file)
            blobs.store_part(self.root, part, out.digest.hexdigest())
        except OSError as e:
            raise root_folder.write_failure(e, self.root, file.size) from None

    def download(self, out, file):
        connection = http.client.HTTPConnection(self.giver.hostname, self.giver.port)
        try:
            answer = ask(connection, self.context, file.sha, out.size)
            if answer is None:
                return  # all of it is here already; the hash will tell
            with answer:
                if out.size and answer.status != 206:
                    self.got(-out.size)
                    out.empty()
                self.body(answer, out, file.size - out.size)
        except TransferError as e:
            kept = "; %s of it are kept" % human_size(out.size) if out.size else ""
            what = "%s did not send %s" % (self.giver.hostname, file.name)
            raise Failure(what, str(e) + kept, AGAIN, slug="fetch") from None
        finally:
            connection.close()

    def body(self, answer, out, room):
        expected, came, began = answer.length, 0, time.time()
        for piece in pieces(answer):
            came += len(piece)
            waited = time.time() - began
            if waited > TIMEOUT and came < waited * SLOWEST:
                raise TransferError("%d bytes in %d s" % (came, waited))
            if came > room:  # another file: no beginning of it is worth keeping
                self.got(-out.size)
                out.empty()
                return
            out.write(piece)
            self.got(len(piece), len(piece))
            if came == expected:  # older Pythons would wait for the server to hang up
                return
        if expected is not None and came < expected:
            raise TransferError("the connection ended %s too early" % human_size(expected - came))

    def got(self, there, fetched=0):
        with self.counting:
            self.fetched += fetched
            self.untold += there
            due = time.time() - self.told > TOLD
        if self.over.is_set():
            raise Failure("another download failed", slug="another-download-failed")
        if due:
            self.tell()

    def tell(self):
        with self.counting:
            there, self.untold, self.told = self.untold, 0, time.time()
        self.call.emit({"event": "got", "bytes": there})

    def damage_failure(self, file):
        return Failure(
            "%s sent another file for %s than was asked for" % (self.giver.hostname, file.name),
            "its sha256 differs from the recorded one; the download was discarded",
            AGAIN,
            slug="damaged",
        )


# --- HTTP ----------------------------------------------------------------------------------------


def ask(connection, context, sha, have):
    """The answer from byte HAVE on; None when there is nothing more. Raises TransferError."""
    asked = dict(HEADERS, Range="bytes=%d-" % have) if have else HEADERS
    try:
        wire = socket.create_connection((connection.host, connection.port), REACHED)
        wire.settimeout(TIMEOUT)
        connection.sock = context.wrap_socket(wire)
        connection.request("GET", "/" + sha, headers=asked)
        answer = connection.getresponse()
    except (http.client.HTTPException, OSError, ValueError) as e:
        raise TransferError(error_text(e)) from None
    if answer.status in (200, 206):
        return answer
    answer.close()
    if answer.status == 416:
        return None
    raise TransferError("HTTP %d %s" % (answer.status, answer.reason))


def pieces(answer):
    while True:
        try:
            piece = answer.read1(PIECE)
        except (http.client.HTTPException, OSError) as e:
            raise TransferError(error_text(e)) from None
        if not piece:
            return
        yield piece


def error_text(e):
    """In the system's words."""
    if isinstance(e, socket.timeout):
        return "no answer in time"
    if isinstance(e, ssl.SSLError):
        return peer_tls.in_words(e)
    if isinstance(e, OSError) and e.strerror:
        return e.strerror
    if isinstance(e, http.client.RemoteDisconnected):
        return "the host closed the connection"
    return type(e).__name__
