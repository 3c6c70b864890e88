"""The socket of a supervisor: who may ask, and who may answer."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable

import pytest

from ipexctl.remote.rank import rank_wrapper
from ipexctl.remote.run import control

OTHER = 65534
AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be another user")


@pytest.fixture
def run() -> str:
    """Its supervisor's socket lives as long as this process."""
    return f"20260101-000000-{os.urandom(3).hex()}"


@pytest.fixture
def asked(run: str) -> list[dict]:
    heard: list[dict] = []

    def answer(message: dict) -> dict:
        heard.append(message)
        return {"alive": True}

    control.serve_control_socket(run, "node1", answer, lambda link: link.close())
    return heard


def as_other(work: Callable[[], object]) -> int:
    """The exit code of a child that is another user: 1 where `work` returned nothing."""
    child = os.fork()
    if child == 0:
        try:
            os.setgid(OTHER)
            os.setuid(OTHER)
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_supervisor_answers_and_is_gone_when_its_process_is(run: str, asked: list[dict]) -> None:
    assert control.ask_supervisor(run, "node1", {"ask": "state"}) == {"alive": True}
    assert control.ask_supervisor(run, "node2", {"ask": "state"}) is None
    assert control.ask_supervisor(run[:-6] + "zzzzzz", "node1", {"ask": "state"}) is None
    assert asked == [{"ask": "state"}]
    assert control.is_alive(run, "node1")
    assert not control.is_alive(run, "node2")


@AS_ROOT
def test_another_user_is_not_heard(run: str, asked: list[dict]) -> None:
    name = control.socket_address(run, "node1")

    def stop() -> object:
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        link.settimeout(5)
        link.connect(name)
        try:
            link.sendall(b'{"stop": "mallory"}\n')
            return link.recv(100)
        except OSError:
            return b""

    assert as_other(stop) == 1
    assert asked == []


@AS_ROOT
def test_another_user_in_its_place_is_not_believed(run: str) -> None:
    name = control.socket_address(run, "node1")
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setuid(OTHER)
            false = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            false.bind(name)
            false.listen(1)
            os.write(tell, b"x")
            while True:
                link, _ = false.accept()
                link.sendall(b'{"alive": true}\n')
        finally:
            os._exit(0)
    try:
        os.read(ready, 1)
        control.serve_control_socket(
            run, "node1", lambda m: {"alive": True}, lambda link: None
        )  # it goes on
        assert not control.is_alive(run, "node1")
        assert control.ask_supervisor(run, "node1", {"ask": "state"}) is None
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


@AS_ROOT
def test_a_queue_that_another_user_fills_does_not_make_it_dead(
    run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "PATIENCE", 0.3)
    name = control.socket_address(run, "node1")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(name)
    listener.listen(1)
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setuid(OTHER)
            links = []
            for _ in range(4):
                links.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                links[-1].setblocking(False)
                links[-1].connect_ex(name)
            os.write(tell, b"x")
            signal.pause()
        finally:
            os._exit(0)
    try:
        os.read(ready, 1)
        assert control.is_alive(run, "node1")
        assert control.ask_supervisor(run, "node1", {"ask": "state"}) is None
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        listener.close()
    assert not control.is_alive(run, "node1")


def test_garbage_and_silence_end_nothing(
    run: str, asked: list[dict], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "PATIENCE", 0.3)
    links = []
    for data in (b"", b"\xff\xfe\n", b"[1]\n", b"{" * 100_000, b"null\n"):
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        link.connect(control.socket_address(run, "node1"))
        link.sendall(data)
        links.append(link)
    assert control.ask_supervisor(run, "node1", {"ask": "state"}) == {"alive": True}
    for link in links:
        link.close()
    assert asked == [{"ask": "state"}]


def test_a_look_at_processes_is_repeated_where_a_parent_ended_during_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of those that cannot be read (hidepid), the folder is there all the same."""
    looks = [{7: ("X", 0), 8: ("S", 7)}, {8: ("S", 5), 5: ("S", 1)}]
    monkeypatch.setattr(os, "listdir", lambda path: [str(pid) for pid in looks[0]])
    monkeypatch.setattr(rank_wrapper, "stat_of", lambda name: looks[0][int(name)])

    def still_there(path: str) -> bool:
        looks.pop(0)
        return False

    monkeypatch.setattr(os.path, "isdir", still_there)
    assert rank_wrapper.list_processes() == {8: ("S", 5), 5: ("S", 1)}
    looks = [{7: ("X", 0), 8: ("S", 7)}]
    monkeypatch.setattr(os.path, "isdir", lambda path: path == "/proc/7")
    assert rank_wrapper.list_processes() == looks[0]
