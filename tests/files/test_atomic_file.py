"""A file that is replaced at once, with the rights that its user wants."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ipexctl.common.files import open_atomic, write_atomic


@pytest.fixture(params=[0o022, 0o077, 0o002, 0], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_the_mode_is_the_one_named_or_that_of_the_umask(umask: int, tmp_path: Path) -> None:
    for mode, expected in ((0o600, 0o600), (0o644, 0o644), (None, 0o644 & ~umask)):
        write_atomic(tmp_path / "file", "text", mode=mode)
        assert (tmp_path / "file").stat().st_mode & 0o777 == expected


def test_what_fails_half_way_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomic(path, "old")
    with pytest.raises(OSError, match="full"), open_atomic(path, sync=True) as file:
        file.write(b"ne")
        raise OSError("full")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
