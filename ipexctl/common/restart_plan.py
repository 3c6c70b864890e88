"""The plan that keepers of a run with --restarts get when it begins, to start it again."""

from ipexctl.common.message import Message
from ipexctl.common.run_about import RunAbout
from ipexctl.common.run_orders import HostOfRun, HubOrder, StartOrder
from ipexctl.common.shown_plans import ShownHost, ShownPlan

VOTERS = 7  # hosts that keep the record of a run with --restarts, and that may lead it


class RestartPlan(Message):
    """The plan of each keeper."""

    run_id: str  # of the first attempt
    hosts: "list[str]"  # spares last
    # the hosts of the first attempt; with --queue, it takes the first of them that are free, as
    # many as `ranks` has
    first: "list[str]"
    ranks: "list[int]"  # on each host of an attempt with that many hosts, in order
    places: "list[tuple[str, str, int]]"  # the voters: host, address and port of its keeper
    restarts: int  # --restarts
    least: int  # --min-hosts
    lease: float  # seconds of silence after which a host counts as lost
    kept: bool  # checkpoints are copied
    without: str  # --without-checkpoint
    queued: float  # --queue: since when, by the clock of the first host; else 0
    returns: float  # --wait-for-hosts: seconds for lost hosts to come back, if too few are left


class RestartHost(Message):
    """The plan of one host, whichever others take part: remote/restart/attempt_orders.py composes
    the orders of an attempt from these."""

    asked: StartOrder
    work: str  # the mark of the folder where ranks start, which hosts may share
    row: HostOfRun
    mpirun: "list[str]"  # if rank 0 is on this host
    line: str  # of the machinefile
    address: str  # rendezvous of the ranks if rank 0 is here
    port: int
    peer: str  # where the other hosts reach this one, also if it is the only one with ranks
    shown: ShownHost  # for those who attach


class RestartCommon(Message):
    """The plan that all hosts and attempts share."""

    run_id: str
    about: RunAbout
    of_all: HubOrder
    shown: ShownPlan
    varies: "dict[str, str]"  # variables of ranks that differ: run/plan/rank_variables.py
    resume: "list[str]"  # of --resume-arg
    resumed: str  # the checkpoint that the first attempt began from


class VoterPlan(RestartPlan):
    """The plan of voters: their leader composes the orders of further attempts."""

    common: RestartCommon
    host_plans: "dict[str, RestartHost]"
    sized_plans: "list[RestartHost]" = []  # with other numbers of ranks that are in `ranks`

    def find_plans(self, hosts: "list[str]") -> "list[RestartHost]":
        """Return the plan of each host of an attempt."""
        counts = self.ranks if len(self.ranks) == len(hosts) else [0] * len(hosts)
        sized = {(plan.asked.host, len(plan.asked.ranks)): plan for plan in self.sized_plans}
        wanted = [sized.get((name, counts[index])) for index, name in enumerate(hosts)]
        return [plan or self.host_plans[hosts[index]] for index, plan in enumerate(wanted)]
