"""What keepers report to the process that runs the command of `run --notify`: the one that leads
reports what it put into the record."""

from ipexctl.common.attempt_record import AttemptBegins, RecordLine, RunEnded
from ipexctl.common.restart_plan import RestartPlan, VoterPlan
from ipexctl.common.run_orders import StartOrder
from ipexctl.remote.restart import restart_policy
from ipexctl.remote.run import notifier


class KeeperNotices:
    def __init__(self, order: StartOrder, folder: str) -> None:
        """Start the process. Called before there are threads."""
        self.name = order.host
        document = order.restart_plan or {}
        is_voter = "common" in document
        command = VoterPlan.read(document).common.of_all.notify if is_voter else ""
        run_id = RestartPlan.read(document).run_id
        self.link = notifier.fork_notifier(command, folder, run_id, order.about.name, order.host)

    def take_line(self, line: RecordLine, is_leader: bool) -> None:
        """Report a new line of the record, if this host leads and put it there."""
        notice = describe_line(line)
        if notice and is_leader and getattr(line, "by", "") == self.name:
            notifier.send_notice(self.link, *notice)


def sign_line(line: RecordLine, name: str) -> "RecordLine":
    """Return the line with the name of the host that leads, if events are claimed there."""
    is_signed = isinstance(line, (AttemptBegins, RunEnded))
    return line.replace(by=name) if is_signed else line


def describe_line(line: RecordLine) -> "tuple[str, str, str] | None":
    """Return the key, the state and the cause that --notify reports; None for other lines."""
    if isinstance(line, AttemptBegins) and line.attempt > 1:
        return "attempt-%d" % line.attempt, "restarting", line.why
    if not isinstance(line, RunEnded):
        return None
    if line.well:
        return "end", "done", ""
    if line.by_user or line.why == restart_policy.STOPPED:
        return "end", "stopped", line.why
    return "end", "failed", line.why
