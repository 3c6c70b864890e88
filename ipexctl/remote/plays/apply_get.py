"""The step `get`: a download that is put in place once its SHA-256 is right."""

import hashlib
import urllib.error
import urllib.request

from ipexctl.remote.failure import Failure
from ipexctl.remote.plays import safe_paths
from ipexctl.remote.plays.apply_copy import known
from ipexctl.remote.plays.apply_file import PIECE, attributes_only
from ipexctl.remote.plays.file_attributes import Attributes
from ipexctl.remote.plays.task import result


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
        if not newurl.startswith(("http://", "https://")):
            raise Failure("%s redirects to %s, not followed" % (req.full_url, newurl[:200]))
        if req.full_url.startswith("https://") and not newurl.startswith("https://"):
            raise Failure("%s redirects to plain http, not followed" % req.full_url)
        return urllib.request.HTTPRedirectHandler.redirect_request(
            self, req, fp, code, msg, headers, newurl
        )


def _download(args, file):
    digest, size = hashlib.sha256(), 0
    request = urllib.request.Request(args["url"], headers={"User-Agent": "ipexctl"})
    try:
        with urllib.request.build_opener(_SameKind).open(
            request, timeout=args["timeout"]
        ) as answer:
            for piece in iter(lambda: answer.read(PIECE), b""):
                digest.update(piece)
                file.write(piece)
                size += len(piece)
    except urllib.error.HTTPError as e:
        raise Failure("%s: the server says %d %s" % (args["url"], e.code, e.reason)) from None
    except (OSError, ValueError) as e:
        why = str(getattr(e, "reason", "") or e)
        raise Failure("cannot download %s" % args["url"], why) from None
    if digest.hexdigest() != args["sha256"].lower():
        raise Failure(
            "%s does not have the expected content" % args["url"],
            "SHA-256 %s, %d bytes" % (digest.hexdigest(), size),
            "check the URL, then correct sha256",
        )
    return size
