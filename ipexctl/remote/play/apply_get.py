"""The step `get`: a download that is put in place once its SHA-256 is verified."""

import hashlib
import http.client
import urllib.error
import urllib.request

from ipexctl.common.http_body import BodyBroken, read_body_pieces
from ipexctl.remote.failure import Failure
from ipexctl.remote.play import safe_paths
from ipexctl.remote.play.apply_copy import stat_and_hash
from ipexctl.remote.play.apply_file import attributes_only
from ipexctl.remote.play.file_attributes import Attributes

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from http.client import HTTPMessage
    from typing import IO, Any, BinaryIO

    from ipexctl.remote.play.task import Result, Task

SLOWEST = 10000  # bytes per second, for as long as `timeout` says


def apply(task: "Task") -> "Result":
    args = task.args
    path = safe_paths.absolute_path(args["dest"])
    task.touches(path)
    task.if_missing = True, "download", ""
    attributes = Attributes(args)
    with safe_paths.open_place(path) as place:
        status, digest = stat_and_hash(place)
        if digest == args["sha256"].lower():
            return attributes_only(task, place, attributes)
        if task.check:
            return True, "download", ""
        with place.open_replacement() as file:
            size = _download(args, file)
            attributes.apply_new(file.fileno(), status, 0o666)
        return True, "%d bytes" % size, ""


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects without reading their bodies, which can be of any length."""

    def http_error_302(
        self,
        req: "urllib.request.Request",
        fp: "IO[bytes]",
        code: int,
        msg: str,
        headers: "HTTPMessage",
    ) -> "Any":
        fp.close()
        return urllib.request.HTTPRedirectHandler.http_error_302(self, req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_302


def _download(args: "dict[str, Any]", file: "BinaryIO") -> int:
    digest = hashlib.sha256()
    request = urllib.request.Request(args["url"], headers={"User-Agent": "ipexctl"})
    limits = args["size"], args["timeout"], SLOWEST, args["deadline"]
    size = 0
    try:
        opener = urllib.request.build_opener(_Redirects)
        with opener.open(request, timeout=args["timeout"]) as answer:
            for piece in read_body_pieces(answer, *limits):
                size += len(piece)
                digest.update(piece)
                file.write(piece)
    except urllib.error.HTTPError as e:
        raise Failure(
            "%s: the server says %d %s" % (args["url"], e.code, e.reason), slug="download-failed"
        ) from None
    except (BodyBroken, OSError, ValueError, http.client.HTTPException) as e:
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
