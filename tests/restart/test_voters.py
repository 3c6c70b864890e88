"""The record of a run on several members, whose connections are cut and healed, and whose processes
are replaced. PySyncObj is real; its times are a tenth of what they are in a run."""

from __future__ import annotations

import ast
import inspect
import json
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from pysyncobj import syncobj
from pysyncobj.syncobj import SyncObj
from pysyncobj.transport import Transport

from ipexctl.common.attempt_record import (
    AttemptBegins,
    AttemptEnded,
    AttemptRuns,
    Leads,
    RecordLine,
    RunEnded,
    StopNoted,
)
from ipexctl.common.keeper_messages import KeeperMessage, Vote
from ipexctl.remote.restart import voters
from ipexctl.remote.restart.record import RestartRecord
from ipexctl.remote.restart.voters import Member

NAMES = "abcde"
ONE, TWO = StopNoted("ann"), RunEnded("stopped by ann", False, by_user=True)


class Net:
    def __init__(self) -> None:
        self.cut: set[frozenset[str]] = set()
        self.under_way: deque[tuple[str, str, str]] = deque()  # from, to, JSON
        self.applied: defaultdict[str, list[RecordLine]] = defaultdict(list)
        self.members: dict[str, Member] = {}
        for name in NAMES:
            self.start(name)

    def start(self, name: str, *, returned: bool = False) -> None:
        def send(to: str, message: Vote) -> None:
            self.under_way.append((name, to, json.dumps(message.document())))

        applied = self.applied[name] = []

        def apply(line: RecordLine, term: int) -> None:
            applied.append(line)

        self.members[name] = Member(name, [*NAMES], send, apply, returned)

    def there(self, name: str) -> set[str]:
        cut = (one for one in self.members if frozenset((one, name)) in self.cut)
        return self.members.keys() - {name} - set(cut)

    def divide(self, part: str) -> None:
        others = set(NAMES) - set(part)
        self.cut = {frozenset((one, other)) for one in part for other in others}

    def until(self, condition: Callable[[], Any], seconds: float = 20.0) -> Any:
        end = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < end, (self.leaders(), dict(self.applied))
            for name, member in self.members.items():
                member.tick(self.there(name))
            while self.under_way:
                one, other, text = self.under_way.popleft()
                if other in self.there(one) and other in self.members:
                    message = KeeperMessage.read(json.loads(text))
                    assert isinstance(message, Vote)
                    self.members[other].take(one, message)
            time.sleep(0.005)
        return found

    def passes(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        self.until(lambda: time.monotonic() > end, seconds + 5)

    def leaders(self, of: Iterable[str] = NAMES) -> str:
        return "".join(one for one in of if one in self.members and self.members[one].leads())

    def agree(self, lines: list[RecordLine], of: str = NAMES) -> None:
        self.until(lambda: all(self.applied[one] == lines for one in of))


@pytest.fixture
def net(monkeypatch: pytest.MonkeyPatch) -> Net:
    for name in ("SHORTEST", "LONGEST", "BEATS", "FALLBACK", "AT_FIRST"):
        monkeypatch.setattr(voters, name, getattr(voters, name) / 10)
    return Net()


def test_the_first_host_leads_and_all_agree(net: Net) -> None:
    leads = net.until(net.leaders)
    net.members[leads].propose(ONE, 1)
    net.agree([ONE])


@pytest.mark.parametrize(("with_leader", "size"), [(True, 2), (False, 1)])
def test_the_larger_part_goes_on_and_the_other_agrees_later(
    net: Net, with_leader: bool, size: int
) -> None:
    before = net.until(net.leaders)
    rest = [one for one in NAMES if one != before]
    small = "".join([before, *rest][:size] if with_leader else rest[:size])
    large = [one for one in NAMES if one not in small]
    net.divide(small)
    if with_leader:
        net.members[before].propose(StopNoted("never"), 1)  # it has no majority any more
    leads = net.until(lambda: net.leaders(large))
    net.members[leads].propose(ONE, 1)
    net.agree([ONE], "".join(large))
    net.until(lambda: not net.leaders(small))
    net.passes(2.0)
    assert not any(net.applied[one] for one in small)
    net.cut = set()
    net.agree([ONE])
    leads = net.until(net.leaders)
    assert len(leads) == 1
    net.members[leads].propose(TWO, 1)
    net.agree([ONE, TWO])


def test_who_was_cut_off_does_not_end_the_work_of_one_that_leads(net: Net) -> None:
    """It stood again and again meanwhile. The leader itself takes its request, to get its term."""
    leads = net.until(net.leaders)
    other = next(one for one in NAMES if one != leads)
    net.cut = {frozenset((one, other)) for one in NAMES if one not in (leads, other)}
    net.passes(3.0)
    assert net.leaders() == leads


def test_a_process_that_is_new_neither_votes_nor_stands_before_it_has_the_record(net: Net) -> None:
    leads = net.until(net.leaders)
    net.members[leads].propose(ONE, 1)
    net.agree([ONE])
    for name in "abc":
        net.members.pop(name)
    for name in "abc":
        net.start(name, returned=True)
    if leads in "abc":  # two are left that know the record, which is no majority
        net.passes(3.0)
        assert not net.leaders() and not net.applied["a"]
    else:
        net.agree([ONE])


def test_two_of_five_that_return_get_the_record(net: Net) -> None:
    leads = net.until(net.leaders)
    net.members[leads].propose(ONE, 1)
    net.agree([ONE])
    gone = [one for one in NAMES if one != leads][:2]
    for name in gone:
        net.members.pop(name)
    net.passes(0.5)
    for name in gone:
        net.start(name, returned=True)
    net.agree([ONE])
    assert net.leaders() == leads


def test_lines_of_an_earlier_leader_are_no_part_of_the_record() -> None:
    record = RestartRecord(["a"])
    ended = AttemptEnded(1, True, True, "", "", [], 1.0, "")
    record.add(Leads("a"), 1)
    record.add(Leads("b"), 2)
    record.add(ended, 1)
    assert record.phase() == "watch"
    record.add(ended, 2)
    record.add(ended, 2)
    assert record.phase() == "clear" and len(record.endings) == 1
    record.add(AttemptRuns(2), 2)
    record.add(AttemptBegins(3, ["a"]), 2)
    assert record.number == 1
    record.add(RunEnded("done", True), 2)
    record.add(AttemptBegins(2, ["a"]), 2)
    assert record.number == 1 and record.end


# --- what PySyncObj does not promise, and voters.py uses -----------------------------------------

PRIVATE = {
    (SyncObj, "_getTerm"): [],
    (SyncObj, "_getLeader"): [],
    (SyncObj, "_isLeader"): [],
    (SyncObj, "_getFuncName"): ["funcName"],
    (Transport, "_onNodeConnected"): ["node"],
    (Transport, "_onNodeDisconnected"): ["node"],
    (Transport, "_onMessageReceived"): ["node", "message"],
}


def private_names_in_voters() -> set[str]:
    found = (
        n.attr for n in ast.walk(ast.parse(inspect.getsource(voters))) if type(n) is ast.Attribute
    )
    return {name for name in found if name.startswith("_") and not name.startswith("__")}


def test_the_private_names_that_voters_use_are_these_alone() -> None:
    assert private_names_in_voters() == {name for _, name in PRIVATE} | {"_methodToID"}


@pytest.mark.parametrize(("owner", "name"), PRIVATE)
def test_a_private_method_of_pysyncobj_is_as_voters_call_it(owner: type, name: str) -> None:
    assert list(inspect.signature(getattr(owner, name)).parameters)[1:] == PRIVATE[owner, name]


def test_pysyncobj_has_one_name_for_what_reads_its_log() -> None:
    """voters.py puts JSON in its place."""
    tree = ast.walk(ast.parse(inspect.getsource(syncobj)))
    names = [n for n in tree if isinstance(n, ast.Import | ast.ImportFrom)]
    bound = [alias.asname or alias.name for n in names for alias in n.names]
    assert bound.count("pickle") == 1
    assert not [name for name in bound if name in ("loads", "dumps")]
    assert syncobj.pickle is voters.JsonCommands


def test_a_command_in_the_log_of_pysyncobj_is_as_voters_make_it(net: Net) -> None:
    """A leader's own log, beside what another member makes of the message with the same entry."""
    leader = net.members[net.until(net.leaders)]
    leader.propose(ONE, leader.term())
    net.agree([ONE])
    logs = {name: [*member._SyncObj__raftLog[:]] for name, member in net.members.items()}
    entries = [voters.read_entry(*entry) for entry in logs[leader.name]]
    assert ONE in [entry.line for entry in entries] and None in [entry.line for entry in entries]
    for entry, (command, _, _) in zip(entries, logs[leader.name], strict=True):
        assert all(member.command_of(entry) == command for member in net.members.values())
