"""The process that copies, one look and one order at a time."""

from __future__ import annotations

import socket

import pytest

from ipexctl.common.copy_messages import CopyOrder
from ipexctl.remote.checkpoints import copy_link, copy_requests
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
        asked = start_order(cwd=str(self.work), checkpoints=["out/c-*"])
        self.worker = Worker(asked, str(tmp_path / "runs" / RUN / "shelf" / "a"), theirs)
        self.worker.copies.make()

    def said(self):
        found = []
        try:
            while True:
                found.append(copy_link.receive_packet(self.link))
        except BlockingIOError:
            return found

    def looks(self, count=2):
        for _ in range(count):
            self.worker.look()
        return self.said()

    def tell(self, **order):
        self.worker.obey(CopyOrder.any_of(order))
        return self.said()


@pytest.fixture
def hub(tmp_path):
    made = Hub(tmp_path)
    yield made
    made.link.close()
    made.worker.link.close()


def test_what_was_sent_with_the_project_is_no_checkpoint_of_the_run_until_it_is_written(hub):
    assert hub.looks() == []
    assert hub.tell(seek="out/c-0") == []
    assert [(m["shelf"], m["name"]) for m in hub.looks(3)] == [("none", "out/c-0")]
    zipped(hub.work / "out/c-0/model.pt", 5000)
    assert [m["shelf"] for m in hub.looks()] == ["ready"]


def test_two_equal_looks_and_a_finished_file_make_it_ready_once(hub):
    zipped(hub.work / "out/c-1/model.pt")
    assert hub.looks(1) == []
    (ready,) = hub.looks(1)
    assert (ready["shelf"], ready["name"], ready["names"]) == ("ready", "out/c-1", ["model.pt"])
    assert hub.looks(3) == []
    (again,) = [*hub.tell(seek="out/c-1"), *hub.looks(1)]
    assert {**again, "age": 0} == {**ready, "age": 0}
    (hub.work / "out/c-2").mkdir()
    (hub.work / "out/c-2/model.pt").write_bytes(b"PK\3\4 cut")
    assert hub.looks(3) == []


def test_it_is_kept_and_published_as_ordered(hub):
    zipped(hub.work / "out/c-1/model.pt")
    (ready,) = hub.looks()
    (kept,) = hub.tell(keep=1, name="out/c-1", stamp=ready["stamp"])
    part = {name: kept[name] for name in ("sha", "list", "bytes")}
    manifest = {"number": 1, "name": "out/c-1", "step": 1, "parts": {"a": part}}
    manifest["holders"] = {"a": ["a"]}
    (done,) = hub.tell(publish=dict(manifest, age=40.0))
    (found,) = copy_requests.report_checkpoint_copies("a", hub.worker.copies).manifests
    row = found.document()
    assert 40.0 <= row["age"] < 45.0  # since it was written
    assert (done["shelf"], list(hub.worker.copies.read_manifests())) == ("published", [1])
    hub.tell(publish=dict(manifest, age=0.0, number=2, parts={"a": dict(part, sha="0" * 64)}))
    assert list(hub.worker.copies.read_manifests()) == [1]
    (failed,) = hub.tell(keep=3, name="out/c-1", stamp="another")
    assert (failed["shelf"], failed["why"]) == ("failed", "")
    hub.tell(withdraw="out/c-1")
    assert list(hub.worker.copies.read_manifests()) == []
