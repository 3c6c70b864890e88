"""Files of other accounts are read in a time that grows with their size, and up to a limit."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ipexctl.common import tolerant_reads
from ipexctl.common.tolerant_reads import read_text


def test_a_file_in_many_parts_takes_no_more_time_than_they_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As /proc/net/unix, of which each read gives 4 KB."""
    (tmp_path / "file").write_text("")
    parts = [b"x" * 4096] * 10_000 + [b""]
    with monkeypatch.context() as patch:
        patch.setattr(os, "read", lambda fd, size: parts.pop(0))
        began = time.monotonic()
        text = read_text(str(tmp_path / "file"))
    assert len(text) == 40_960_000 and time.monotonic() - began < 4


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
