"""What the keepers of a run with --restarts are told when it begins, to start it again."""

from ipexctl.common.message import MYPY, Message
from ipexctl.common.run_orders import HostOfRun, HubOrder, StartOrder

if MYPY:
    from typing import Any

VOTERS = 7  # hosts that keep the record of a run with --restarts, and that may lead it


class RestartPlan(Message):
    """What each keeper is told."""

    run_id: str  # of the first attempt
    hosts: "list[str]"  # spares last
    first: "list[str]"  # the hosts of the first attempt
    places: "list[tuple[str, str, int]]"  # the voters: host, address and port of its keeper
    restarts: int  # --restarts
    least: int  # --min-hosts
    lease: float  # seconds of silence after which a host counts as lost
    kept: bool  # checkpoints are copied
    without: str  # --without-checkpoint


class RestartHost(Message):
    """What one host is told whichever other hosts take part: remote/restart/attempt_orders.py puts
    the orders of an attempt together from these."""

    asked: StartOrder
    work: str  # the mark of the folder where ranks start, which hosts may share
    row: HostOfRun
    mpirun: "list[str]"  # where rank 0 is on this host
    line: str  # of the machinefile
    address: str  # where the ranks meet if rank 0 is here, and
    port: int
    shown: "dict[str, Any]"  # for those who attach


class RestartCommon(Message):
    """What is the same for all hosts and attempts."""

    run_id: str
    about: "dict[str, Any]"
    of_all: HubOrder
    shown: "dict[str, Any]"
    varies: "dict[str, str]"  # variables of ranks that differ: run/plan/rank_variables.py
    resume: "list[str]"  # of --resume-arg
    resumed: str  # the checkpoint that the first attempt began from


class VoterPlan(RestartPlan):
    """What voters are told besides: the leading one composes the orders of further attempts."""

    common: RestartCommon
    host_plans: "dict[str, RestartHost]"

    _keys = {"host_plans": "sheets"}
