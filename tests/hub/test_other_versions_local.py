"""Runs that a later or an earlier version of ipexctl started, seen with this one."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ipexctl import __version__
from ipexctl.common.journal_records import RUN_FORMAT
from ipexctl.remote.run_files import journal
from tests.hub.test_detach_local import slug
from tests.run.test_ps_local import LONG, Here
from tests.run.test_ps_local import here as here  # noqa: PLC0414  a fixture

HERE = f"this is ipexctl {__version__} (run format {RUN_FORMAT})"
Change = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]


def file_of(here: Here) -> Path:
    (found,) = (here.code.parent / "home/.ipexctl/runs").glob("*/journals/localhost")
    return found


def make_newer(here: Here) -> None:
    """In place, under the supervisor's hands: one digit of its first record."""
    path = file_of(here)
    with path.open("r+b") as file:
        size, _ = journal.HEAD.unpack(file.read(journal.HEAD.size))
        text = file.read(size)
        ours = b'"version": %d,' % RUN_FORMAT
        assert ours in text
        text = text.replace(ours, b'"version": 9,')
        file.seek(0)
        file.write(journal.HEAD.pack(size, zlib.crc32(text)) + text)


def rewrite(here: Here, change: Change) -> None:
    path = file_of(here)
    data = b""
    for document in change([found for found, _ in journal.iter_documents(path.read_bytes())]):
        text = json.dumps(document).encode("ascii")
        data += journal.HEAD.pack(len(text), zlib.crc32(text)) + text
    path.write_bytes(data)


def explained(done: Any) -> str:
    """What it printed to stderr, on one line; no bug, and nothing of Python's."""
    said = " ".join(done.stderr.split())
    assert done.returncode in (0, 1, 2, 4, 121, 130), said
    for word in ("Traceback", "bug in", "invalid reply"):
        assert word not in said + done.stdout
    return said


def test_a_live_run_of_a_later_version_is_listed_followed_stopped_and_not_attached_to(
    here: Here,
) -> None:
    run = here.start("--name", "bert", *LONG)
    make_newer(here)
    note = f"was started by ipexctl {__version__} (run format 9); {HERE}: details may be missing"
    listed = here.call("ps", "-v")
    assert note in explained(listed) and "bert: train.py 1000 0" in listed.stdout
    (row,) = here.listed()
    assert (row["state"], row["ipexctl"]) == ("running", __version__)
    attached = here.call("attach", "bert", "--json")
    assert (attached.returncode, slug(attached)) == (2, "run-format-differs")
    assert "try: ipexctl logs bert -f" in explained(attached)
    logs = here.call("logs", "bert", "-n", "2")
    assert note in explained(logs) and "r01 | step " in logs.stdout
    for words in (("metrics", "bert"), ("rm", "bert", "-y"), ("fetch", "bert", "*.pt")):
        assert note in explained(here.call(*words))
    stopped = here.call("stop", "bert", "-t", "1")
    assert (stopped.returncode, note in explained(stopped)) == (0, True)
    run.communicate(timeout=30)
    waited = here.call("wait", "bert")
    assert (waited.returncode, note in explained(waited)) == (130, True)
    removed = here.call("rm", "bert", "-y")
    assert (removed.returncode, note in explained(removed)) == (0, True)
    assert here.listed("-a") == []


def began(about: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"record": {"kind": "RunBegan", "version": 9, "about": about, "began": 0.0, **more}}


def other_types(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As if every value had become something else."""
    odd = [began({"version": "9.1.0", "name": "bert", "hosts": {"a": 1}}, later={"a": 1})]
    for document in records[1:]:
        record = document["record"]
        changed = {key: [value, {"more": None}] for key, value in record.items()}
        odd += [document | {"record": {**changed, "kind": record["kind"]}}, {"record": changed}]
        odd += [{"record": {"kind": "LogBegan", "key": 0}}, {"record": None}, {"at": {}}]
        odd += [{"record": {"kind": "FactNoted", "fact": {"event": {"kind": "RankExited"}}}}]
        odd += [{"record": {"kind": "FromTheFuture", "fact": 7}, "at": 1.0}, {"from-the-future": 1}]
    return odd


def only_about(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [began({"version": "9.1.0", "name": "bert", "ranks": 2})]


def without_kinds(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """An early version's."""
    about = {"name": "bert", "hosts": ["localhost"], "ranks": 2}
    return [{"about": about, "version": 1}, {"started": 0}, {"over": "ended", "survivors": 0}]


def nothing(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return []


@pytest.fixture
def ended(here: Here) -> Iterator[Here]:
    here.start("--name", "bert", "train.py", "3", "0").communicate(timeout=60)
    yield here


@pytest.mark.parametrize(("change", "by"), [
    (other_types, "ipexctl 9.1.0 (run format 9)"), (only_about, "ipexctl 9.1.0 (run format 9)"),
    (without_kinds, "another version of ipexctl, or its record is damaged"),
    (nothing, "another version of ipexctl, or its record is damaged"),
])  # fmt: skip
def test_an_ended_run_of_another_version_is_told_apart_by_every_command(
    ended: Here, change: Change, by: str
) -> None:
    run = file_of(ended).parents[1].name
    rewrite(ended, change)
    if change is nothing:
        file_of(ended).write_bytes(b"another kind of file\n" * 9)
    sizes = file_of(ended).with_name("localhost.sizes")
    sizes.write_text('{"at": 0, "sizes": [1]}\n[]\n{"time": 5}\n')
    note = f"{run} was started by {by}; {HERE}: "
    every = [("metrics", run), ("fetch", run, "*.pt"), ("stop", run), ("wait", run)]
    some = [("ps", "-a"), ("logs", run), ("logs", run, "--since", "1h")]
    for words in [*some, *(every if change in (other_types, nothing) else [])]:
        done = ended.call(*words)
        assert note in explained(done), words
        assert "switched off" not in done.stdout
        assert "started " not in done.stdout
        assert words[:1] != ("logs",) or "localhost r01 | step 2\n" in done.stdout
    attached = ended.call("attach", run, "--json")
    assert (attached.returncode, slug(attached)) == (2, "run-format-differs")
    assert by in explained(attached)
    assert note in explained(ended.call("rm", run, "-y"))
    assert ended.listed("-a") == []


def test_a_run_of_this_version_is_listed_without_a_word_about_versions(ended: Here) -> None:
    assert "run format" not in explained(ended.call("ps", "-a"))
    (row,) = ended.listed("-a")
    assert row["ipexctl"] == __version__
