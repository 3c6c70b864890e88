"""The step `wait`."""

import os
import socket
import time

from ipexctl.remote.failure import Failure
from ipexctl.remote.play.safe_paths import absolute

PAUSE = 0.5


def apply(task):
    args = task.args
    wanted = args["state"] in ("started", "present")
    if args["seconds"]:
        if not task.check:
            time.sleep(args["seconds"])
        return False, "waited %g s" % args["seconds"], ""
    what = args["path"] or "port %d of %s" % (args["port"], args["host"])
    began = time.time()
    while _is_there(args) != wanted:
        if task.check:
            return None, "%s is %s now" % (what, "not there" if wanted else "there"), ""
        if time.time() - began > args["timeout"]:
            still = "still not there" if wanted else "still there"
            raise Failure(
                "%s is %s after %g s" % (what, still, args["timeout"]), slug="wait-timeout"
            )
        time.sleep(PAUSE)
    task.reads = ["path:" + absolute(args["path"])] if args["path"] else ["any"]
    took = time.time() - began
    return False, "after %.0f s" % took if took >= 1 else "", ""


def _is_there(args):
    if args["path"]:
        return os.path.lexists(absolute(args["path"]))
    try:
        socket.create_connection((args["host"], args["port"]), 5).close()
        return True
    except OSError:
        return False
