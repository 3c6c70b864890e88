"""What the wrapper of a rank, or what mpirun starts instead of ssh, and the supervisor of its host
say to each other. remote/rank/rank_wrapper.py makes and reads the documents without this module."""

from ipexctl.common.message import AnyText, Signed, Variant
from ipexctl.common.run_events import Placement, Usage


class WrapperMessage(Variant):
    """What a wrapper says: one of the classes below."""


class RankAsks(WrapperMessage):
    """The first message of a rank's wrapper. None: MPI has not said it."""

    rank: "int | None"
    local: "int | None"


class LaunchAsks(WrapperMessage):
    """The first message of what mpirun starts instead of ssh."""

    argv: "list[AnyText]"  # HOST COMMAND


class ScriptStarted(WrapperMessage):
    """The script runs."""

    pid: int
    wrapper: int  # its process
    where: Placement


class ScriptEnded(WrapperMessage):
    """The script has ended, with a code or by a signal."""

    at: float  # by the host's monotonic clock
    code: "int | None"
    signal: "int | None"
    usage: "Usage | None" = None


class WrapperOrder(Variant):
    """What a supervisor says: one of the classes below."""


class ScriptOrder(WrapperOrder):
    """How the script is started."""

    env: "dict[AnyText, AnyText]"
    argv: "list[AnyText]"
    cwd: "AnyText"
    log: "AnyText"
    cpus: "list[int]"
    node: "int | None"
    umask: "int | None"


class AskRefused(WrapperOrder):
    """The rank or the launch is refused."""

    refused: "AnyText"  # why


class SignalScript(WrapperOrder):
    """Send the script and its children a signal."""

    signal: int


class EndNoted(WrapperOrder):
    """The hub has recorded that the rank succeeded: the wrapper may end."""


class LaunchDone(WrapperOrder):
    """The command that mpirun wanted has ended."""

    exit: "Signed"
