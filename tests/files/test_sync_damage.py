"""What a disk of a host lost of a synced folder is noticed, and comes again."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from ipexctl.errors import HostFailed
from ipexctl.machines.agent import Agent
from ipexctl.project.files.project_files import PACKED
from ipexctl.remote.failure import Failure
from ipexctl.remote.project import synced_folders
from tests.files.test_sync import fill, taken


def test_what_was_damaged_on_a_host_is_sent_again(agent: Agent, tmp_path: Path) -> None:
    folder, root = fill(tmp_path / "p", {"a.py": "1234"}), tmp_path / "root"
    taken(folder).bring(agent, str(root), "run-1")
    (pack,) = root.glob("blobs/packs/*.pack")
    data = bytearray(pack.read_bytes())
    data[-1] ^= 1
    pack.write_bytes(data)
    with pytest.raises(HostFailed) as e:
        taken(folder).bring(agent, str(root), "run-2")
    assert e.value.slug == "damaged"
    taken(folder).bring(agent, str(root), "run-3")
    assert (root / "runs/run-3/work/a.py").read_text() == "1234"
    pack.write_bytes(b"")
    assert taken(folder).bring(agent, str(root), "run-4").bytes == 0


def overwritten(path: Path, data: bytes) -> None:
    """As long as before: only its hash tells."""
    path.chmod(0o600)
    with path.open("r+b") as file:
        file.write(data)


def test_a_large_file_that_was_damaged_on_a_host_is_sent_again(agent, tmp_path) -> None:
    folder, root, large = fill(tmp_path / "p", {}), tmp_path / "root", os.urandom(PACKED + 1)
    folder.mkdir()
    (folder / "large").write_bytes(large)
    taken(folder).bring(agent, str(root), "run-1")
    (blob,) = root.glob("blobs/sha256/*/" + hashlib.sha256(large).hexdigest())
    overwritten(blob, b"\0\0\0\0\0\0\0\0")
    with pytest.raises(HostFailed) as e:
        taken(folder).bring(agent, str(root), "run-2")
    assert (e.value.slug, blob.exists()) == ("damaged", False)
    assert not (root / "runs/run-2/work").exists()
    taken(folder).bring(agent, str(root), "run-3")
    assert (root / "runs/run-3/work/large").read_bytes() == large


def test_a_large_file_is_hashed_too_where_the_filesystem_clones_it(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(
        synced_folders, "cloned", lambda source, fd: os.write(fd, source.read()) > 0
    )
    blob, copy = tmp_path / "blob", tmp_path / "copy"
    blob.write_bytes(b"good")
    sha = hashlib.sha256(b"good").hexdigest()
    with copy.open("wb") as file:
        synced_folders.copy(str(blob), file.fileno(), sha)
    assert copy.read_bytes() == b"good"
    overwritten(blob, b"evil")
    with copy.open("wb") as file, pytest.raises(Failure) as refused:
        synced_folders.copy(str(blob), file.fileno(), sha)
    assert refused.value.slug == "damaged"
    assert str(blob) in refused.value.what
    assert not blob.exists()
