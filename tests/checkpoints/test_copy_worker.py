"""The process that copies, one look and one order at a time."""

from __future__ import annotations

import socket

import pytest

from ipexctl.common.checkpoint_reports import CopiedPart, Manifest
from ipexctl.common.copy_messages import (
    CopierEvent,
    CopierNote,
    CopyFailed,
    CopyOrder,
    KeepPart,
    LastLooksDone,
    ManifestWritten,
    PartAbsent,
    PartFound,
    PartKept,
    SeekPart,
    TakeLastLooks,
    WithdrawManifest,
    WriteManifest,
)
from ipexctl.remote.checkpoints import copy_link, copy_requests, copy_worker
from ipexctl.remote.checkpoints.checkpoint_files import found_in
from ipexctl.remote.checkpoints.copy_worker import Worker
from tests.checkpoints.test_checkpoint_files import zipped
from tests.made import start_order

RUN = "20261126-000000-abcdef"


class Hub:
    """The other end: what the worker says, and what it is told."""

    def __init__(self, tmp_path):
        self.work = tmp_path / "work"
        (tmp_path / "runs" / RUN).mkdir(parents=True)
        zipped(self.work / "out/c-0/model.pt")
        self.link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.link.settimeout(0.0)
        asked = start_order(cwd=str(self.work), checkpoints=["out/c-*", "out/*.pt"])
        folder = str(tmp_path / "runs" / RUN / "copies" / "a")
        self.worker = Worker(asked, folder, theirs, found_in(asked.cwd, asked.checkpoints))
        self.worker.copies.make()

    def said(self):
        found = []
        try:
            while True:
                packet = copy_link.receive_packet(self.link)
                found.append(CopierEvent.read(packet))
        except BlockingIOError:
            return found

    def looks(self, count=2):
        for _ in range(count):
            self.worker.look()
        return self.said()

    def tell(self, order):
        self.worker.obey(CopyOrder.read(order.document()))
        return self.said()


@pytest.fixture
def hub(tmp_path):
    made = Hub(tmp_path)
    yield made
    made.link.close()
    made.worker.link.close()


def test_what_was_sent_with_the_project_is_no_checkpoint_of_the_run_until_it_is_written(hub):
    assert hub.looks() == []
    assert hub.tell(SeekPart("out/c-0")) == []
    assert hub.looks(3) == [PartAbsent("out/c-0")]
    zipped(hub.work / "out/c-0/model.pt", 5000)
    assert [type(message) for message in hub.looks()] == [PartFound]


def test_two_equal_looks_and_a_finished_file_make_it_ready_once(hub):
    zipped(hub.work / "out/c-1/model.pt")
    assert hub.looks(1) == []
    (found,) = hub.looks(1)
    assert isinstance(found, PartFound)
    assert (found.name, found.names) == ("out/c-1", ["out/c-1/model.pt"])
    assert hub.looks(3) == []
    (again,) = [*hub.tell(SeekPart("out/c-1")), *hub.looks(1)]
    assert again.replace(age=0.0) == found.replace(age=0.0)
    (hub.work / "out/c-2").mkdir()
    (hub.work / "out/c-2/model.pt").write_bytes(b"PK\3\4 cut")
    assert hub.looks(3) == []


def test_what_was_written_before_the_last_looks_is_reported_before_they_are_done(hub):
    assert hub.looks(copy_worker.LAST_LOOKS) == []
    zipped(hub.work / "out/c-1/model.pt")
    assert hub.tell(TakeLastLooks()) == []
    found, last = hub.looks(copy_worker.LAST_LOOKS)
    assert isinstance(found, PartFound) and found.name == "out/c-1"
    assert last == LastLooksDone()
    assert hub.looks() == []


def test_it_is_kept_and_published_as_ordered(hub):
    zipped(hub.work / "out/c-1/model.pt")
    (ready,) = hub.looks()
    (kept,) = hub.tell(KeepPart(1, "out/c-1", ready.stamp))
    assert isinstance(kept, PartKept) and kept.number == 1
    part = CopiedPart(kept.sha, kept.list, kept.bytes)
    manifest = Manifest(
        number=1, name="out/c-1", step=1, parts={"a": part}, holders={"a": ["a"]}, age=40.0
    )
    assert hub.tell(WriteManifest(manifest)) == [ManifestWritten(1)]
    (found,) = copy_requests.report_checkpoint_copies("a", hub.worker.copies).manifests
    assert 40.0 <= found.age < 45.0  # since it was written
    assert list(hub.worker.copies.read_manifests()) == [1]
    other = {"a": part.replace(sha="0" * 64)}
    (failed,) = hub.tell(WriteManifest(manifest.replace(age=0.0, number=2, parts=other)))
    assert isinstance(failed, CopyFailed) and "a part of out/c-1 is not here" in failed.why
    assert list(hub.worker.copies.read_manifests()) == [1]
    assert hub.tell(KeepPart(3, "out/c-1", "another")) == [CopyFailed(3, "")]
    assert hub.tell(WithdrawManifest(1)) == []
    assert list(hub.worker.copies.read_manifests()) == []


def ready(messages):
    return [sorted(m.names) for m in messages if isinstance(m, PartFound)]


def test_plain_names_are_one_checkpoint_and_no_half_of_it_is_reported(hub):
    for name in ("model", "optim"):
        zipped(hub.work / f"out/{name}.pt")
    both = ["out/model.pt", "out/optim.pt"]
    messages = hub.looks()
    assert ready(messages) == [both]
    (note,) = (m.text for m in messages if isinstance(m, CopierNote))
    assert note == "out/model.pt and out/optim.pt are taken together as one checkpoint"
    zipped(hub.work / "out/model.pt", 5000)
    assert ready(hub.looks(5)) == []
    (_, _, _, _, why) = next(iter(hub.worker.waiting.values()))
    assert why == "out/optim.pt, which the one before had, is not written yet"
    zipped(hub.work / "out/optim.pt", 5000)
    assert ready(hub.looks()) == [both]


def test_a_done_file_or_line_says_that_a_checkpoint_is_complete(hub):
    logs = hub.work.parent / "runs" / RUN / "logs"
    logs.mkdir()
    log = logs / "rank00000.log"
    log.write_text("begins\n")
    hub.worker.habits.says_done = True
    zipped(hub.work / "out/c-1/model.pt")
    assert ready(hub.looks(4)) == []
    (hub.work / "out/c-1.done").touch()
    assert ready(hub.looks(1)) == [["out/c-1/model.pt"]]
    zipped(hub.work / "out/c-2/model.pt")
    assert ready(hub.looks(4)) == []
    log.write_text("begins\n::checkpoint done\n")
    assert ready(hub.looks(1)) == [["out/c-2/model.pt"]]


def test_a_checkpoint_that_is_always_being_written_is_noted_once(hub, monkeypatch):
    now, notes = [1000.0], []
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    hub.worker.progress = now[0]
    for size in range(1, 100):
        (hub.work / "out/last.pt").write_bytes(b"x" * size)
        notes += [m.text for m in hub.looks(1) if isinstance(m, CopierNote)]
        now[0] += 2.0
        assert bool(notes) == (now[0] - 1000.0 > 62.0)
    (note,) = notes
    assert note.startswith("out/last.pt is not copied: in the last minute no version of it")


def test_of_complete_checkpoints_that_are_not_copied_the_copier_says_nothing(hub, monkeypatch):
    """The hub has said why: a host that was to have the copies copies no more."""
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    hub.worker.progress, seen = now[0], []
    for step in range(100):
        (hub.work / f"out/c-{step}.pt").write_bytes(b"x")
        seen += hub.looks(1)
        now[0] += 2.0
    assert any(isinstance(message, PartFound) for message in seen)
    assert not [message for message in seen if isinstance(message, CopierNote)]


def test_names_that_differ_by_their_step_are_noted_as_one(hub, monkeypatch):
    now, notes = [1000.0], []
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    hub.worker.progress, hub.worker.habits.says_done = now[0], True
    for step in range(100):
        (hub.work / f"out/c-{step}.pt").write_bytes(b"x")
        notes += [m.text for m in hub.looks(1) if isinstance(m, CopierNote)]
        now[0] += 2.0
    (note,) = notes
    assert "no checkpoint was complete in the last minute" in note


def test_what_is_written_beside_a_laid_out_pair_makes_a_pair_again(hub):
    """Only one of the two is written: the other one stays what it was."""
    for name in ("config", "model"):
        zipped(hub.work / f"out/{name}.pt")
    hub.worker.link.close()
    order = start_order(cwd=str(hub.work), checkpoints=["out/*.pt"])
    hub.link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    hub.link.settimeout(0.0)
    existing = found_in(order.cwd, order.checkpoints)
    hub.worker = Worker(order, hub.worker.copies.folder, theirs, existing)
    hub.worker.habits.usual.clear()
    assert hub.looks(3) == []
    zipped(hub.work / "out/model.pt", 5000)
    (found,) = (m for m in hub.looks() if isinstance(m, PartFound))
    assert found.names == ["out/config.pt", "out/model.pt"]
    assert found.inherited == ["out/config.pt"]
