"""Files from a package index straight into this host's blobs: resumed, checked, each once.

The controller says where they are; those addresses are shown to nobody and kept nowhere. Proxies
and CAs are this host's own, as a command over SSH finds them in its environment. No login is ever
sent: the controller does not tell any, and a .netrc is not read.
"""

import concurrent.futures
import errno
import functools
import http.client
import re
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

CHUNK = 1 << 20
PIECE = 1 << 17
TOLD = 0.2  # seconds between two events about bytes
TIMEOUT = 30.0
TIMEOUT_DIRECT = 10.0  # of another host: who asks it can be sent the file instead, and others wait
SLOWEST_DIRECT = 50000  # bytes per second
TRIES = 3  # in a row that bring nothing
FIRST = 2  # of them, while nothing at all has come: it is the way there, then
LONGEST_PAUSE = 30.0
AT_ONCE = 4
FINAL = frozenset([400, 401, 403, 404, 405, 407, 410, 451])
HEADERS = {"User-Agent": "ipexctl", "Accept-Encoding": "identity"}
FROM_HERE = "--fetch controller   # then only the machine you work on needs access to the index"
LOGIN = "--fetch controller   # logins stay on the machine you work on"
GONE = "rm -f ipexctl.lock   # the next install resolves the versions again"
HINTS = {401: LOGIN, 403: LOGIN, 404: GONE, 410: GONE}


class TransferError(Exception):
    """The server's fault or the network's. `status` 0: the answer was no error of HTTP."""

    def __init__(self, words, status=0, pause=None):
        Exception.__init__(self, words)
        self.status, self.pause = status, pause


class NoAnswer(TransferError):
    """There was no answer."""


def op_fetch(call, header):
    """{root, files: [[file, sha256, size, address], ...], keys: {cert, key}} -> {fetched}

    {"event": "got", "bytes": n} tells of bytes that are there now, fetched or left by an earlier
    try; `fetched` is what came over the network. With `keys` only another host
    is asked, and no proxy.
    """
    root = root_folder.checked(header["root"])
    return fetch_all(Work(call, root, header.get("keys")), [File(*raw) for raw in header["files"]])


def fetch_all(work, wanted):
    root = work.root
    blobs.remove_dead_parts(root_folder.subfolder(root, "blobs", "parts"))
    missing = [f for f in wanted if not blobs.has(root, f.sha, f.size)]
    left = sum(max(0, f.least - blobs.part_size(root, f.sha)) for f in missing)
    root_folder.need_space(root, left, len(missing))
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for f in missing:
            pool.submit(work.one, f)
    if work.cause:
        raise work.cause
    work.tell()
    return {"fetched": work.fetched}


def op_measure(call, header):
    """{addresses, bytes, seconds} -> {samples: [[bytes, seconds], ...]}

    Of each file its first bytes, for so long at most; all at the same time, as when they are
    fetched. 0 bytes where nothing comes.
    """
    size, seconds = int(header["bytes"]), float(header["seconds"])
    addresses = [checked_address(a) for a in header["addresses"]]
    tls()
    with concurrent.futures.ThreadPoolExecutor(max(1, len(addresses))) as pool:
        return {"samples": list(pool.map(lambda a: sample(a, size, seconds), addresses))}


def op_read(call, header):
    """{root, sha256, size, from} -> the bytes of a blob from there on, in frames."""
    root = root_folder.checked(header["root"])
    try:
        with open(blobs.path_of(root, header["sha256"]), "rb") as file:
            file.seek(int(header["from"]))
            for chunk in iter(lambda: file.read(CHUNK), b""):
                call.emit({"event": "piece"}, chunk)
    except OSError as e:
        raise Failure(
            "cannot read the blob %s" % header["sha256"][:16], str(e), slug="blob-unreadable"
        ) from None


class File:
    def __init__(self, name, sha, size, address):
        self.name, self.sha, self.size = str(name), blobs.checked_sha(sha), int(size)
        self.address = checked_address(address)
        self.least = self.size  # bytes of room
        self.site = urllib.parse.urlsplit(address).hostname

    def is_in(self, out):
        return out.digest.hexdigest() == self.sha


def checked_address(address):
    found = urllib.parse.urlsplit(address)
    if found.scheme not in ("http", "https") or not found.hostname or found.username:
        raise Failure(
            "hosts cannot download from this URL: expected http(s) without a login",
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

    longest = LONGEST_PAUSE
    again = False  # is a file fetched again that is not the right one?

    def __init__(self, call, root, keys):
        self.call, self.root = call, root
        self.open = opener_to_host(keys) if keys else opener()
        self.direct = bool(keys)
        self.timeout = TIMEOUT_DIRECT if keys else TIMEOUT
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
            if (had or self.again) and not file.is_in(out):  # what was left was not of this file
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
        vain = 0
        while True:
            before = out.size
            try:
                return self.once(out, file)
            except TransferError as e:
                vain = 0 if out.size > before else vain + 1
                most = TRIES if self.fetched or e.status == 429 else FIRST
                if self.direct or e.status in FINAL or vain >= most or self.over.is_set():
                    raise self.failure(file, e, out.size) from None
                self.pause(min(self.longest, float(vain) if e.pause is None else e.pause))

    def pause(self, seconds):
        until = time.time() + seconds
        while not self.over.is_set() and time.time() < until:
            self.call.emit({"event": "alive"})
            self.over.wait(max(0.0, min(blobs.BEAT, until - time.time())))

    def once(self, out, file):
        have = out.size
        asked = dict(HEADERS, Range="bytes=%d-" % have) if have else HEADERS
        answer = open_url(self.open, file.address, asked, self.timeout)
        if answer is None:
            return  # all of it is here already; the hash will tell
        with answer:
            if have and answer.getcode() != 206:
                out.empty()
                self.got(-have)
                have = 0
            self.body(answer, out, file.size - have)

    def body(self, answer, out, room):
        expected, came, began = answer.length, 0, time.time()
        for piece in pieces(answer, self.timeout):
            came += len(piece)
            waited = time.time() - began
            if self.direct and waited > TIMEOUT_DIRECT and came < waited * SLOWEST_DIRECT:
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

    def failure(self, file, e, had):
        if isinstance(e, NoAnswer) and not had:
            return Failure("cannot reach %s" % file.site, str(e), FROM_HERE, slug="fetch")
        kept = "; %s of it are kept" % human_size(had) if had else ""
        again = "run the same command again; or " + FROM_HERE
        what = "%s did not send %s" % (file.site, file.name)
        return Failure(what, str(e) + kept, HINTS.get(e.status, again), slug="fetch")

    def damage_failure(self, file):
        return Failure(
            "%s sent another file for %s than the lock requires" % (file.site, file.name),
            "its sha256 differs from the recorded one; the download was discarded",
            "run the same command again; if that does not help: " + GONE,
            slug="damaged",
        )


# --- HTTP ----------------------------------------------------------------------------------------


def opener(*more):
    https = urllib.request.HTTPSHandler(context=tls())
    return urllib.request.build_opener(https, Redirects, *more)


class Redirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req, fp, code, msg, headers, newurl):
        fp.close()  # urllib would read its body, however long that is
        return urllib.request.HTTPRedirectHandler.redirect_request(
            self, req, fp, code, msg, headers, newurl
        )


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


def open_url(opener, address, headers, timeout):
    """The answer; None when there is nothing from that byte on. Raises Broken."""
    try:
        return opener.open(urllib.request.Request(address, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as e:
        e.close()
        if e.code == 416:
            return None
        raise TransferError("HTTP %d %s" % (e.code, e.reason), e.code, retry_after(e)) from None
    except (http.client.HTTPException, OSError, ValueError) as e:
        raise NoAnswer(error_text(e, timeout)) from None


@functools.lru_cache(maxsize=None)
def tls():
    """One for all files: it reads all CAs of the system."""
    return ssl.create_default_context()


def pieces(answer, timeout):
    while True:
        try:
            piece = answer.read1(PIECE)
        except (http.client.HTTPException, OSError) as e:
            raise TransferError(error_text(e, timeout)) from None
        if not piece:
            return
        yield piece


def error_text(e, timeout):
    """An error's own text can hold what is in a proxy's address: only the system's are shown."""
    inner = getattr(e, "reason", e)
    if isinstance(inner, socket.timeout):
        return "no answer for %d s" % timeout
    if isinstance(inner, ssl.SSLError):
        return "TLS: %s; SSL_CERT_FILE on that host can name further CAs" % (inner.reason,)
    if isinstance(inner, OSError) and inner.strerror:
        return inner.strerror
    if isinstance(inner, OSError) and str(inner).startswith("Tunnel connection failed"):
        return "the proxy said: %s" % str(inner)[:80]
    if isinstance(inner, http.client.RemoteDisconnected):
        return "the server closed the connection"
    return type(e).__name__


def retry_after(e):
    """What the server asks for; dates are not worth a parser here."""
    said = e.headers.get("Retry-After", "") if e.headers else ""
    if re.match(r"[0-9]{1,9}\Z", said):
        return float(said)
    limit = re.search(r";\s*t\s*=\s*([0-9]{1,9})", (e.headers or {}).get("RateLimit", ""))
    return float(limit.group(1)) if limit else None


def sample(address, size, seconds):
    began, came = time.time(), 0
    try:
        asked = dict(HEADERS, Range="bytes=0-%d" % (size - 1))
        answer = open_url(opener(), address, asked, seconds)
        if answer is not None:
            with answer:
                while came < size and time.time() - began < seconds:
                    piece = answer.read1(min(PIECE, size - came))
                    if not piece:
                        break
                    came += len(piece)
    except (TransferError, http.client.HTTPException, OSError):
        return [0, time.time() - began]
    return [came, time.time() - began]
