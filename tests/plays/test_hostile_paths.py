"""Steps of root in folders of another user: nothing outside is touched, and nothing hangs."""

import itertools
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ipexctl.remote.failure import Failure
from tests.plays.on_host import OTHER, another_user, as_root, file, line
from tests.refused import refused

ROUNDS = 700
pytestmark = as_root


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[Path]:
    """A folder of the other user, who can reach it."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o001 == 0:
            folder.chmod(0o755)
    path = tmp_path / "theirs"
    path.mkdir()
    os.chown(path, OTHER, OTHER)
    yield path


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    path = tmp_path / "outside"
    path.mkdir(mode=0o755)
    (path / "secret").write_text("root's\n")
    (path / "secret").chmod(0o600)
    return path


def _as_it_was(outside: Path) -> bool:
    found = (outside / "secret").stat()
    return (
        os.listdir(outside) == ["secret"]
        and (outside / "secret").read_text() == "root's\n"
        and (found.st_uid, stat.S_IMODE(found.st_mode)) == (0, 0o600)
        and outside.stat().st_uid == 0
        and stat.S_IMODE(outside.stat().st_mode) == 0o755
    )


def _clear(*paths: Path) -> None:
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)
        with suppress(OSError):
            path.unlink()


def _swap(path: Path, target: Path) -> None:
    """A link, a file, a pipe and a folder in turns, at this name."""
    try:
        os.symlink(target, path)
        os.unlink(path)
        path.write_text("mine\n")
        os.unlink(path)
        os.mkfifo(path)
        os.unlink(path)
        path.mkdir()
        os.rename(path, f"{path}-aside")
        os.rmdir(f"{path}-aside")
    except OSError:  # root was here meanwhile
        try:
            os.unlink(path)
        except OSError:
            _clear(path, Path(f"{path}-aside"))


STEPS = {
    "content": lambda path, n: file(path, content=f"{n}\n", owner=str(OTHER), mode="0666"),
    "attributes": lambda path, n: file(path, owner=str(OTHER), mode=f"06{n % 8}6"),
    "line": lambda path, n: line(path, f"line {n}", create=True, owner=str(OTHER), mode="0666"),
    "directory": lambda path, n: file(path, state="directory", owner=str(OTHER), mode="0777"),
    "absent": lambda path, n: file(path, state="absent"),
    "link": lambda path, n: file(path, state="link", src=f"/nowhere/{n}"),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_name_that_its_user_swaps_in_a_loop(step: str, theirs: Path, outside: Path) -> None:
    done = refused = 0
    with another_user(lambda: _swap(theirs / "x", outside / "secret")):
        for n in range(50 * ROUNDS):  # on a busy machine a file is seldom met
            if n >= ROUNDS and done:
                break
            try:
                STEPS[step](theirs / "x", n)
                done += 1
            except (Failure, OSError):
                refused += 1
            if n % 50 == 0:
                assert _as_it_was(outside)
    assert _as_it_was(outside)
    assert done + refused >= ROUNDS
    assert done


@pytest.mark.parametrize("step", STEPS)
def test_a_folder_on_the_way_that_its_user_swaps(step: str, theirs: Path, outside: Path) -> None:
    def swap() -> None:
        try:
            (theirs / "way").mkdir()
            (theirs / "way/secret").write_text("mine\n")
            os.rename(theirs / "way", theirs / "aside")
            os.symlink(outside, theirs / "way")
            os.unlink(theirs / "way")
        except OSError:
            pass
        if next(turn) % 20 == 0:
            _clear(theirs / "way", theirs / "aside")

    turn = itertools.count()
    with another_user(swap):
        for n in range(ROUNDS):
            try:
                STEPS[step](theirs / "way/secret", n)
            except (Failure, OSError):
                continue
    assert _as_it_was(outside)


@pytest.mark.parametrize("step", ["content", "line", "attributes"])
def test_a_hard_link_is_replaced_and_not_written_through(
    step: str, theirs: Path, outside: Path
) -> None:
    os.link(outside / "secret", theirs / "x")
    STEPS[step](theirs / "x", 7)
    assert _as_it_was(outside)
    assert (theirs / "x").stat().st_nlink == 1


def test_a_link_in_a_folder_of_another_user_is_refused(theirs: Path, outside: Path) -> None:
    (theirs / "x").symlink_to(outside / "secret")
    with refused("link-unsafe", theirs / "x"):
        file(theirs / "x", content="")
    assert _as_it_was(outside)


def test_a_setuid_program_of_another_user_does_not_become_one_of_root(theirs: Path) -> None:
    """Neither with its own content, which they may change, nor with ours in it."""
    program = theirs / "x"
    program.write_text("#!/bin/sh\n")
    os.chown(program, OTHER, OTHER)
    program.chmod(0o4755)
    with program.open("a") as still_open:
        file(program, mode="4755", owner="0")
        still_open.write("evil\n")
    found = program.stat()
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (0, 0o4755)
    assert program.read_text() == "#!/bin/sh\n"
    os.chown(program, OTHER, OTHER)
    program.chmod(0o4755)
    line(program, "more", owner="0")
    found = program.stat()
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (0, 0o755)


def test_setuid_bits_stay_with_their_owner(tmp_path: Path) -> None:
    program = tmp_path / "x"
    program.write_text("a\n")
    program.chmod(0o4755)
    line(program, "b")
    assert stat.S_IMODE(program.stat().st_mode) == 0o4755


def test_a_folder_that_is_moved_while_dots_lead_back(theirs: Path, outside: Path) -> None:
    """`..` is the folder that was there before, not the one that it was moved into."""
    (theirs / "a").mkdir()
    (outside / "deep").mkdir()
    os.chmod(outside / "deep", 0o777)

    def move() -> None:
        try:
            (theirs / "a/b").mkdir(exist_ok=True)
            (theirs / "a/b").rename(outside / "deep/b")
            (outside / "deep/b").rename(theirs / "a/b")
        except OSError:
            _clear(theirs / "a/b", outside / "deep/b")

    os.chown(theirs / "a", OTHER, OTHER)
    with another_user(move):
        for n in range(ROUNDS):
            try:
                file(theirs / "a/b/../../new", content=f"{n}")
            except (Failure, OSError):
                continue
    assert not (outside / "new").exists()
