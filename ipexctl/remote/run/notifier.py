"""The process on a host that runs the command of `run --notify`, after the run if need be.

It receives events as packets: {key, state, cause}. A command that watches the run may claim an
event; only who creates the file of the claim runs its command, so it runs once.
"""

import glob
import json
import os
import socket
import time

from ipexctl.common import notify_command, run_events
from ipexctl.common.described_ends import describe_program_end, describe_rank_end
from ipexctl.common.journal_records import FactNoted
from ipexctl.common.run_answers import ClaimAnswer
from ipexctl.common.run_events import Fact
from ipexctl.remote.own_process import close_files
from ipexctl.remote.rank import rank_wrapper
from ipexctl.remote.run_files import journal, run_folders

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from ipexctl.common.run_orders import HubOrder
    from ipexctl.remote.main import Call

NAME = "ipexctl-notify"  # as `ps -o comm` shows it
CLAIM = 10.0  # seconds in which a command that watches the run may claim the event
LIMIT = 1 << 16  # bytes of a packet


def fork_notifier(
    command: str, folder: str, run_id: str, name: str, host: str
) -> "socket.socket | None":
    """Fork the process; return the socket to it, None if there is no command. Called before there
    are threads. Its parent is init: what ends the run does not end it."""
    if not command:
        return None
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        theirs.close()
        return ours
    try:
        os.setsid()
        if os.fork() == 0:
            rank_wrapper.set_name(NAME)
            close_files(theirs.fileno())
            serve_notices(theirs, command, folder, run_id, name, host)
    finally:
        os._exit(0)


def serve_notices(
    link: "socket.socket", command: str, folder: str, run_id: str, name: str, host: str
) -> None:
    """Run the command for each event that is not claimed, until the other ends are closed. Then
    nothing else writes to journals, and failures are noted in that of the last attempt here."""
    failures = []
    for packet in iter(lambda: link.recv(LIMIT), b""):
        notice = json.loads(packet.decode("ascii"))
        time.sleep(CLAIM)
        try:
            is_ours = claim_event(folder, notice["key"])
        except OSError:
            continue  # the run's folder was removed, or the disk is full
        if is_ours:
            values = notify_command.describe_event(run_id, name, notice["state"], notice["cause"])
            failures.append(notify_command.run_notify_command(command, values))
    folders = [folder, *sorted(glob.glob(glob.escape(folder) + "-r*"))]
    journals = [*filter(os.path.exists, (journal.path_of(f, host) for f in folders))]
    for failure in filter(None, failures if journals else ()):
        fact = run_events.Fact(run_events.Noted(failure))
        journal.append_record(journals[-1], FactNoted(fact))


def send_notice(link: "socket.socket | None", key: str, state: str, cause: str = "") -> None:
    """Tell the process of an event; the run never waits for it."""
    if link is not None:
        notice = {"key": key, "state": state, "cause": cause[:1000]}
        try:
            link.send(json.dumps(notice).encode("ascii"), socket.MSG_DONTWAIT)
        except OSError:
            pass  # it was killed


class RunNotices:
    """What the supervisor of the first host tells that process, from the facts of the run."""

    def __init__(self, link: "socket.socket | None", run: "HubOrder | None") -> None:
        self.link = link
        self.first = None  # type: Fact | None  # that ended the run
        self.reports_end = run is not None and not run.has_keepers

    def take_facts(self, facts: "list[Fact]") -> None:
        for fact in facts:
            event = fact.event
            if isinstance(event, run_events.Stalled) and self.first is None:
                cause = "no progress for %.0f s" % event.seconds
                send_notice(self.link, "stalled-%d" % event.number, "stalled", cause)
            elif isinstance(event, run_events.Over):
                self.report_end(*describe_end(self.first, event.well))
            elif self.first is None and run_events.is_decisive(event):
                self.first = fact

    def report_end(self, state: str, cause: str) -> None:
        if self.reports_end:
            send_notice(self.link, "end", state, cause)


def describe_end(fact: "Fact | None", succeeded: bool = False) -> "tuple[str, str]":
    """Return how a run ended: its state and the cause. `fact`: the one that ended it, or None."""
    if fact is None:
        return ("done", "") if succeeded else ("failed", "")
    event = fact.event
    if isinstance(event, run_events.RanksSucceeded):
        return "done", ""
    if isinstance(event, run_events.EndAsked):
        return "stopped", event.by
    if isinstance(event, run_events.Abandoned):
        return "stopped", event.why
    return "failed", describe_failure(event, fact.host)


def describe_failure(event: run_events.Event, host: str) -> str:
    if isinstance(event, run_events.HostLost):
        return "%s was lost: %s" % (host, event.why)
    if isinstance(event, run_events.ProgramEnded):
        return "%s %s" % (event.who, describe_program_end(event.code))
    if isinstance(event, run_events.RankExited):
        end = event.ended
        how = describe_rank_end(end.code, end.signal, end.lost)
        return "rank %d on %s %s" % (event.rank, host, how)
    if isinstance(event, run_events.Broken):
        return event.what
    if isinstance(event, run_events.RankRefused):
        return event.refused
    if isinstance(event, run_events.RankFrozen):
        return "rank %d on %s was stopped" % (event.rank, host)
    return "--timeout" if isinstance(event, run_events.TimedOut) else ""


def claim_event(folder: str, key: str) -> bool:
    """Return whether the caller is the first to claim the event."""
    path = os.path.join(folder, "notified-%s" % os.path.basename(key))
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
    except FileExistsError:
        return False
    return True


def op_claim(call: "Call", root: str, run_id: str, key: str) -> ClaimAnswer:
    return ClaimAnswer(claim_event(run_folders.folder_of(root, run_id), str(key)))
