"""What a keeper does while most voters agree that its host leads: it adds lines to the record, and
has orders for the hosts. What they are is decided in leader.py."""

from ipexctl.common.attempt_record import Leads
from ipexctl.common.restart_plan import VoterPlan
from ipexctl.remote.restart import keeper_notices
from ipexctl.remote.restart.leader import Leader

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from ipexctl.common.keeper_messages import HostReport, KeeperOrder
    from ipexctl.common.run_orders import StartOrder
    from ipexctl.remote.restart.record import RestartRecord
    from ipexctl.remote.restart.voters import Member

REPEATS = 2.0  # seconds until an order, or the report of a host, is sent again
COMMIT = 10.0  # for a line to become part of the record


class Leading:
    def __init__(self, order: "StartOrder", member: "Member", record: "RestartRecord") -> None:
        self.order, self.member, self.record = order, member, record
        self.name = order.host
        self.leader = None  # type: Leader | None  # while this host leads
        self.term = self.lines = 0  # in which it leads, and of the record at the last turn
        self.proposed = 0.0  # until when a line that was proposed may become part of the record
        self.next_order = 0.0
        self.orders = {}  # type: dict[str, KeeperOrder]  # the last ones

    def turn(
        self, now: float, reached: "set[str]", reports: "dict[str, HostReport]"
    ) -> "dict[str, KeeperOrder]":
        """Let the voters vote, and lead if this host does; return the orders to send now."""
        self.member.tick(reached & set(self.member.nodes))
        if not self.member.leads():
            self.leader = None
            return {}
        term = self.member.term()
        if self.leader is None or self.term != term:
            self.begin_term(now, term)
        count = 1 + len(reached & set(self.member.nodes))
        if self.leader is None or self.record.term != term or 2 * count <= len(self.member.nodes):
            return {}  # a majority must agree that it leads, and on each line
        if len(self.record.lines) != self.lines:
            self.lines, self.proposed, self.next_order = len(self.record.lines), 0.0, 0.0
        line = self.leader.tick(now, reached, reports)
        if line and now > self.proposed:
            self.proposed = now + COMMIT
            self.member.propose(keeper_notices.sign_line(line, self.name), term)
        orders = self.leader.orders(reports)
        if now <= self.next_order and orders == self.orders:
            return {}
        self.next_order, self.orders = now + REPEATS, orders
        return orders

    def begin_term(self, now: float, term: int) -> None:
        plan = VoterPlan.read(self.order.restart_plan or {})
        self.leader = Leader(plan, self.name, self.record, now)
        self.term, self.lines, self.proposed = term, -1, 0.0
        self.member.propose(Leads(self.name), term)
