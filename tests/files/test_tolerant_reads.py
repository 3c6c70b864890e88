"""Files of other accounts are read in a time that grows with their size, and up to a limit."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ipexctl.common import tolerant_reads
from ipexctl.common.tolerant_reads import read_text


def test_a_file_in_many_parts_takes_no_more_time_than_they_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As /proc/net/unix, of which each read gives 4 KB."""
    size = 40_960_000
    (tmp_path / "file").write_bytes(b"x" * size)
    monkeypatch.setattr(tolerant_reads, "PART", 4096)
    began = time.thread_time()
    assert len(read_text(str(tmp_path / "file"))) == size
    assert time.thread_time() - began < 4  # of this thread alone: 0.1 s, and 20 s for copies of all


def test_reading_stops_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("abcdefgh")
    assert read_text(str(file)) == "abcdefgh" and read_text(str(file), limit=9) == "abcdefgh"
    assert read_text(str(file), limit=3) == "abc" and read_text(str(file), b"b") == "abcdefgh"
    monkeypatch.setattr(tolerant_reads, "PART", 2)
    assert read_text(str(file), b"bcd") == "abcd" and read_text(str(file), b"x") == "abcdefgh"
    assert read_text(str(file), limit=3) == "abc"
    file.write_text("")
    assert read_text(str(file)) == "" == read_text(str(file), b"x", 5)
    assert read_text(str(tmp_path / "none")) == ""
