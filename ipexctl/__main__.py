"""The entry point. It exits without the interpreter's own teardown, which takes 70 ms."""

import atexit
import gc
import os
import sys
import threading

INTERRUPTED = 130  # errors.EXIT_INTERRUPTED, which a Ctrl-C may have kept from being imported


def program() -> None:
    try:
        _run_and_leave()
    except KeyboardInterrupt:  # before a command has begun, or after it
        os._exit(INTERRUPTED)


def _run_and_leave() -> None:
    # by default each 700 new objects are looked at for circles: a twentieth of the CPU
    gc.set_threshold(20_000, 20, 20)
    try:
        from ipexctl.cli import main  # most of the time until a command begins

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
