"""What processes of a host ask the supervisor of a run there (remote/run/control.py). Its keeper is
asked a KeeperQuestion (attempt_record.py). The answer: supervisor_state.py."""

from ipexctl.common.message import Variant


class SupervisorQuestion(Variant):
    """A question or an order: one of the classes below."""


class WatchRun(SupervisorQuestion):
    """The connection is for the frames of a command that watches the run."""


class StopRun(SupervisorQuestion):
    """Ask the hub to end the run."""

    by: str
    seconds: float  # that the ranks get


class EndRun(SupervisorQuestion):
    """End this host's part of the run."""

    why: str


class LookAtRanks(SupervisorQuestion):
    """Look at what the ranks here do."""
