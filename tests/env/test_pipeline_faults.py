"""What goes wrong while files are fetched, brought and unpacked at the same time."""

from __future__ import annotations

import io
import queue
import shutil
import signal
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from ipexctl.base.blob import Blob
from ipexctl.blobs.blob_relay import _Getter
from ipexctl.common.install_answers import EnvChanged
from ipexctl.errors import HostFailed, IpexctlError
from ipexctl.install.fetch_wheels import Supply
from ipexctl.remote.failure import Failure
from ipexctl.remote.install import environments
from ipexctl.stack.lock_file import Lock, LockedPackage
from ipexctl.terminal.progress import FETCHING, ProgressStep
from ipexctl.terminal.progress_view import ProgressView, step_with_bytes
from tests.install.conftest import Builder, Shop, finish, make_wheel, until
from tests.install.test_pipeline import KEY, NO_FOLDERS, from_index, index, numpy_of
from tests.packages.served import Fault, Served

__all__ = ["index"]  # a fixture


def test_a_file_whose_size_is_locked_wrong_does_not_make_the_install_wait_for_ever(
    shop: Shop, index: Served
) -> None:
    assert shop.install(*from_index(index), **NO_FOLDERS).code == 0
    for folder in (shop.root, shop.folder / "cache"):
        shutil.rmtree(folder)
    lock = shop.work / "ipexctl.lock"
    text = lock.read_text()
    size = (shop.wheels / numpy_of(shop)).stat().st_size
    assert str(size) in text
    lock.write_text(text.replace(f"size = {size}", f"size = {size + 1}"))
    assert lock.read_text() != text
    process = shop.start(*from_index(index), environ=NO_FOLDERS)
    try:
        until(lambda: process.poll() is not None, 40)
    finally:
        process.kill()
        process.communicate()


def test_a_file_that_was_fetched_and_is_gone_is_an_error(shop: Shop) -> None:
    package = LockedPackage("numpy", "2.0", "numpy.whl", "a" * 64, 5)
    lock = Lock("", "", "", "3.12", "", (package,), package)
    files = Supply(lock, [package], lambda: 5)
    files.wait_for_files()
    assert files.fetched_bytes() == 5
    with pytest.raises(IpexctlError):
        files.is_here(package.blob)


def test_a_lock_whose_files_cannot_be_fetched_does_not_replace_the_old_one(
    shop: Shop, index: Served
) -> None:
    assert shop.install(*from_index(index), **NO_FOLDERS).code == 0
    lock = (shop.work / "ipexctl.lock").read_text()
    shop.torch("2.13.1+cpu")
    make_wheel(shop.wheels, "numpy", "2.1", {"numpy.py": b""})
    for name in ("torch-2.13.1+cpu-py3-none-any.whl", "numpy-2.1-py3-none-any.whl"):
        index.faults[name] = Fault("other", times=99)
    done = shop.install("--upgrade", *from_index(index), **NO_FOLDERS)
    assert (done.code, done.slug) == (1, "fetch-damaged"), done.out
    assert (shop.work / "ipexctl.lock").read_text() == lock


def test_what_fails_while_hosts_build_is_said_once_and_nothing_is_left(
    shop: Shop, index: Served
) -> None:
    """The index tells sizes, so hosts begin before the file turns out to be another one."""
    index.faults[numpy_of(shop)] = Fault("other", times=99)
    done = shop.install(*from_index(index), **NO_FOLDERS)
    assert (done.code, done.slug, done.err.count(numpy_of(shop))) == (1, "fetch-damaged", 1)
    assert shop.current == ""
    until(lambda: not list(shop.root.glob("envs/[0-9a-f]*")))
    index.faults.clear()
    assert shop.install(*from_index(index), **NO_FOLDERS).states == ["changed"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_who_stops_while_files_are_fetched_and_unpacked_leaves_nothing_half_made(
    shop: Shop, index: Served, number: int
) -> None:
    assert shop.install(*from_index(index), **NO_FOLDERS).code == 0
    for folder in (shop.root, shop.folder / "cache"):
        shutil.rmtree(folder)
    lock = (shop.work / "ipexctl.lock").read_text()
    index.faults[numpy_of(shop)] = Fault("silent", times=9)
    process = shop.start(*from_index(index), environ=NO_FOLDERS)
    until(lambda: list(shop.root.glob("envs/.work-*/env/lib/python3*/site-packages/torch.py")), 30)
    process.send_signal(number)
    done = finish(process)
    assert done.code != 0
    assert "Traceback" not in done.err
    assert shop.current == ""
    until(lambda: not list(shop.root.glob("envs/[0-9a-f]*")) + list(shop.root.glob("envs/.work*")))
    assert (shop.work / "ipexctl.lock").read_text() == lock
    index.faults.clear()
    assert shop.install(*from_index(index), **NO_FOLDERS).states == ["changed"]


def test_what_is_still_fetched_after_the_end_does_not_draw_on_the_terminal() -> None:
    console = Console(file=io.StringIO(), force_terminal=True)
    view = ProgressView(console)
    with view as progress:
        progress.step(ProgressStep("a", "sending", 1, 2))
    progress.step(ProgressStep("", FETCHING, 1, 2))  # by the thread that fetches
    try:
        assert view.live._live is None
    finally:
        view.pause()


def test_another_command_does_not_wait_for_what_an_install_still_fetches(
    shop: Shop, index: Served
) -> None:
    """Nothing is on its way to the host: it has all but what an index does not give."""
    assert shop.install(*from_index(index), **NO_FOLDERS).code == 0
    old = shop.current
    make_wheel(shop.wheels, "numpy", "2.1", {"numpy.py": b""})
    other = ("--root", str(shop.folder / "other"))
    assert shop.install("--upgrade", *other, *from_index(index), **NO_FOLDERS).code == 0
    shutil.rmtree(shop.folder / "cache")  # the sizes are locked
    index.faults["numpy-2.1-py3-none-any.whl"] = Fault("silent", times=99)
    process = shop.start(*from_index(index), environ=NO_FOLDERS)
    try:
        unpacked = "envs/.work-*/env/lib/python3*/site-packages/torch.py"
        until(lambda: list(shop.root.glob(unpacked)), 30)
        looked = shop.ipexctl(
            "env", "rm", old.rpartition("/")[2], "--root", str(shop.root), "--check",
            before=("timeout", "20"),
        )  # fmt: skip
        assert looked.code != 124, "waits until the other install has its files"
    finally:
        process.kill()
        process.communicate()


def test_a_build_that_is_stopped_leaves_what_earlier_builds_have_unpacked(
    builder: Builder, shop: Shop
) -> None:
    one = make_wheel(shop.folder, "one", "1.0", {"one.py": b"x = 1\n"})
    two = make_wheel(shop.folder, "two", "1.0", {"two.py": b"x = 1\n"})
    first = builder.build("b" * 16, one) / "one.py"
    header = builder.header(KEY, one, two)
    builder.blob_of(two).unlink()
    number = builder.agent.start_beside("install.environments.build", header)
    until(lambda: builder.building("lib/python3*/site-packages/one.py"))
    builder.agent.feed(number, {"abort": True})
    with pytest.raises(HostFailed, match="stopped sending"):
        builder.agent.wait(number)
    again = builder.build(KEY, one, two) / "one.py"
    assert again.stat().st_ino == first.stat().st_ino


class FakeAgent:
    def __init__(self) -> None:
        self.at_end: list[Any] = []


class FakeCall:
    def __init__(self) -> None:
        self.agent, self.inbox = FakeAgent(), queue.Queue[Any]()

    def emit(self, *_: object) -> None: ...


def test_hosts_with_one_home_wait_as_long_as_the_files_take(builder: Builder, shop: Shop) -> None:
    """One of them builds while the files come; the other one waits for it."""
    one = make_wheel(shop.folder, "one", "1.0", {"one.py": b"x = 1\n"})
    header = builder.header(KEY, one)
    builder.blob_of(one).unlink()
    first, second = FakeCall(), FakeCall()
    ended: list[object] = []

    def build(call: FakeCall) -> None:
        try:
            ended.append(environments.op_build(call, **header))
        except Failure as e:
            ended.append(e.what)

    threads = [threading.Thread(target=build, args=(call,)) for call in (first, second)]
    threads[0].start()
    until(lambda: builder.building("bin/python*"))
    threads[1].start()
    time.sleep(1)
    builder.blob(one)
    for call in (first, second):
        call.inbox.put(({"all": True}, b""))
    for thread in threads:
        thread.join(60)
    assert EnvChanged(True) in ended
    assert EnvChanged(False) in ended, ended


def test_who_waits_for_something_else_says_so() -> None:
    console = Console(file=io.StringIO(), width=200)
    waits = ["waiting for the install of bob", "waiting for files"]
    with ProgressView(console) as progress:
        for text in waits:
            progress.step(ProgressStep("a", text))
    assert console.file.getvalue().splitlines() == [f"a: {text}" for text in waits]  # type: ignore[attr-defined]


def test_who_waits_and_has_nothing_yet_is_shown_without_a_count() -> None:
    files = tuple(Blob(str(n), f"{n:064x}", n * 1_000_000) for n in (2, 3))
    told: list[str] = []
    agent: Any = SimpleNamespace(host=SimpleNamespace(name="a"))
    getter = _Getter(
        agent, "/", files, lambda *step: told.append(step_with_bytes(ProgressStep("a", *step)))
    )
    getter.waits()
    getter.has(files[:1])
    getter.waits()
    waiting = "waiting for files"
    assert told == [waiting, f"{waiting} 2.0 MB of 5.0 MB"]
