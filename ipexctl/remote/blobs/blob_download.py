"""Files from another host of the same command into this host's blobs: checked, each once.

The controller says where they are. Only a host with the key of this command is asked, by no proxy,
and for no other place that it names.
"""

import concurrent.futures
import errno
import functools
import http.client
import socket
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from ipexctl.remote import root_folder
from ipexctl.remote.blobs import blobs
from ipexctl.remote.connection import peer_tls
from ipexctl.remote.failure import Failure, human_size

PIECE = 1 << 17
TOLD = 0.2  # seconds between two events about bytes
TIMEOUT = 10.0  # who asks another host can be sent the file instead, and others wait
SLOWEST = 50000  # bytes per second
AT_ONCE = 4
HEADERS = {"User-Agent": "ipexctl", "Accept-Encoding": "identity"}
AGAIN = "run the same command again"


class TransferError(Exception):
    """The other host's fault or the network's."""


def op_fetch(call, header):
    """{root, files: [[file, sha256, size, address], ...], keys: {cert, key}} -> {fetched}

    {"event": "got", "bytes": n} tells of bytes that are there now, fetched or left by an earlier
    try; `fetched` is what came over the network.
    """
    root = root_folder.checked(header["root"])
    return fetch_all(Work(call, root, header["keys"]), [File(*raw) for raw in header["files"]])


def fetch_all(work, wanted):
    root = work.root
    blobs.remove_dead_parts(root_folder.subfolder(root, "blobs", "parts"))
    missing = [f for f in wanted if not blobs.has(root, f.sha, f.size)]
    left = sum(max(0, f.size - blobs.part_size(root, f.sha)) for f in missing)
    root_folder.need_space(root, left, len(missing))
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for f in missing:
            pool.submit(work.one, f)
    if work.cause:
        raise work.cause
    work.tell()
    return {"fetched": work.fetched}


class File:
    def __init__(self, name, sha, size, address):
        self.name, self.sha, self.size = str(name), blobs.checked_sha(sha), int(size)
        self.address = checked_address(address)
        self.site = urllib.parse.urlsplit(address).hostname

    def is_in(self, out):
        return out.digest.hexdigest() == self.sha


def checked_address(address):
    found = urllib.parse.urlsplit(address)
    if found.scheme != "https" or not found.hostname or found.username:
        raise Failure(
            "hosts cannot download from this URL: expected https without a login",
            slug="url-refused",
        )
    return address


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

    def __init__(self, call, root, keys):
        self.call, self.root = call, root
        self.open = opener_to_host(keys)
        self.over = threading.Event()
        self.cause = None  # type: BaseException | None  # of the end; the others end because of it
        self.fetched = self.untold = 0
        self.told = time.time()
        self.counting = threading.Lock()

    def one(self, file):
        if self.over.is_set():
            return
        try:
            # one file at a time is held, so that two who want the same files never wait in a ring
            part = blobs.claim_part(self.call, self.root, file.sha, file.size)
            if part is None:
                self.got(file.size)
                return
            try:
                self.fill(part, file)
            finally:
                part.close()
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
        try:
            answer = open_url(self.open, file.address, out.size)
            if answer is None:
                return  # all of it is here already; the hash will tell
            with answer:
                if out.size and answer.getcode() != 206:
                    self.got(-out.size)
                    out.empty()
                self.body(answer, out, file.size - out.size)
        except TransferError as e:
            kept = "; %s of it are kept" % human_size(out.size) if out.size else ""
            what = "%s did not send %s" % (file.site, file.name)
            raise Failure(what, str(e) + kept, AGAIN, slug="fetch") from None

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
            "%s sent another file for %s than the lock requires" % (file.site, file.name),
            "its sha256 differs from the recorded one; the download was discarded",
            AGAIN,
            slug="damaged",
        )


# --- HTTP ----------------------------------------------------------------------------------------


def opener_to_host(keys):
    """Of another host of the command: no proxy, and no other place that it names."""
    made = urllib.request.OpenerDirector()
    made.add_handler(ToHost(keys))
    made.add_handler(urllib.request.UnknownHandler())
    made.add_handler(urllib.request.HTTPErrorProcessor())
    made.add_handler(urllib.request.HTTPDefaultErrorHandler())
    return made


class ToHost(urllib.request.HTTPSHandler):
    def __init__(self, keys):
        context = peer_tls.context(keys, False)
        urllib.request.HTTPSHandler.__init__(self, context=context)
        self.connection = functools.partial(HostConnection, context=context)

    def https_open(self, request):
        return self.do_open(self.connection, request)


class HostConnection(http.client.HTTPSConnection):
    def connect(self):
        try:
            http.client.HTTPSConnection.connect(self)
        except ssl.SSLError as e:
            raise OSError(errno.EPROTO, peer_tls.in_words(e)) from None


def open_url(opener, address, have):
    """The answer from byte HAVE on; None when there is nothing more. Raises TransferError."""
    asked = dict(HEADERS, Range="bytes=%d-" % have) if have else HEADERS
    try:
        return opener.open(urllib.request.Request(address, headers=asked), timeout=TIMEOUT)
    except urllib.error.HTTPError as e:
        e.close()
        if e.code == 416:
            return None
        raise TransferError("HTTP %d %s" % (e.code, e.reason)) from None
    except (http.client.HTTPException, OSError, ValueError) as e:
        raise TransferError(error_text(e)) from None


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
    inner = getattr(e, "reason", e)
    if isinstance(inner, socket.timeout):
        return "no answer for %d s" % TIMEOUT
    if isinstance(inner, ssl.SSLError):
        return peer_tls.in_words(inner)
    if isinstance(inner, OSError) and inner.strerror:
        return inner.strerror
    if isinstance(inner, http.client.RemoteDisconnected):
        return "the host closed the connection"
    return type(e).__name__
