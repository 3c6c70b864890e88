"""The guardian of a run on its host: it starts the supervisor, kills it if it does not respond for
too long, and sweeps after it was killed. With --checkpoints it also starts the process that copies
them, and replaces it.

It waits at one end of a socket pair; the agent (run_watch.py) has the other. If the agent ends
before a run has begun, so does the guardian.
"""

import mmap
import os
import signal
import time

from ipexctl.common import run_events
from ipexctl.common.journal_records import FactNoted, PartEnded
from ipexctl.common.run_orders import StartOrder
from ipexctl.common.supervisor_messages import KeeperStarted, StartFailed, SupervisorKilled
from ipexctl.remote import root_folder, scratch_folder
from ipexctl.remote.checkpoints.copy_link import CopyProcess
from ipexctl.remote.failure import Failure, bug_document, failure_document
from ipexctl.remote.own_process import no_core_dump
from ipexctl.remote.rank import rank_wrapper
from ipexctl.remote.run import control, notifier, supervisor
from ipexctl.remote.run_files import journal, run_folders

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable, Iterator

    from ipexctl.common.frames import Frames

LOOK = 1.0
# Seconds after the time at which a supervisor counts as lost until it is killed: not more than
# FENCE in restart/leader.py.
PATIENCE = 7.0


def guard_run(link: "Frames", keep: "Callable[[StartOrder], None] | None" = None) -> None:
    """Run as guardian. `keep` starts the keeper of a run with --restarts."""
    try:
        import ssl  # noqa: F401  the hub's link needs it: read while the project is on its way
    except ImportError:
        pass  # the hub's link reports it
    frame = link.read()
    if frame is None:
        os._exit(0)
    order = StartOrder.read(frame[0])
    if keep is not None and order.restart_plan:
        keep(order)
        if order.spare:
            link.write(KeeperStarted().document())
            os._exit(0)
    if order.secret:
        no_core_dump()
    try:
        folder = make_run_folder(order)
        life_sign = control.open_control_socket(folder, control.guardian_of(order.host))
        copier = CopyProcess(order, folder)
        scratch = scratch_folder.make_scratch_folder()
    except (OSError, Failure) as e:
        failure = e if isinstance(e, Failure) else supervisor.cannot_write(e, "/tmp")
        report_failure(link, failure_document(failure))
        os._exit(0)
    start_time = time.monotonic()
    notices = start_notifier(order, folder)  # before this process adopts what it forks
    rank_wrapper.set_subreaper()
    rank_wrapper.set_name(rank_wrapper.GUARDIAN)
    pulse = mmap.mmap(-1, 1)  # shared with the supervisor
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    pid = os.fork()
    if pid == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        life_sign.close()
        rank_wrapper.set_name(rank_wrapper.SUPERVISOR)
        become_supervisor(link, order, scratch, pulse, notices, copier)
    copier.begin()
    killed = end_of(pid, pulse, order.lease + PATIENCE, copier)
    survivors = rank_wrapper.kill_all(order.run_id, os.getpid()) if killed else []
    copier.end()
    scratch_folder.remove_scratch_folder(scratch)
    if killed:
        note_end(order, killed, len(survivors), time.monotonic() - start_time)
        notices.report_end("failed", "%s was lost: %s" % (order.host, killed))
        try:
            link.write(SupervisorKilled(killed, len(survivors)).document())
        except OSError:
            pass  # the agent has gone
    life_sign.close()  # the guardian will record nothing more
    run_folders.sweep_run_folders(root_folder.expand_root_path(order.root))
    scratch_folder.sweep_scratch_folders()
    os._exit(0)


def make_run_folder(order: StartOrder) -> str:
    root = root_folder.prepare_root(order.root)
    return root_folder.make_subfolder(root, "runs", run_folders.checked_id(order.run_id))


def start_notifier(order: StartOrder, folder: str) -> "notifier.RunNotices":
    """Start the process that runs the command of --notify, on the first host of the run."""
    link, run = None, order.run
    if run is not None and run.notify:
        link = notifier.fork_notifier(
            run.notify, folder, order.run_id, order.about.name, order.host
        )
    return notifier.RunNotices(link, run)


def note_end(order: StartOrder, killed: str, survivors: int, seconds: float) -> None:
    """Record how and when this host's part of the run ended, in place of the supervisor."""
    # the supervisor began when the guardian did
    try:
        top = root_folder.prepare_root(order.root)
        path = journal.path_of(os.path.join(top, "runs", order.run_id), order.host)
        lost = run_events.Fact(run_events.HostLost(killed), order.host)
        journal.append_record(path, FactNoted(lost), seconds)
        journal.append_record(path, PartEnded(killed, survivors), seconds)
    except (OSError, Failure):
        pass  # a full disk, or no journal yet


def become_supervisor(
    link: "Frames",
    order: StartOrder,
    scratch: str,
    pulse: "mmap.mmap",
    notices: "notifier.RunNotices",
    copier: CopyProcess,
) -> None:
    """Run the supervisor in this forked process, report its failure, and exit."""
    try:
        os.setsid()
        supervisor.run_supervisor(link, order, scratch, pulse, notices, copier.supervisors_end())
    except Failure as e:
        report_failure(link, failure_document(e))
    except BaseException:
        report_failure(link, bug_document())
    finally:
        os.kill(os.getppid(), signal.SIGCONT)  # a stopped guardian would stay
        os._exit(0)


def report_failure(link: "Frames", error: "dict[str, str]") -> None:
    try:
        link.write(StartFailed(error).document())
    except OSError:
        pass  # the agent has gone


def end_of(child: int, pulse: "mmap.mmap", patience: float, copier: CopyProcess) -> str:
    """Return how the child was killed, "" if it ended on its own. Kill it after `patience` seconds
    without a pulse, except while this process was stopped, too. Also collect orphans, and replace
    a killed copier."""
    last_pulse, silence, last_look, frozen = pulse[0], 0.0, time.monotonic(), ""
    while True:
        signal.sigtimedwait([signal.SIGCHLD], copier.wait_time(LOOK))
        now = time.monotonic()
        silence, last_look = silence + min(now - last_look, 2 * LOOK), now
        for pid, status in collect_children():
            if pid == child:
                death = "was killed (signal %d)" % os.WTERMSIG(status)
                killed_how = "the supervisor of the run " + (frozen or death)
                return killed_how if os.WIFSIGNALED(status) else ""
            copier.take_end(pid, status)
        copier.start_if_due()
        if pulse[0] != last_pulse:
            last_pulse, silence = pulse[0], 0.0
        elif silence > patience:
            frozen = frozen or "did not respond for %.0f s and was killed" % patience
            os.kill(child, signal.SIGKILL)


def collect_children() -> "Iterator[tuple[int, int]]":
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        yield pid, status
