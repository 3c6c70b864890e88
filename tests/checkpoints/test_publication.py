"""When a checkpoint is complete: the hub's part without hosts, disks or a clock."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ipexctl.common.checkpoint_reports import CopiedPart, Manifest
from ipexctl.common.copy_messages import (
    CopierEnded,
    CopierEvent,
    CopierNote,
    CopierServes,
    CopyFailed,
    CopyOrder,
    CopyPart,
    KeepPart,
    LastLooksDone,
    ManifestWritten,
    PartAbsent,
    PartCopied,
    PartFound,
    PartKept,
    SeekPart,
    TakeLastLooks,
    WithdrawManifest,
    WriteManifest,
)
from ipexctl.common.hub_orders import HostOrder, TellCopier
from ipexctl.common.run_events import Checkpoint, Fact, Noted, is_decisive
from ipexctl.remote.checkpoints.publication import AGAIN, Publication

HOSTS = ["a", "b", "c"]


def part_found(name: str, stamp: str = "1", **more: Any) -> PartFound:
    return PartFound(name, stamp, **{"names": ["m.pt"], "needs": [], "age": 0.0, **more})


class Cluster:
    """Hosts that do what they are told: `files` of each are what its ranks have written."""

    def __init__(self, hosts: list[str] = HOSTS) -> None:
        self.hub = Publication(hosts)
        self.files: dict[str, dict[str, PartFound]] = {host: {} for host in hosts}
        self.disk: dict[str, set[str]] = {host: set() for host in hosts}
        self.manifests: dict[str, dict[int, Manifest]] = {host: {} for host in hosts}
        self.facts: list[Fact] = []
        self.orders: list[tuple[str, CopyOrder]] = []
        self.now = 0.0
        for host in hosts:
            self.say(host, CopierServes(1, host))

    def say(self, host: str, message: CopierEvent) -> None:
        sent = CopierEvent.read(message.document())
        assert sent == message
        self.hub.take(host, sent, self.now)
        self.hub.begin(self.now)
        self.collect()

    def collect(self) -> None:
        """Take the orders as hosts get them, and the facts."""
        for host, order in self.hub.orders:
            read = HostOrder.read(order.document())
            assert isinstance(read, TellCopier) and read.document() == order.document()
            self.orders.append((host, read.order))
        self.facts += self.hub.facts
        self.hub.orders, self.hub.facts = [], []

    def write(self, host: str, name: str, **more: Any) -> None:
        self.files[host][name] = part_found(name, **more)
        self.say(host, self.files[host][name])

    def obey(self, host: str, order: CopyOrder) -> None:
        match order:
            case SeekPart(name):
                self.say(host, self.files[host].get(name) or PartAbsent(name))
            case KeepPart(number, name, stamp):
                found = self.files[host].get(name)
                if not found or found.stamp != stamp:
                    self.say(host, CopyFailed(number, ""))
                    return
                sha = f"{host}:{name}:{stamp}"
                self.disk[host].add(sha)
                self.say(host, PartKept(number, sha, 1, 5))
            case CopyPart(number, writer, CopiedPart(sha)):
                assert sha in self.disk[writer]
                self.disk[host].add(sha)
                self.say(host, PartCopied(number, writer))
            case WriteManifest(manifest):
                self.published = manifest
                for writer, part in manifest.parts.items():
                    if host in manifest.holders[writer]:
                        assert part.sha in self.disk[host]
                self.manifests[host][manifest.number] = manifest
                self.say(host, ManifestWritten(manifest.number))
            case TakeLastLooks():
                self.say(host, LastLooksDone())
            case WithdrawManifest(number):
                self.manifests[host].pop(number, None)

    def end_ranks(self) -> None:
        self.hub.begin_end()
        self.collect()

    def run(self, chance: random.Random | None = None) -> None:
        while self.orders:
            self.obey(*self.orders.pop(chance.randrange(len(self.orders)) if chance else 0))

    @property
    def complete(self) -> list[str]:
        events = [fact.event for fact in self.facts]
        return [e.name for e in events if isinstance(e, Checkpoint) and not e.withdrawn]


def test_one_writer_and_its_partner():
    made = Cluster()
    made.write("a", "c-1")
    made.run()
    event = made.facts[-1].event
    assert (event.name, event.step, event.bytes, event.hosts) == ("c-1", 1, 5, ("a", "b"))
    assert not is_decisive(event)
    assert [list(made.manifests[host]) for host in HOSTS] == [[1], [1], []]


@pytest.mark.parametrize("found", [True, False])
def test_a_pattern_that_matches_nothing_is_said_at_the_end(found: bool):
    made = Cluster()
    if found:
        made.write("a", "c-1")
        made.run()
    made.end_ranks()
    made.run()
    assert made.hub.is_done()
    made.hub.end(["nope/*"])
    assert [type(fact.event) for fact in made.hub.facts] == [Noted] * (not found)


def test_the_end_waits_for_the_last_looks_of_a_host_that_is_slow_or_was_killed():
    made = Cluster()
    made.end_ranks()
    assert made.orders == [(host, TakeLastLooks()) for host in HOSTS]
    made.orders = made.orders[:2]
    made.run()
    assert not made.hub.is_done()
    made.say("c", CopierServes(2, "c"))  # its process was killed with its orders
    made.write("c", "c-1")
    made.run()
    assert made.hub.is_done() and made.complete == ["c-1"]


def test_a_host_that_never_looks_is_no_reason_to_say_that_nothing_matches():
    made = Cluster()
    made.end_ranks()
    made.hub.end(["c-*"])
    (fact,) = made.hub.facts
    assert isinstance(fact.event, Noted) and "too slow" in fact.event.text


def test_the_age_of_a_checkpoint_counts_from_when_its_last_part_was_written():
    """Not from when it was found, or its copy ended."""
    made = Cluster()
    for host, age in (("a", 9.0), ("b", 4.0)):
        made.files[host]["c-1"] = part_found("c-1", names=[host], age=age)
    made.say("a", made.files["a"]["c-1"])
    made.obey(*made.orders.pop(0))  # b is asked for its part
    made.now = 10.0
    made.run()
    assert (made.published.age, made.facts[-1].event.seconds) == (14.0, 14.0)


def test_one_host_keeps_its_own():
    made = Cluster(["a"])
    made.write("a", "c-1")
    made.run()
    assert made.facts[-1].event.hosts == ("a",)


def test_shards_are_one_checkpoint_once_all_are_there():
    made = Cluster()
    made.write("b", "c-1", names=["__1_0.distcp"])
    made.run()
    assert made.complete == []  # nothing says that this is all
    made.write("a", "c-1", names=["__0_0.distcp", ".metadata"], needs=["__1_0.distcp"])
    made.run()
    assert made.complete == ["c-1"]
    assert {len(m[1].parts) for m in made.manifests.values() if m} == {2}


def test_of_several_the_newest_is_copied_and_older_ones_never_after_it():
    made = Cluster()
    made.write("a", "c-1")
    made.write("a", "c-2")
    made.write("a", "c-3")
    made.run()
    assert made.complete[-1] == "c-3"
    assert sorted(made.complete) == made.complete
    made.write("a", "c-2")  # a process that was killed and started again says it twice
    made.run()
    assert made.complete[-1] == "c-3"


def test_what_changes_while_it_is_copied_is_dropped():
    made = Cluster()
    made.write("a", "c-1")
    made.files["a"]["c-1"] = part_found("c-1", "2")
    made.run()
    assert made.complete == []
    made.write("a", "c-1", stamp="2")
    made.run()
    assert made.complete == ["c-1"]


def test_a_file_that_one_host_overwrites_is_published_each_time():
    made = Cluster()
    for stamp in "123":
        made.write("a", "last.ckpt", stamp=stamp)
        made.run()
    assert made.complete == ["last.ckpt"] * 3
    assert made.manifests["a"][3].parts["a"].sha == "a:last.ckpt:3"


def test_names_that_several_hosts_overwrite_are_not_mixed():
    made = Cluster()
    made.write("a", "ckpt")
    made.write("b", "ckpt")
    made.run()
    assert made.complete == ["ckpt"]
    made.write("a", "ckpt", stamp="2")
    made.run()
    made.write("b", "ckpt", stamp="2")
    made.run()
    assert made.complete == ["ckpt"]
    assert [type(f.event) for f in made.facts].count(Noted) == 1


def test_plain_names_that_hosts_write_in_turn_are_complete_once_each_has_written() -> None:
    """Each rank has a name of its own, on its own host."""
    made = Cluster()
    made.write("a", "*", names=["out/ranka.pt"])
    made.write("b", "*", names=["out/rankb.pt"])
    made.run()
    for step, first in ((2, "a"), (3, "a"), (4, "b")):
        second = "ba"["ab".index(first)]
        made.write(first, "*", stamp=str(step), names=[f"out/rank{first}.pt"])
        made.run()
        assert len(made.complete) == step - 1  # that of the other host is of the step before
        made.write(second, "*", stamp=str(step), names=[f"out/rank{second}.pt"])
        made.run()
        assert len(made.complete) == step
        shas = [part.sha for part in made.published.parts.values()]
        assert {sha.rpartition(":")[2] for sha in shas} == {str(step)}
    for stamp in "5678":  # b writes no more
        made.write("a", "*", stamp=stamp, names=["out/ranka.pt"])
        made.run()
    assert made.published.parts["a"].sha.endswith(("7", "8"))


def test_a_plain_name_that_another_host_has_from_before_is_not_its_part() -> None:
    made = Cluster()
    made.write("a", "*", names=["out/model.pt", "out/optim.pt"])
    names = ["out/b.log", "out/model.pt"]
    made.files["b"]["*"] = part_found("*", names=names, inherited=["out/model.pt"])
    kept = []
    while made.orders:
        host, order = made.orders.pop(0)
        if isinstance(order, KeepPart):
            kept.append((host, order.without))
        made.obey(host, order)
    assert kept == [("a", []), ("b", ["out/model.pt"])]
    assert len(made.complete) == 1


def test_the_same_plain_names_of_several_hosts_are_copied_once() -> None:
    made = Cluster()
    for stamp in "123":
        for host in "ab":
            made.write(host, "*", stamp=stamp, names=["out/model.pt"])
        made.run()
    assert len(made.complete) == 1 and made.hub.is_idle()
    assert [type(f.event) for f in made.facts].count(Noted) == 1


def test_a_part_that_comes_late_withdraws_what_was_published_and_is_waited_for_from_then_on():
    made = Cluster()
    made.write("a", "c-1")
    made.run()
    made.write("b", "c-1")
    made.run()
    assert made.complete == ["c-1", "c-1"]
    assert [list(made.manifests[host]) for host in HOSTS] == [[2], [2], [2]]
    made.write("a", "c-2")
    made.run()
    assert made.complete == ["c-1", "c-1"]
    made.write("b", "c-2")
    made.run()
    assert made.complete[-1] == "c-2"


def test_what_failed_is_tried_again_later():
    made = Cluster()
    made.write("a", "c-1")
    while not isinstance(made.orders[0][1], CopyPart):
        made.obey(*made.orders.pop(0))
    host, order = made.orders.pop(0)
    assert isinstance(order, CopyPart)
    made.say(host, CopyFailed(order.number, "no room"))
    made.run()
    assert made.complete == []
    made.now = AGAIN + 1
    made.hub.begin(made.now)
    made.collect()
    made.run()
    assert made.complete == ["c-1"]


def test_what_is_complete_on_one_host_is_published_on_the_other_after_its_process_was_killed():
    made = Cluster()
    made.write("a", "c-1")
    while not made.manifests["a"]:
        made.obey(*made.orders.pop(0))
    made.orders.clear()
    made.say("b", CopierServes(2, "b"))
    made.run()
    assert [list(made.manifests[host]) for host in HOSTS] == [[1], [1], []]
    assert made.complete == ["c-1"]


def test_a_process_that_was_killed_begins_again():
    made = Cluster()
    made.write("a", "c-1")
    while not isinstance(made.orders[0][1], CopyPart):
        made.obey(*made.orders.pop(0))
    made.orders.clear()  # lost with it
    made.now = 100.0
    made.say("b", CopierServes(2, "b"))
    made.run()
    made.now = 200.0
    made.say("b", CopierNote("x"))
    made.run()
    assert made.complete == ["c-1"]


def test_without_a_host_that_never_wrote_a_part_the_others_go_on():
    made = Cluster()
    made.write("a", "c-1")
    made.run()
    made.write("a", "c-2")
    made.say("b", CopierEnded())
    made.say("b", CopierEnded())
    made.now += AGAIN
    made.write("a", "c-3")
    made.run()
    assert made.complete == ["c-1", "c-2", "c-3"] and made.hub.is_idle()
    assert made.published.holders == {"a": ["a", "c"]}
    made.write("a", "c-4")
    made.say("c", CopierEnded())
    made.run()
    assert made.complete == ["c-1", "c-2", "c-3"] and made.hub.is_idle()


def test_nothing_is_waited_for_once_a_host_that_writes_copies_no_more():
    made = Cluster()
    made.write("a", "c-1")
    made.run()
    made.write("a", "c-2")
    assert not made.hub.is_idle()
    made.say("a", CopierEnded())
    made.say("a", CopierEnded())
    assert made.hub.is_idle()
    assert [type(fact.event) for fact in made.facts] == [Checkpoint, Noted]
    made.run()
    made.write("a", "c-3")
    made.run()
    assert made.complete == ["c-1"] and made.hub.is_idle()


@pytest.mark.parametrize("seed", range(60))
def test_in_any_order_nothing_incomplete_is_published(seed):
    """Messages are lost with a process, hosts write in any order, one at a time is copied."""
    chance, made = random.Random(seed), Cluster()
    shards = chance.random() < 0.5
    for step in range(1, 6):
        name = f"c-{step}"
        made.write("a", name, needs=["b.pt"] if shards else [])
        for _ in range(chance.randrange(12)):
            if made.orders:
                made.obey(*made.orders.pop(0))
        if chance.random() < 0.3:
            host = chance.choice(HOSTS)
            made.orders = [one for one in made.orders if one[0] != host]
            made.say(host, CopierServes(2, host))
            for found in made.files[host].values():
                made.say(host, found)
        if shards:
            made.write("b", name, names=["b.pt"])
        made.now += chance.choice((1.0, 20.0))
        made.run(chance if chance.random() < 0.5 else None)
    numbers = [int(name[2:]) for name in made.complete]
    assert numbers == sorted(numbers)
    for manifests in made.manifests.values():
        for manifest in manifests.values():
            assert set(manifest.parts) == ({"a", "b"} if shards else {"a"})
            for writer, part in manifest.parts.items():
                for holder in manifest.holders[writer]:
                    assert part.sha in made.disk[holder]


def test_a_partner_that_cannot_keep_a_copy_is_replaced_at_once() -> None:
    """And not asked again, unless all others cannot either."""
    hub = Publication(["a", "b", "c"])
    for host in HOSTS:
        hub.take(host, CopierServes(1, host), 0.0)

    def copied_to() -> list[str]:
        orders, hub.orders = hub.orders, []
        told = [(host, order.order) for host, order in orders if isinstance(order, TellCopier)]
        assert len(told) == len(orders)
        return [host for host, order in told if isinstance(order, CopyPart)]

    def written(name: str, now: float) -> None:
        hub.take("a", PartFound(name, name, ["m.pt"], [], 0.0), now)
        for host in "bc":
            hub.take(host, PartAbsent(name), now)
        hub.begin(now)
        hub.take("a", PartKept(hub.number, "5a", 1, 5), now)

    def failed(host: str, now: float) -> None:
        hub.take(host, CopyFailed(hub.number, "not enough disk space", "a"), now)

    written("c-1", 1.0)
    assert copied_to() == ["b"]
    failed("b", 2.0)
    assert copied_to() == ["c"]
    assert any("not enough disk space" in str(fact.event) for fact in hub.facts)
    hub.take("c", PartCopied(hub.number, "a"), 3.0)
    assert hub.current and hub.current.manifest
    assert hub.current.manifest.holders == {"a": ["a", "c"]}
    for host in "ac":
        hub.take(host, ManifestWritten(hub.number), 4.0)
    written("c-2", 5.0)
    assert copied_to() == ["c"]
    failed("c", 6.0)
    hub.begin(6.0 + AGAIN)
    hub.take("a", PartKept(hub.number, "5a", 1, 5), 6.0 + AGAIN)
    assert copied_to() == ["b"]
