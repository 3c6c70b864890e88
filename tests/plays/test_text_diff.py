"""What --diff shows of large and odd contents, in little time."""

import pytest

from ipexctl.remote.play.text_diff import text_diff


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
    assert text_diff("/x", b"\xff", b"a").endswith(", binary\n")
    large = b"a" * ((1 << 18) + 1)
    assert text_diff("/x", b"", large).startswith("/x: 0 -> 262145 bytes, ")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("lines", [199, 1500, 40_000])
@pytest.mark.parametrize("kinds", [1, 2, 99, 150, 1000, 100_000])
def test_lines_that_differ_take_no_minutes(kinds: int, lines: int) -> None:
    old = "".join(f"{i % kinds}\n" for i in range(lines))
    new = "".join(f"{(i * 7 + 1) % kinds}\n" for i in range(lines))
    said = text_diff("/x", old.encode(), new.encode())
    assert ("too many" in said) == (lines == 40_000 and kinds > 1)
    assert (said == "") == (kinds == 1)


def test_one_line_of_many() -> None:
    old = "".join(f"{i}\n" for i in range(40_000))
    said = text_diff("/x", old.encode(), old.replace("\n20000\n", "\nchanged\n").encode())
    assert "-20000\n+changed\n" in said
    assert said.count("\n") == 11
