"""Make Python end with the exit code of the script, on every rank.

A thread of torch's gloo backend (ProcessGroupGloo::runLoop) drops a finished collective, and with
it Python objects, only after the script has been told that it has finished. If the script ends
meanwhile, this thread waits for the GIL while Python finalizes; Python before 3.14 ends such a
thread with pthread_exit(), which unwinds a destructor that is noexcept: std::terminate(), SIGABRT.
So these threads get the GIL until all of them are asleep. This does not wait for collectives.

Then PID.ended in the folder of this file gets the script's exit code: Python can still crash.
"""

import atexit
import gc
import os
import sys
import time

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any, NoReturn

    from ipexctl.in_ranks.rank_site import AfterImport

HERE = os.path.dirname(os.path.abspath(__file__))
GLOO = "pt_gloo_runloop"
LONGEST = 2.0  # seconds to wait for these threads, which may be busy with other ranks
PAUSE = 0.001
codes = []  # type: list[Any]  # code of the SystemExit by which Python exits


class ExitCode(object):
    """A descriptor for `SystemExit.code`. Python reads it, with no frame below, to exit with it."""

    def __init__(self, member: "Any") -> None:
        self.member = member

    def __get__(self, error: "SystemExit | None", kind: "type | None" = None) -> "Any":
        if error is None:
            return self.member
        code = self.member.__get__(error, kind)
        if sys._getframe().f_back is None:
            codes[:] = [code]
        return code

    def __set__(self, error: "SystemExit", code: object) -> None:
        self.member.__set__(error, code)

    def __delete__(self, error: "SystemExit") -> None:
        self.member.__delete__(error)


def watch_exit_code() -> bool:
    """Watch `SystemExit.code`, as the exception is gone when atexit functions run. A built-in type
    is read-only, but the dict of its attributes is not. Return whether it worked."""
    if sys.implementation.name != "cpython":
        return False
    members = gc.get_referents(SystemExit.__dict__)[0]
    members["code"] = ExitCode(members["code"])
    if sys.version_info < (3, 12):  # sys.exit() in C creates no object until it is caught
        exit.__module__ = "sys"
        sys.exit = exit
    return True


def exit(status: "Any" = None) -> "NoReturn":
    """Exit as sys.exit() does."""
    raise SystemExit(status)


def exit_code() -> "int | None":
    """Return the code with which Python exits; None if it is not known."""
    if any("code" in vars(kind) for kind in SystemExit.__subclasses__()):
        return None
    if not codes:
        return 1 if hasattr(sys, "last_type") else 0
    code = codes[0]
    if code is None:
        return 0
    if not isinstance(code, int):
        return 1
    return code & 255 if abs(code) < 1 << 63 else 255


def let_gloo_finish() -> None:
    """Give up the GIL until all threads of gloo are asleep, for at most LONGEST seconds."""
    end = time.time() + LONGEST
    before = gloo_threads()
    while before and time.time() < end:
        time.sleep(PAUSE)  # without the GIL: a thread that waits for it runs now
        now = gloo_threads()
        if now == before and all(state[:1] == "S" for state, _ in now.values()):
            return
        before = now


def gloo_threads() -> "dict[str, tuple[str, list[str]]]":
    """Return {thread: (its state, how often it yielded or lost its CPU)}."""
    threads = {}
    for thread in os.listdir("/proc/self/task"):
        try:
            with open("/proc/self/task/%s/status" % thread) as file:
                parts = [line.partition(":") for line in file]
        except OSError:
            continue  # the thread has ended
        rows = {name: value.strip() for name, _, value in parts}
        if rows.get("Name") == GLOO:
            threads[thread] = rows["State"], [rows[key] for key in rows if "ctxt" in key]
    return threads


def exit_with_script_code(is_watched: bool) -> None:
    """Flush the output, and write the script's exit code to PID.ended."""
    try:
        let_gloo_finish()
        code = exit_code() if is_watched else None
        if code is None:
            return
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not getattr(stream, "closed", False):
                stream.flush()
        with open(os.path.join(HERE, "%d.ended" % os.getpid()), "w") as file:
            file.write("%d" % code)
    except (Exception, KeyboardInterrupt):
        pass  # Python then reports the error, or ends without this module's help


def begin(after_import: "AfterImport") -> None:
    """Register the exit function before any of the user's, so that it is called last."""
    atexit.register(exit_with_script_code, watch_exit_code())
