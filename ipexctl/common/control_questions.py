"""What processes of a host ask the supervisor of a run there (remote/run/control.py). Its keeper is
asked a KeeperQuestion (attempt_record.py)."""

from ipexctl.common.message import MYPY, Message, Variant
from ipexctl.common.rank_paces import RankPaces

if MYPY:
    from typing import Any


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


class SupervisorState(Message):
    """The answer; what is not asked for is left out."""

    alive: bool = False
    quiet: float = 0.0  # seconds without progress
    computes: bool = False  # a rank here uses its CPUs for more than waiting
    look: "Any" = None  # run/hang/evidence.py
    pace: "RankPaces | None" = None  # of the last minute
