"""Which files belong to a checkpoint, and whether they are all there: from what was seen before."""

from __future__ import annotations

import pytest

from ipexctl.common.checkpoint_names import PLAIN, checkpoint_key, checkpoint_label, is_plain
from ipexctl.remote.checkpoints.writing_habits import LATE, WritingHabits


@pytest.mark.parametrize(
    ("name", "is_folder", "key"),
    [
        ("out/model.pt", False, PLAIN), ("out/last", True, PLAIN), ("model.pt", False, PLAIN),
        ("out/ck-00080", True, "out/ck-00080"), ("out/model-80.pt", False, "out/*80"),
        ("out/optim-80.pt", False, "out/*80"), ("step_7.pt", False, "./*7"),
        ("out/ck-80/model.pt", False, "out/ck-80/*80"), ("out/rank3.pt", False, PLAIN),
        ("out/shard-0002.bin", False, PLAIN), ("out/step-7-rank0.pt", False, "out/*7"),
        ("out/epoch=3-step=80.ckpt", False, "out/*80"),
    ],
)  # fmt: skip
def test_names_that_belong_together_have_one_key(name: str, is_folder: bool, key: str) -> None:
    assert checkpoint_key(name, is_folder) == key
    assert is_plain(name) == (key == PLAIN)


@pytest.mark.parametrize(
    ("members", "label"),
    [
        (["out/model.pt"], "out/model.pt"), (["out/model.pt", "out/optim.pt"], "out"),
        (["a/model.pt", "b/optim.pt"], "."), (["model.pt", "optim.pt"], "."),
        (["out/a/m.pt", "out/b/o.pt"], "out"),
    ],
)  # fmt: skip
def test_a_checkpoint_is_called_as_its_only_name_or_their_folder(
    members: list[str], label: str
) -> None:
    assert checkpoint_label(members) == label


class Seen:
    """Looks every 2 s at one checkpoint: `versions` are those of its files."""

    def __init__(self, key: str, gap: float = 0.0) -> None:
        self.key, self.habits, self.now = key, WritingHabits(gap), 0.0
        self.versions: dict[str, int] = {}

    def write(self, *paths: str) -> None:
        for path in paths:
            self.versions[path] = self.versions.get(path, 0) + 1

    def looks(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += 2.0
            self.habits.look(self.key, {p: (v, v, v) for p, v in self.versions.items()}, self.now)

    def why(self) -> str:
        return self.habits.why_incomplete(self.key, self.now)

    def is_complete(self) -> bool:
        """As a worker does that has reported it then."""
        if self.why():
            return False
        self.habits.expect(self.key, self.habits.rounds[self.key].written)
        return True


def test_the_first_checkpoint_of_a_run_is_complete_after_two_looks() -> None:
    seen = Seen("out/ck-1")
    seen.write("out/ck-1/a.json")
    seen.looks(4)
    assert seen.is_complete()


def test_a_file_that_the_one_before_had_is_waited_for() -> None:
    seen = Seen("out/ck-1")
    seen.write("out/ck-1/a.json", "out/ck-1/b.json")
    seen.looks(4)
    assert seen.is_complete()
    seen.key, seen.versions = "out/ck-2", {}
    seen.write("out/ck-2/a.json")
    seen.looks(LATE - 4)
    assert "out/ck-#/b.json" in seen.why()
    seen.write("out/ck-2/b.json")
    seen.looks(4)
    assert seen.is_complete()
    seen.key, seen.versions = "out/ck-3", {}
    seen.write("out/ck-3/a.json")
    gap = LATE - 4  # as it was seen
    seen.looks(max(LATE, 1.5 * gap) + 4)
    assert seen.is_complete()  # this one has no b.json


@pytest.mark.parametrize("key", ["out/ck-2", PLAIN])
def test_it_is_quiet_for_longer_than_the_longest_gap_that_was_seen(key: str) -> None:
    seen = Seen(key, gap=24.0)  # as an earlier attempt has seen it
    seen.write("out/ck-2/a.json" if key != PLAIN else "out/a.json")
    seen.looks(30)
    assert "24 s apart" in seen.why()
    seen.looks(10)
    assert seen.is_complete()


def test_plain_names_are_complete_when_each_is_written_again() -> None:
    """The second one 26 s after the first: what is there between the two is never complete."""
    seen = Seen(PLAIN)
    seen.write("out/model.pt")
    seen.looks(4)
    assert seen.is_complete()  # nothing says that another one follows
    seen.looks(22)
    seen.write("out/optim.pt")
    seen.looks(4)
    assert seen.habits.gap == 26.0 and seen.is_complete()
    for _ in range(5):
        seen.looks(8)
        seen.write("out/model.pt")
        for _ in range(6):
            seen.looks(4)
            assert "out/optim.pt" in seen.why()
        seen.write("out/optim.pt")
        seen.looks(4)
        assert seen.is_complete()


def test_a_script_that_says_when_it_is_done_is_believed_and_waited_for() -> None:
    seen = Seen("out/ck-1")
    seen.write("out/ck-1/a.json", "out/ck-1/b.json")
    seen.looks(4)
    seen.habits.mark_done("out/ck-1")
    assert seen.is_complete()
    seen.key, seen.versions = "out/ck-2", {}
    seen.write("out/ck-2/a.json", "out/ck-2/b.json")
    seen.looks(100)
    assert "::checkpoint done" in seen.why()
    seen.habits.mark_done("out/ck-2")
    assert seen.is_complete()
    seen.write("out/ck-2/a.json")
    seen.looks(4)
    assert not seen.is_complete()


def test_a_format_that_has_an_end_of_its_own_needs_no_habit() -> None:
    seen = Seen("out/checkpoint-2", gap=500.0)
    seen.write("out/checkpoint-2/__1_0.distcp")
    seen.looks(4)
    assert seen.is_complete()  # the hub waits for .metadata
