"""What the supervisor of a run answers to a question of its host (control_questions.py)."""

from ipexctl.common.message import MYPY, Message, later
from ipexctl.common.rank_paces import RankPaces
from ipexctl.common.run_events import import_rank_looks

if MYPY:
    from ipexctl.common.rank_looks import RankLook

later["RankLook"] = import_rank_looks


class SupervisorState(Message):
    """The answer; what is not asked for is left out."""

    alive: bool = False
    quiet: float = 0.0  # seconds without progress
    computes: bool = False  # a rank here uses its CPUs for more than waiting
    look: "list[RankLook] | None" = None
    pace: "RankPaces | None" = None  # of the last minute
