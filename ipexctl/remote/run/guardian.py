"""The guardian of a run on its host: it starts the supervisor, kills it if it does not respond for
too long, and sweeps after it was killed.

It waits at one end of a socket pair; the agent (run_watch.py) has the other. If the agent ends
before a run has begun, so does the guardian.
"""

import mmap
import os
import signal
import time

from ipexctl.common import run_events
from ipexctl.common.run_orders import StartOrder
from ipexctl.remote import root_folder, scratch_folder
from ipexctl.remote.failure import Failure, bug, document
from ipexctl.remote.own_process import no_core_dump
from ipexctl.remote.rank import rank_wrapper
from ipexctl.remote.run import control, supervisor
from ipexctl.remote.run_files import journal, run_folders

LOOK = 1.0
PATIENCE = 7.0  # seconds after the time at which a supervisor counts as lost until it is killed


def guard(link, keep=None):
    """Run as guardian. `keep` starts the keeper of a run with --restarts."""
    try:
        import ssl  # noqa: F401  the hub's link needs it: read while the project is on its way
    except ImportError:
        pass  # reported where it is needed
    frame = link.read()
    if frame is None:
        os._exit(0)
    asked = StartOrder.read(frame[0])
    if keep is not None and asked.night:
        keep(asked)
        if asked.spare:
            link.write({"kept": True})
            os._exit(0)
    if asked.secret:
        no_core_dump()
    try:
        scratch = scratch_folder.make()
    except OSError as e:
        link.write({"error": document(supervisor.cannot_write(e, "/tmp"))})
        os._exit(0)
    began = time.monotonic()
    rank_wrapper.set_subreaper()
    rank_wrapper.set_name(rank_wrapper.GUARDIAN)
    shown = control.guardian_socket(asked.run_id, asked.host)
    pulse = mmap.mmap(-1, 1)  # shared with the supervisor
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    pid = os.fork()
    if pid == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        shown.close()
        rank_wrapper.set_name(rank_wrapper.SUPERVISOR)
        supervise(link, asked, scratch, pulse)
    how = end_of(pid, pulse, asked.lease + PATIENCE)
    survivors = rank_wrapper.kill_all(asked.run_id, os.getpid()) if how else []
    scratch_folder.remove(scratch)
    if how:
        note(asked, how, len(survivors), time.monotonic() - began)
        try:
            link.write({"killed": how, "survivors": len(survivors)})
        except OSError:
            pass  # the agent has gone
    shown.close()  # the guardian will record nothing more
    run_folders.sweep(root_folder.named(asked.root))
    scratch_folder.sweep()
    os._exit(0)


def note(asked: StartOrder, how, survivors, seconds):
    """Record how and when this host's part of the run ended, in place of the supervisor."""
    end = {"at": round(seconds, 3)}  # the supervisor began when the guardian did
    try:
        top = root_folder.checked(asked.root)
        path = journal.path_of(os.path.join(top, "runs", asked.run_id), asked.host)
        lost = run_events.about(asked.host, run_events.HostLost(how))
        journal.append(path, dict(end, fact=lost))
        journal.append(path, dict(end, over=how, survivors=survivors))
    except (OSError, Failure):
        pass  # a full disk, or no journal yet


def supervise(link, asked: StartOrder, scratch, pulse):
    try:
        os.setsid()
        supervisor.run(link, asked, scratch, pulse)
    except Failure as e:
        failed(link, document(e))
    except BaseException:
        failed(link, bug())
    finally:
        os.kill(os.getppid(), signal.SIGCONT)  # a stopped guardian would stay
        os._exit(0)


def failed(link, error):
    try:
        link.write({"error": error})
    except OSError:
        pass  # the agent has gone


def end_of(child, pulse, patience):
    """Return how the child was killed, "" if it ended on its own. Kill it after `patience` seconds
    without a pulse, except while this process was stopped, too. Also collect orphans."""
    last, silence, looked, frozen = pulse[0], 0.0, time.monotonic(), ""
    while True:
        signal.sigtimedwait([signal.SIGCHLD], LOOK)
        now = time.monotonic()
        silence, looked = silence + min(now - looked, 2 * LOOK), now
        for pid, status in collected():
            if pid == child:
                how = "was killed (signal %d)" % os.WTERMSIG(status)
                killed = "the supervisor of the run " + (frozen or how)
                return killed if os.WIFSIGNALED(status) else ""
        if pulse[0] != last:
            last, silence = pulse[0], 0.0
        elif silence > patience:
            frozen = frozen or "did not respond for %.0f s and was killed" % patience
            os.kill(child, signal.SIGKILL)


def collected():
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        yield pid, status
