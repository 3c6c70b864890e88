"""When a checkpoint is complete: the hub's part without hosts, disks or a clock."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ipexctl.common import copy_messages
from ipexctl.common.copy_messages import (
    CopierServes,
    CopyFailed,
    ManifestWritten,
    PartAbsent,
    PartCopied,
    PartFound,
    PartKept,
)
from ipexctl.remote.checkpoints.publication import AGAIN, Publication
from ipexctl.remote.hub import judge

HOSTS = ["a", "b", "c"]


class Cluster:
    """Hosts that do what they are told: `files` of each are what its ranks have written."""

    def __init__(self, hosts: list[str] = HOSTS) -> None:
        self.hub = Publication(hosts)
        self.files: dict[str, dict[str, dict[str, Any]]] = {host: {} for host in hosts}
        self.disk: dict[str, set[str]] = {host: set() for host in hosts}
        self.manifests: dict[str, dict[int, dict]] = {host: {} for host in hosts}
        self.facts: list[dict] = []
        self.orders: list[tuple[str, dict]] = []
        self.now = 0.0
        for host in hosts:
            self.say(host, "serves", address=host, port=1)

    def say(self, host: str, what: str, **more: Any) -> None:
        more = {"age": 0.0, **more} if what == "ready" else more
        self.hub.take(host, copy_messages.read({"shelf": what, **more}), self.now)
        self.hub.begin(self.now)
        self.orders += self.hub.orders
        self.facts += self.hub.facts
        self.hub.orders, self.hub.facts = [], []

    def write(self, host: str, name: str, *, stamp: str = "1", names=("m.pt",), needs=()) -> None:
        self.files[host][name] = {"stamp": stamp, "names": list(names), "needs": list(needs)}
        self.say(host, "ready", name=name, **self.files[host][name])

    def obey(self, host: str, order: dict) -> None:
        order = order["shelf"]
        if "seek" in order:
            name = order["seek"]
            found = self.files[host].get(name)
            self.say(host, "ready" if found else "none", name=name, **(found or {}))
        elif "keep" in order:
            found = self.files[host].get(order["name"])
            number = order["keep"]
            if not found or found["stamp"] != order["stamp"]:
                self.say(host, "failed", number=number, why="")
                return
            sha = f"{host}:{order['name']}:{order['stamp']}"
            self.disk[host].add(sha)
            self.say(host, "kept", number=number, sha=sha, list=1, bytes=5)
        elif "copy" in order:
            assert order["part"]["sha"] in self.disk[order["of"]]
            self.disk[host].add(order["part"]["sha"])
            self.say(host, "copied", number=order["copy"], of=order["of"])
        elif "publish" in order:
            manifest = self.published = order["publish"]
            for writer, part in manifest["parts"].items():
                if host in manifest["holders"][writer]:
                    assert part["sha"] in self.disk[host]
            self.manifests[host][manifest["number"]] = manifest
            self.say(host, "published", number=manifest["number"])
        elif "withdraw" in order:
            mine = self.manifests[host].items()
            self.manifests[host] = {n: m for n, m in mine if n != order["withdraw"]}

    def run(self, chance: random.Random | None = None) -> None:
        while self.orders:
            self.obey(*self.orders.pop(chance.randrange(len(self.orders)) if chance else 0))

    @property
    def complete(self) -> list[str]:
        return [f["name"] for f in self.facts if f["event"] == "checkpoint" and "hosts" in f]


def test_one_writer_and_its_partner():
    made = Cluster()
    made.write("a", "c-1")
    made.run()
    fact = made.facts[-1]
    assert (fact["name"], fact["step"], fact["bytes"], fact["hosts"]) == ("c-1", 1, 5, ["a", "b"])
    assert not judge.is_decisive(fact)
    assert [list(made.manifests[host]) for host in HOSTS] == [[1], [1], []]


@pytest.mark.parametrize("found", [True, False])
def test_a_pattern_that_matches_nothing_is_said_at_the_end(found: bool):
    made = Cluster()
    if found:
        made.write("a", "c-1")
        made.run()
    made.hub.end(["nope/*"])
    assert [fact["event"] for fact in made.hub.facts] == ["note"] * (not found)


def test_the_age_of_a_checkpoint_counts_from_when_its_last_part_was_written():
    """Not from when it was found, or its copy ended."""
    made = Cluster()
    for host, age in (("a", 9.0), ("b", 4.0)):
        made.files[host]["c-1"] = {"stamp": "1", "names": [host], "needs": [], "age": age}
    made.say("a", "ready", name="c-1", **made.files["a"]["c-1"])
    made.obey(*made.orders.pop(0))  # b is asked for its part
    made.now = 10.0
    made.run()
    assert (made.published["age"], made.facts[-1]["seconds"]) == (14.0, 14.0)


def test_one_host_keeps_its_own():
    made = Cluster(["a"])
    made.write("a", "c-1")
    made.run()
    assert made.facts[-1]["hosts"] == ["a"]


def test_shards_are_one_checkpoint_once_all_are_there():
    made = Cluster()
    made.write("b", "c-1", names=["__1_0.distcp"])
    made.run()
    assert made.complete == []  # nothing says that this is all
    made.write("a", "c-1", names=["__0_0.distcp", ".metadata"], needs=["__1_0.distcp"])
    made.run()
    assert made.complete == ["c-1"]
    assert {len(m[1]["parts"]) for m in made.manifests.values() if m} == {2}


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
    made.files["a"]["c-1"]["stamp"] = "2"
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
    assert made.manifests["a"][3]["parts"]["a"]["sha"] == "a:last.ckpt:3"


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
    assert [f["event"] for f in made.facts].count("note") == 1


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
        shas = [part["sha"] for part in made.published["parts"].values()]
        assert {sha.rpartition(":")[2] for sha in shas} == {str(step)}
    for stamp in "5678":  # b writes no more
        made.write("a", "*", stamp=stamp, names=["out/ranka.pt"])
        made.run()
    assert made.published["parts"]["a"]["sha"].endswith(("7", "8"))


def test_a_plain_name_that_another_host_has_from_before_is_not_its_part() -> None:
    made = Cluster()
    made.write("a", "*", names=["out/model.pt", "out/optim.pt"])
    made.files["b"]["*"] = {
        "stamp": "1", "names": ["out/b.log", "out/model.pt"], "needs": [],
        "inherited": ["out/model.pt"],
    }  # fmt: skip
    kept = []
    while made.orders:
        host, order = made.orders.pop(0)
        if "keep" in order["shelf"]:
            kept.append((host, order["shelf"]["without"]))
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
    assert [f["event"] for f in made.facts].count("note") == 1


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
    while "copy" not in made.orders[0][1]["shelf"]:
        made.obey(*made.orders.pop(0))
    host, order = made.orders.pop(0)
    made.say(host, "failed", number=order["shelf"]["copy"], why="no room")
    made.run()
    assert made.complete == []
    made.now = AGAIN + 1
    made.hub.begin(made.now)
    made.orders, made.hub.orders = made.hub.orders, []
    made.run()
    assert made.complete == ["c-1"]


def test_what_is_complete_on_one_host_is_published_on_the_other_after_its_process_was_killed():
    made = Cluster()
    made.write("a", "c-1")
    while not made.manifests["a"]:
        made.obey(*made.orders.pop(0))
    made.orders.clear()
    made.say("b", "serves", address="b", port=2)
    made.run()
    assert [list(made.manifests[host]) for host in HOSTS] == [[1], [1], []]
    assert made.complete == ["c-1"]


def test_a_process_that_was_killed_begins_again():
    made = Cluster()
    made.write("a", "c-1")
    while "copy" not in made.orders[0][1]["shelf"]:
        made.obey(*made.orders.pop(0))
    made.orders.clear()  # lost with it
    made.now = 100.0
    made.say("b", "serves", address="b", port=2)
    made.run()
    made.now = 200.0
    made.say("b", "note", text="x")
    made.run()
    assert made.complete == ["c-1"]


def test_without_a_host_that_never_wrote_a_part_the_others_go_on():
    made = Cluster()
    made.write("a", "c-1")
    made.run()
    made.write("a", "c-2")
    made.say("b", "ended")
    made.say("b", "ended")
    made.now += AGAIN
    made.write("a", "c-3")
    made.run()
    assert made.complete == ["c-1", "c-2", "c-3"] and made.hub.is_idle()
    assert made.published["holders"] == {"a": ["a", "c"]}
    made.write("a", "c-4")
    made.say("c", "ended")
    made.run()
    assert made.complete == ["c-1", "c-2", "c-3"] and made.hub.is_idle()


def test_nothing_is_waited_for_once_a_host_that_writes_copies_no_more():
    made = Cluster()
    made.write("a", "c-1")
    made.run()
    made.write("a", "c-2")
    assert not made.hub.is_idle()
    made.say("a", "ended")
    made.say("a", "ended")
    assert made.hub.is_idle()
    assert [fact["event"] for fact in made.facts] == ["checkpoint", "note"]
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
            made.say(host, "serves", address=host, port=2)
            for known, files in made.files[host].items():
                made.say(host, "ready", name=known, **files)
        if shards:
            made.write("b", name, names=["b.pt"])
        made.now += chance.choice((1.0, 20.0))
        made.run(chance if chance.random() < 0.5 else None)
    numbers = [int(name[2:]) for name in made.complete]
    assert numbers == sorted(numbers)
    for manifests in made.manifests.values():
        for manifest in manifests.values():
            assert set(manifest["parts"]) == ({"a", "b"} if shards else {"a"})
            for writer, part in manifest["parts"].items():
                for holder in manifest["holders"][writer]:
                    assert part["sha"] in made.disk[holder]


def test_a_partner_that_cannot_keep_a_copy_is_replaced_at_once() -> None:
    """And not asked again, unless all others cannot either."""
    hub = Publication(["a", "b", "c"])
    for host in HOSTS:
        hub.take(host, CopierServes(1, host), 0.0)

    def copied_to() -> list[str]:
        orders, hub.orders = hub.orders, []
        return [host for host, order in orders if "copy" in order["shelf"]]

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
    assert any("not enough disk space" in fact["text"] for fact in hub.facts)
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
