"""Shards of examples/shard_queue.py: which rank computes which, and what of them is the result."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.shard_queue import Shards, in_order


class Counts(dict):
    """What TCPStore does on rank 0, for all ranks."""

    def add(self, key: str, amount: int) -> int:
        self[key] = self.get(key, 0) + amount
        return self[key]

    def check(self, keys: list[str]) -> bool:
        return all(key in self for key in keys)


def host(tmp_path: Path, counts: Counts, name: str, run: str = "1") -> Shards:
    (tmp_path / run).mkdir(exist_ok=True)
    return Shards(counts, 6, tmp_path / f"keep-{name}", tmp_path / run / name)


def finish(shards: Shards, shard: int) -> None:
    shards.finish(shard, lambda file: file.write(b"%d" % shard))


def result(tmp_path: Path, run: str = "1") -> list[str]:
    """As `fetch --merge` does it: of files on several hosts, the first one's."""
    merged = tmp_path / "merged"
    merged.mkdir(exist_ok=True)
    for path in sorted((tmp_path / run).glob("*/*")):
        if not (merged / path.name).exists():
            (merged / path.name).write_bytes(path.read_bytes())
    return [path.read_text() for path in in_order(merged)]


def test_each_shard_is_one_ranks_and_the_result_is_in_order(tmp_path: Path):
    counts = Counts()
    one, two = host(tmp_path, counts, "one"), host(tmp_path, counts, "two")
    ways = [iter(one), iter(two)]
    for own, other in ((one, ways[0]), (two, ways[1])) * 3:
        finish(own, next(other))
    assert [next(way, None) for way in ways] == [None, None]
    assert (one.finished, two.finished) == (3, 3)
    assert result(tmp_path) == list("012345")


def test_what_a_slow_rank_has_taken_is_taken_again_and_counts_once(tmp_path: Path):
    counts = Counts()
    fast, slow = host(tmp_path, counts, "fast"), host(tmp_path, counts, "slow")
    held = next(iter(slow))
    for shard in fast:
        finish(fast, shard)
    assert (held, fast.finished) == (0, 6)
    assert slow.done(held)
    finish(slow, held)  # it had finished all the same
    assert slow.finished == 0
    assert result(tmp_path) == list("012345")


def test_a_second_run_computes_what_no_host_keeps(tmp_path: Path):
    first = Counts()
    one, two = host(tmp_path, first, "one"), host(tmp_path, first, "two")
    for shards, shard in ((one, 4), (two, 1), (two, 2)):
        finish(shards, shard)
    (tmp_path / "keep-one/000005-of-000006.part0-7").write_bytes(b"half")  # power failure

    counts = Counts()  # without two
    one = host(tmp_path, counts, "one", "2")
    for shard in one:
        finish(one, shard)
    assert (one.kept, one.finished) == (1, 5)

    counts = Counts()  # two is back, with two shards that one has as well
    two, one = host(tmp_path, counts, "two", "3"), host(tmp_path, counts, "one", "3")
    assert (list(one), list(two), one.kept, two.kept) == ([], [], 4, 2)
    assert result(tmp_path, "3") == list("012345")


def test_a_missing_shard_is_named(tmp_path: Path):
    one = host(tmp_path, Counts(), "one")
    for shard in (0, 1, 2, 4, 5):
        finish(one, shard)
    with pytest.raises(SystemExit, match=r"\[3\] of 6"):
        result(tmp_path)
