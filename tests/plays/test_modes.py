"""`mode` is what chmod makes of it."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ipexctl.play.steps.file_steps import check_mode
from ipexctl.remote.play.file_attributes import group_id, mode_of, user_id
from tests.refused import refused

_PERMS = st.text("rwxXst", max_size=3) | st.sampled_from("ugo")
_OPERATIONS = st.lists(st.tuples(st.sampled_from("=+-"), _PERMS), min_size=1, max_size=2)
CLAUSE = st.tuples(st.text("ugoa", max_size=2), _OPERATIONS).map(
    lambda c: c[0] + "".join(sign + perms for sign, perms in c[1])
)
SYMBOLIC = st.lists(CLAUSE, min_size=1, max_size=3).map(",".join)


@pytest.fixture(autouse=True)
def _mask() -> object:
    before = os.umask(0o027)
    yield
    os.umask(before)


def _chmod(path: Path, text: str, start: int) -> int:
    path.chmod(start)
    subprocess.run(["chmod", "--", text, path], check=True, capture_output=True)
    return path.stat().st_mode & 0o7777


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=SYMBOLIC, start=st.integers(0, 0o7777), folder=st.booleans())
def test_a_symbolic_mode_is_what_chmod_makes_of_it(
    tmp_path: Path, text: str, start: int, folder: bool
) -> None:
    path = tmp_path / ("folder" if folder else "file")
    path.mkdir(exist_ok=True) if folder else path.touch()
    assert mode_of(text, start, folder) == _chmod(path, text, start), text


@pytest.mark.parametrize(("text", "mode"), [("644", 0o644), ("0644", 0o644), ("04755", 0o4755)])
def test_an_octal_mode_is_all_of_the_mode(text: str, mode: int) -> None:
    assert mode_of(text, 0o7777, True) == mode


@pytest.mark.parametrize("text", ["9", "64", "0o644", "888", "u", "rw-r--r--", "u+z", "+x,"])
def test_what_is_no_mode_is_refused(text: str) -> None:
    with refused("not-a-file-mode", text):
        check_mode("mode", text)


@pytest.mark.parametrize("read", [user_id, group_id])
@pytest.mark.parametrize("text", ["²", "-1", "4294967295", "99999999999", "no such name", "a\0b"])
def test_what_is_no_account_is_refused(read: object, text: str) -> None:
    assert callable(read)
    with refused("account-missing", text):
        read(text)


def test_numbers_need_no_account() -> None:
    assert (user_id("4294967294"), group_id("0"), user_id("")) == (4294967294, 0, None)
