"""Blobs on their way to a real agent on this machine."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from ipexctl.base.blob import Blob
from ipexctl.blobs.blob_store import (
    CHUNK,
    WINDOW,
    Room,
    Store,
    missing_blobs,
    read_part,
    send_blobs,
)
from ipexctl.common.blob_answers import BlobsAwaited, BytesArrived
from ipexctl.errors import HostFailed, InputError
from ipexctl.inventory.inventory import Host
from ipexctl.machines.agent import Agent
from ipexctl.machines.agent_start import start_host_agent
from ipexctl.machines.wire.transport import LocalTransport


def files(tmp_path: Path, *contents: bytes) -> dict[Blob, Path]:
    out = {}
    for i, content in enumerate(contents):
        path = tmp_path / f"file{i}"
        path.write_bytes(content)
        out[Blob(path.name, hashlib.sha256(content).hexdigest(), len(content))] = path
    return out


def send_missing(
    agent: Agent,
    root: str,
    blobs: Sequence[Blob],
    place: Callable[[Blob], Path],
    on_bytes: Callable[[int], None] = lambda size: None,
    room: Room = Room(),  # noqa: B008 - frozen
) -> int:
    def read(blob: Blob, offset: int, size: int) -> bytes:
        return read_part(place(blob), offset, size)

    return send_blobs(agent, root, missing_blobs(agent, root, blobs), read, on_bytes, room)


def stored(root: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in root.glob("blobs/sha256/*/*")}


SIZES = [
    (0,),
    (1,),
    (CHUNK,),
    (CHUNK + 1, 0, 5),
    (CHUNK * (WINDOW * 3) + 7, 3),
]


@pytest.mark.parametrize("sizes", SIZES)
def test_blobs_arrive_whole_whatever_their_sizes(
    agent: Agent, tmp_path: Path, sizes: tuple[int, ...]
) -> None:
    blobs = files(tmp_path, *(os.urandom(n) for n in sizes))
    root, counted = tmp_path / "root", []
    sent = send_missing(agent, str(root), list(blobs), blobs.__getitem__, on_bytes=counted.append)
    assert sent == sum(sizes)
    assert sum(counted) == sum(sizes)
    assert stored(root) == {b.sha256: p.read_bytes() for b, p in blobs.items()}
    assert list(root.glob("blobs/parts/*")) == []
    folders = [path for path in (root, *root.rglob("*")) if path.is_dir()]
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in folders} == {0o700}


def test_what_leaves_this_machine_is_a_sign_of_life_before_the_host_answers(
    agent: Agent, tmp_path: Path
) -> None:
    blobs, counted = files(tmp_path, os.urandom(CHUNK * WINDOW)), []
    send_missing(agent, str(tmp_path), list(blobs), blobs.__getitem__, on_bytes=counted.append)
    assert counted[: WINDOW + 1] == [0] * (WINDOW + 1)  # the first: nothing was there


def test_what_is_there_is_not_sent_again_and_a_duplicate_is_sent_once(
    agent: Agent, tmp_path: Path
) -> None:
    blobs = files(tmp_path, b"same", b"same", b"other")
    root = str(tmp_path / "root")
    assert send_missing(agent, root, list(blobs), blobs.__getitem__) == 9
    assert send_missing(agent, root, list(blobs), blobs.__getitem__) == 0


def test_many_blobs_are_asked_for_and_sent_some_at_a_time(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ipexctl.blobs.blob_store.AT_ONCE", 2)
    blobs = files(tmp_path, *(os.urandom(n) for n in (1, 2, 3, 4, 5)))
    root, counted = tmp_path / "root", []
    send_missing(agent, str(root), list(blobs)[3:4], blobs.__getitem__)
    sent = send_missing(agent, str(root), list(blobs), blobs.__getitem__, on_bytes=counted.append)
    assert (sent, sum(counted)) == (11, 11)
    assert stored(root) == {b.sha256: p.read_bytes() for b, p in blobs.items()}
    space = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
    huge = [*list(files(tmp_path, b"new")), *(Blob("h", c * 64, space // 2) for c in "abc")]
    with pytest.raises(HostFailed) as refused:  # before the first of them is sent
        send_missing(agent, str(tmp_path / "other"), huge, blobs.__getitem__)
    assert refused.value.slug == "no-space"


def test_a_blob_with_other_bytes_is_refused_and_nothing_is_kept(
    agent: Agent, tmp_path: Path
) -> None:
    blobs = files(tmp_path, b"what was promised")
    next(iter(blobs.values())).write_bytes(b"what was deliverd")
    root = tmp_path / "root"
    with pytest.raises(HostFailed) as refused:
        send_missing(agent, str(root), list(blobs), blobs.__getitem__)
    assert refused.value.slug == "damaged"
    assert stored(root) == {}
    assert list(root.glob("blobs/parts/*")) == []


def test_a_file_that_shrinks_is_told_and_the_connection_lives_on(
    agent: Agent, tmp_path: Path
) -> None:
    blobs = files(tmp_path, b"x" * (3 * CHUNK))
    next(iter(blobs.values())).write_bytes(b"x" * CHUNK)
    root = str(tmp_path / "root")
    with pytest.raises(InputError) as refused:
        send_missing(agent, root, list(blobs), blobs.__getitem__)
    assert refused.value.slug == "file-changed"
    assert missing_blobs(agent, root, list(blobs)) == tuple(blobs)


@pytest.mark.parametrize(
    ("size", "room", "lacks"),
    [(1 << 60, Room(), ""), (5, Room(1 << 60, 1), ""), (5, Room(1, 1 << 60), "inodes")],
)
def test_a_disk_that_is_too_small_is_told_before_anything_is_sent(
    agent: Agent, tmp_path: Path, size: int, room: Room, lacks: str
) -> None:
    """Also one that has no room for what comes afterwards."""
    blob = Blob("blob", "a" * 64, size)
    with pytest.raises(HostFailed) as caught:
        send_missing(agent, str(tmp_path), [blob], lambda b: tmp_path / "never read", room=room)
    assert caught.value.slug == "no-space"
    assert lacks in caught.value.what


def test_parts_of_a_killed_writer_are_removed_and_fresh_ones_left(
    agent: Agent, tmp_path: Path
) -> None:
    parts = tmp_path / "root" / "blobs" / "parts"
    parts.mkdir(parents=True)
    (tmp_path / "root").chmod(0o700)
    for name, age in (("dead", 3600), ("fresh", 0)):
        (parts / name).write_bytes(b"half")
        then = os.stat(parts / name).st_mtime - age
        os.utime(parts / name, (then, then))
    blobs = files(tmp_path, b"x")
    send_missing(agent, str(tmp_path / "root"), list(blobs), blobs.__getitem__)
    assert [p.name for p in parts.iterdir()] == ["fresh"]


LARGE = 5 * CHUNK  # large enough to be worth keeping half of it


def begun(agent: Agent, root: Path, blob: Blob, content: bytes) -> int:
    """Half of the blob is on the host; the call stays open."""
    number = agent.start(
        "blobs.blobs.put", {"root": str(root), "blobs": [[blob.sha256, blob.size]]}
    )
    agent.feed(number, {}, content[: blob.size // 2])
    next(f for f in agent.frames(60) if BytesArrived.kind_of(f.header))
    return number


def ended(agent: Agent) -> None:
    agent.close()
    agent.channel.exit_status(60)


@pytest.fixture
def other() -> Iterator[Agent]:
    """A second agent on the same machine: another install, or a host with the same home."""
    agent = start_host_agent(LocalTransport(), Host("other", local=True))
    yield agent
    agent.close()


def test_a_large_blob_goes_on_where_a_broken_connection_had_left_it(
    agent: Agent, other: Agent, tmp_path: Path
) -> None:
    blobs = files(tmp_path, os.urandom(LARGE))
    [(blob, path)] = blobs.items()
    root, counted = tmp_path / "root", []
    begun(other, root, blob, path.read_bytes())
    ended(other)
    assert missing_blobs(agent, str(root), [blob]) == (blob,)
    sent = send_missing(agent, str(root), [blob], blobs.__getitem__, on_bytes=counted.append)
    assert sent == LARGE - LARGE // 2
    assert sum(counted) == LARGE
    assert stored(root) == {blob.sha256: path.read_bytes()}
    assert list(root.glob("blobs/parts/*")) == []
    assert missing_blobs(agent, str(root), [blob]) == ()


def test_what_was_left_with_other_bytes_is_noticed_and_the_next_try_begins_anew(
    agent: Agent, tmp_path: Path
) -> None:
    blobs = files(tmp_path, os.urandom(LARGE))
    [blob] = blobs
    root = tmp_path / "root"
    assert send_missing(agent, str(root), [], blobs.__getitem__) == 0
    (root / "blobs" / "parts").mkdir(0o700, parents=True)
    (root / "blobs" / "parts" / f"{blob.sha256}.part").write_bytes(bytes(LARGE // 2))
    with pytest.raises(HostFailed) as refused:
        send_missing(agent, str(root), [blob], blobs.__getitem__)
    assert refused.value.slug == "damaged"
    assert send_missing(agent, str(root), [blob], blobs.__getitem__) == LARGE


@pytest.mark.parametrize(("first_ends", "second_gets"), [("whole", None), ("broken", LARGE // 2)])
def test_of_two_that_bring_the_same_large_blob_the_second_waits_for_the_first(
    agent: Agent, other: Agent, tmp_path: Path, first_ends: str, second_gets: int | None
) -> None:
    content = os.urandom(LARGE)
    [blob] = files(tmp_path, content)
    root = tmp_path / "root"
    first = begun(other, root, blob, content)
    agent.start("blobs.blobs.put", {"root": str(root), "blobs": [[blob.sha256, blob.size]]})
    frames = agent.frames(60)
    assert next(frames).header["event"] == "waiting"
    if first_ends == "whole":
        other.feed(first, {}, content[LARGE // 2 :])
    else:
        ended(other)
    awaited = BlobsAwaited.read(next(f.header for f in frames if "event" not in f.header))
    assert awaited.begins == ({} if second_gets is None else {blob.sha256: second_gets})


HOSTILE = [
    ({"root": "relative/folder", "blobs": []}, "root-invalid"),
    ({"root": "", "blobs": []}, "root-invalid"),
    ({"root": "/dev/null", "blobs": []}, "root-not-creatable"),
    ({"root": "/tmp", "blobs": []}, "root-writable-by-others"),
    ({"root": "{tmp}", "blobs": [["../../../../etc/passwd", 1]]}, "invalid-request"),
    ({"root": "{tmp}", "blobs": [["A" * 64, 1]]}, "invalid-request"),
    ({"root": "{tmp}", "blobs": [["a" * 64 + "\n", 1]]}, "invalid-request"),
]


@pytest.mark.parametrize(("header", "slug"), HOSTILE)
@pytest.mark.parametrize("op", ["blobs.blobs.have", "blobs.blobs.put"])
def test_the_agent_refuses_odd_roots(
    agent: Agent, tmp_path: Path, op: str, header: dict[str, object], slug: str
) -> None:
    root = header["root"]
    if isinstance(root, str):
        header = {**header, "root": root.replace("{tmp}", str(tmp_path / "root"))}
    with pytest.raises(HostFailed) as refused:
        agent.call(op, header)
    assert refused.value.slug == slug


@pytest.mark.parametrize(
    ("mode", "owner", "group", "said"),
    [
        (0o755, -1, -1, ""),
        (0o1777, -1, -1, ""),
        (0o777, -1, -1, "writable"),
        (0o775, -1, 65534, "writable"),
        (0o1777, 65534, -1, "uid 65534"),
        (0o755, 999, -1, ""),
    ],
    ids=["ours", "sticky", "open", "open to a group", "of another user", "of an administrator"],
)
@pytest.mark.parametrize("between", ["", "deeper/still", "not/there"])
def test_a_folder_above_the_root_that_others_could_replace_is_refused(
    agent: Agent, tmp_path: Path, mode: int, owner: int, group: int, said: str, between: str
) -> None:
    if os.geteuid():
        pytest.skip("needs root, to give folders away")
    above = tmp_path / "above"
    root = above / between / "root"
    (above if between == "not/there" else root).mkdir(parents=True, mode=0o700)
    before = sorted(above.rglob("*"))
    os.chown(above, owner, group)
    above.chmod(mode)
    asked = {"root": str(root), "blobs": []}
    if not said:
        assert agent.call("blobs.blobs.have", asked).done == {"missing": []}
        return
    with pytest.raises(HostFailed) as refused:
        agent.call("blobs.blobs.have", asked)
    assert refused.value.slug == "root-parent-unsafe"
    assert f"{above}," in refused.value.what and said in refused.value.what
    assert sorted(above.rglob("*")) == before


def test_more_bytes_than_announced_are_refused(agent: Agent, tmp_path: Path) -> None:
    number = agent.start(
        "blobs.blobs.put", {"root": str(tmp_path / "root"), "blobs": [["a" * 64, 3]]}
    )
    agent.feed(number, {}, b"four")
    with pytest.raises(HostFailed) as refused:
        agent.wait(number)
    assert refused.value.slug == "damaged"


def test_the_controllers_store_keeps_bytes_once_and_only_with_the_right_hash(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path / "blobs")
    blob = store.add("a.whl", [b"con", b"tent"])
    assert blob == Blob("a.whl", hashlib.sha256(b"content").hexdigest(), 7)
    assert store.path(blob).read_bytes() == b"content"
    assert store.has(blob)
    with pytest.raises(InputError) as refused:
        store.add("b.whl", [b"other"], sha256=blob.sha256)
    assert refused.value.slug == "wheel-differs-from-lock"
    assert [p.name for p in (tmp_path / "blobs").rglob("*") if p.is_file()] == [blob.sha256]
