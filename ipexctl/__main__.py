"""The program. It ends without taking Python apart: that takes 70 ms, and nobody has any of it."""

import atexit
import os
import sys
import threading

from ipexctl.cli import main


def program() -> None:
    try:
        main()
    except SystemExit as e:
        if not isinstance(e.code, int) or not _may_leave():
            raise
        os._exit(e.code & 255)


def _may_leave() -> bool:
    """What others want done at the end is done. Not: a thread is waited for, a stream is broken."""
    others = [t for t in threading.enumerate() if t is not threading.main_thread()]
    if not all(thread.daemon for thread in others):
        return False
    try:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return False
    return True


if __name__ == "__main__":
    program()
