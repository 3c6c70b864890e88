"""Set process attributes: umask, open files, core dumps, threads."""

import os
import resource
import threading

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable

SAFE_UMASK = 0o022
account_umask = None  # type: int | None  # umask of the account; the user's own programs get it back


def restrict_umask() -> None:
    """Make files that ipexctl creates unwritable for others, whatever the account's umask."""
    global account_umask
    account_umask = os.umask(SAFE_UMASK)
    os.umask(account_umask | SAFE_UMASK)


def restore_umask() -> None:
    """Restore the account's umask, in a child that is about to become a user's program."""
    if account_umask is not None:
        os.umask(account_umask)


def start_thread(target: "Callable[..., object]", *args: object) -> "threading.Thread":
    thread = threading.Thread(target=target, args=args)
    thread.daemon = True
    thread.start()
    return thread


def close_files(*kept_fds: int) -> None:
    """Close all files inherited from the process that forked this one, except these numbers."""
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2 and fd not in kept_fds:
            try:
                os.close(fd)
            except OSError:
                pass  # the descriptor of the listing itself


def no_core_dump() -> None:
    """Disable core dumps: one could hold a secret."""
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
