"""The entry point. It exits without the interpreter's own teardown, which takes 70 ms."""

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
    """Run the atexit functions and flush both streams. False if the interpreter must exit as usual:
    it waits for a thread, or a stream is broken."""
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
