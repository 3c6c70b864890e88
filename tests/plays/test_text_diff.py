"""What --diff shows of large and odd contents, in little time."""

import pytest

from ipexctl.remote.plays.text_diff import text_diff


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("a\n", "b\n", "--- /x\n+++ /x\n@@ -1 +1 @@\n-a\n+b\n"),
        ("", "b", "--- /x\n+++ /x\n@@ -0,0 +1 @@\n+b\n\\ no newline at the end\n"),
        ("a", "a\n", "--- /x\n+++ /x\n@@ -1 +1 @@\n-a\n\\ no newline at the end\n+a\n"),
        ("a\x0cb\n", "a\x0cc\n", "--- /x\n+++ /x\n@@ -1 +1 @@\n-a\x0cb\n+a\x0cc\n"),
        ("a\r\n", "a\n", "--- /x\n+++ /x\n@@ -1 +1 @@\n-a\r\n+a\n"),
    ],
)
def test_a_diff(old: str, new: str, said: str) -> None:
    assert text_diff("/x", old.encode(), new.encode()) == said


def test_what_is_not_compared() -> None:
    assert text_diff("/x", b"\xff", b"a") == "/x: 1 -> 1 bytes, binary\n"
    large = b"a" * ((1 << 18) + 1)
    assert text_diff("/x", b"", large) == "/x: 0 -> 262145 bytes, too large for a diff\n"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kinds", [1, 2, 99, 150, 1000, 100_000])
def test_many_equal_lines_take_no_minutes(kinds: int) -> None:
    old = "".join(f"{i % kinds}\n" for i in range(40_000)).encode()
    new = "".join(f"{i * 7 % kinds}\n" for i in range(40_000)).encode()
    assert text_diff("/x", old, new).count("\n") == 1 or kinds in (1, 2, 99, 100_000)
