"""When lines of a log were printed."""

from __future__ import annotations

import pytest

from ipexctl.run.output.rank_lines import LogTimes

SAMPLES = [(0.0, 0), (100.0, 0), (102.0, 10), (110.0, 10), (112.0, 30)]


def cut(samples: list[tuple[float, int]], *frames: bytes) -> list[tuple[bytes, object]]:
    times = LogTimes(samples)
    return [piece for frame in frames for piece in times.pieces(frame)]


@pytest.mark.parametrize("size", [1, 3, 10, 40])
def test_nothing_is_lost_or_doubled(size: int) -> None:
    data = bytes(range(40))
    frames = [data[at : at + size] for at in range(0, 40, size)]
    assert b"".join(piece for piece, _ in cut(SAMPLES, *frames)) == data


def test_lines_have_the_time_of_their_sample() -> None:
    assert cut(SAMPLES, b"a" * 10, b"b" * 20, b"c") == [
        (b"a" * 10, (100.0, 102.0)),
        (b"b" * 20, (110.0, 112.0)),  # a gap is no growth
        (b"c", None),  # written after the last look
    ]
    assert cut(SAMPLES, b"a" * 20)[1] == (b"a" * 10, (110.0, 111.0))


def test_a_log_grew_shortly_before_it_was_seen() -> None:
    assert cut([(0.0, 0), (50.0, 4)], b"abcd") == [(b"abcd", (47.0, 50.0))]


def test_the_end_of_a_log_has_its_own_times() -> None:
    times = LogTimes(SAMPLES, position=20)
    assert list(times.pieces(b"b" * 10 + b"c")) == [(b"b" * 10, (111.0, 112.0)), (b"c", None)]
