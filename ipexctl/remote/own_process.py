"""What a process of ours sets for itself."""

import os
import resource
import threading

SAFE_UMASK = 0o022
account_umask = None  # of whoever logs in: the user's own programs get it back


def restrict_umask():
    """What ipexctl makes is not writable for others, whatever the umask of the account is."""
    global account_umask
    account_umask = os.umask(SAFE_UMASK)
    os.umask(account_umask | SAFE_UMASK)


def restore_umask():
    """Called in a child that is about to become a program of the user."""
    if account_umask is not None:
        os.umask(account_umask)


def start_thread(target, *args):
    thread = threading.Thread(target=target, args=args)
    thread.daemon = True
    thread.start()
    return thread


def close_files(*kept):
    """Close what was open in the process from which this one was forked, but for these numbers."""
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2 and fd not in kept:
            try:
                os.close(fd)
            except OSError:
                pass  # the listing's own


def no_core_dump():
    """It could hold a secret."""
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
