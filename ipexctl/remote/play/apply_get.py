"""The step `get`: a download that is put in place once its SHA-256 is right."""

import hashlib
import http.client
import socket
import threading
import time
import urllib.error
import urllib.request

from ipexctl.remote.failure import Failure
from ipexctl.remote.own_process import start_thread
from ipexctl.remote.play import safe_paths
from ipexctl.remote.play.apply_copy import known
from ipexctl.remote.play.apply_file import PIECE, attributes_only
from ipexctl.remote.play.file_attributes import Attributes
from ipexctl.remote.play.task import result

SLOWEST = 10000  # bytes per second, for as long as `timeout` says
TICK = 0.25


def apply(task):
    args = task.args
    path = safe_paths.absolute(args["dest"])
    uses = dict.fromkeys(("reads", "writes"), safe_paths.uses(path))
    task.reads = uses["reads"]
    wanted = Attributes(args)
    try:
        with safe_paths.place(path) as place:
            found, digest = known(place)
            if digest == args["sha256"].lower():
                return result(*attributes_only(task, place, wanted), **uses)
            if task.check:
                return result(True, "download", **uses)
            with place.replacing() as file:
                size = _download(args, file)
                wanted.apply_new(file.fileno(), found, 0o666)
            return result(True, "%d bytes" % size, **uses)
    except safe_paths.MissingFolder as e:
        if task.check:
            return result(True, "download", failure=e, **uses)
        raise


class _Limits:
    """Ends the connections of a download that takes too long, whatever the server sends meanwhile:
    a timeout of the socket begins again with each byte."""

    def __init__(self, args):
        self.timeout, self.deadline = args["timeout"], args["deadline"]
        self.size, self.most = 0, args["size"]
        self.sockets = []
        self.over = threading.Event()
        self.why = ""
        start_thread(self.watch)

    def watch(self):
        began = since = time.monotonic()
        had = 0
        while not self.over.wait(TICK):
            now = time.monotonic()
            if now - began > self.deadline:
                self.why = "not complete after %g s" % self.deadline
            elif now - since >= self.timeout:
                if self.size - had < SLOWEST * (now - since):
                    self.why = "less than %d kB/s for %g s" % (SLOWEST // 1000, self.timeout)
                since, had = now, self.size
            for link in self.sockets if self.why else ():
                try:
                    link.shutdown(socket.SHUT_RDWR)  # TLS, too, without a goodbye
                except OSError:
                    pass

    def close(self):
        self.over.set()
        for link in self.sockets:
            link.close()

    def require_room(self, size):
        if size > self.most:
            raise ValueError("larger than %d bytes (size)" % self.most)

    def connection(self, kind):
        def connect(made):
            create = made._create_connection

            def opened(*args, **more):
                link = create(*args, **more)
                self.sockets.append(link.dup())  # TLS takes the other; proxies talk before it
                return link

            made._create_connection = opened
            kind.connect(made)

        return type(kind.__name__, (kind,), {"connect": connect})


def _opener(limits):
    class Http(urllib.request.HTTPHandler):
        def http_open(self, req):
            return self.do_open(limits.connection(http.client.HTTPConnection), req)

    class Https(urllib.request.HTTPSHandler):
        def https_open(self, req):
            return self.do_open(limits.connection(http.client.HTTPSConnection), req)

    return urllib.request.build_opener(Http, Https, _SameKind)


class _SameKind(urllib.request.HTTPRedirectHandler):
    """A server may not lead to a file of the host."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        if not _is_http(newurl):
            raise Failure(
                "%s redirects to %s, not followed" % (req.full_url, newurl[:200]),
                slug="redirect-refused",
            )
        if req.full_url.startswith("https://") and not newurl.startswith("https://"):
            raise Failure(
                "%s redirects to plain http, not followed" % req.full_url, slug="redirect-refused"
            )
        fp.close()  # urllib would read its body, however long that is
        return urllib.request.HTTPRedirectHandler.redirect_request(
            self, req, fp, code, msg, headers, newurl
        )


def _is_http(url):
    return url.startswith(("http://", "https://"))


def _download(args, file):
    if not _is_http(args["url"]):
        raise Failure("%s is not an https or http URL" % args["url"], slug="not-a-url")
    digest = hashlib.sha256()
    request = urllib.request.Request(args["url"], headers={"User-Agent": "ipexctl"})
    limits = _Limits(args)
    try:
        with _opener(limits).open(request, timeout=args["timeout"]) as answer:
            limits.require_room(answer.length or 0)
            for piece in iter(lambda: answer.read1(PIECE), b""):
                limits.size += len(piece)
                limits.require_room(limits.size)
                digest.update(piece)
                file.write(piece)
        if limits.why:
            raise ValueError(limits.why)
    except urllib.error.HTTPError as e:
        raise Failure(
            "%s: the server says %d %s" % (args["url"], e.code, e.reason), slug="download-failed"
        ) from None
    except (OSError, ValueError, http.client.HTTPException) as e:
        why = limits.why or str(getattr(e, "reason", "") or e)
        raise Failure("cannot download %s" % args["url"], why, slug="download-failed") from None
    finally:
        limits.close()
    if digest.hexdigest() != args["sha256"].lower():
        raise Failure(
            "%s does not have the expected content" % args["url"],
            "SHA-256 %s, %d bytes" % (digest.hexdigest(), limits.size),
            "check the URL, then correct sha256",
            slug="content-differs",
        )
    return limits.size
