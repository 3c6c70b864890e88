"""The step `get`: a download that is put in place once its SHA-256 is right."""

import hashlib
import http.client
import urllib.error
import urllib.request

from ipexctl.common.http_body import Broken, pieces
from ipexctl.remote.failure import Failure
from ipexctl.remote.play import safe_paths
from ipexctl.remote.play.apply_copy import known
from ipexctl.remote.play.apply_file import attributes_only
from ipexctl.remote.play.file_attributes import Attributes
from ipexctl.remote.play.task import result

SLOWEST = 10000  # bytes per second, for as long as `timeout` says


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
    limits = args["size"], args["timeout"], SLOWEST, args["deadline"]
    size = 0
    try:
        opener = urllib.request.build_opener(_SameKind)
        with opener.open(request, timeout=args["timeout"]) as answer:
            for piece in pieces(answer, *limits):
                size += len(piece)
                digest.update(piece)
                file.write(piece)
    except urllib.error.HTTPError as e:
        raise Failure(
            "%s: the server says %d %s" % (args["url"], e.code, e.reason), slug="download-failed"
        ) from None
    except (Broken, OSError, ValueError, http.client.HTTPException) as e:
        why = str(getattr(e, "reason", "") or e)
        raise Failure("cannot download %s" % args["url"], why, slug="download-failed") from None
    if digest.hexdigest() != args["sha256"].lower():
        raise Failure(
            "%s does not have the expected content" % args["url"],
            "SHA-256 %s, %d bytes" % (digest.hexdigest(), size),
            "check the URL, then correct sha256",
            slug="content-differs",
        )
    return size
