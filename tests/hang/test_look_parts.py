"""What faulthandler writes, and which loops only wait."""

from __future__ import annotations

import pytest

from ipexctl.common.rank_looks import StackFrame, ThreadLook
from ipexctl.remote.hang import python_stacks, waiting_loop

TWO = "0000000000000002"


def test_names_of_threads_and_letters_that_are_not_ascii() -> None:
    text = (
        "main 0x0000000000000002\n"
        "Thread 0x0000000000000001 [pin memory] (most recent call first):\n"
        '  File "<frozen importlib._bootstrap>", line 241 in exec_module\n'
        '  File "/home/j\\xf6rg/a.py", line 7 in f\n'
        "\n"
        "Current thread 0x0000000000000002 [MainThread] (most recent call first):\n"
        "  Garbage-collecting\n"
        '  File "/t.py", line ??? in <module>\n'
        "  ...\n"
    )
    main, other = python_stacks.parse_stacks(text, "/site")
    assert main == ThreadLook(True, "MainThread", (StackFrame("/t.py", 0, "<module>"),), TWO)
    assert (other.name, other.frames) == ("pin memory", (StackFrame("/home/jörg/a.py", 7, "f"),))


WAITS = """while not done: pass
while True: continue
while not os.path.exists(p): time.sleep(1)
while not (yet := other()): time.sleep(1)
while True: x = q.empty(); n += 1
while not event.is_set(): print("waiting")
while True: time.sleep(1); n += 1"""
WORKS = """while n < 10: n += 1
while step(): pass
while True: train(); time.sleep(1)
while True: x = model(y)
for x in y: time.sleep(1)
while True: pass; (lambda: train())()"""


@pytest.mark.parametrize("line", WAITS.splitlines())
def test_loops_that_wait(line: str) -> None:
    assert waiting_loop.waits_in_loop([line], 1)


@pytest.mark.parametrize("line", WORKS.splitlines())
def test_loops_that_work(line: str) -> None:
    assert not waiting_loop.waits_in_loop([line], 1)


def test_the_innermost_loop_of_the_function_decides() -> None:
    lines = [
        "while True:",
        "    train()",
        "    while not done.is_set():",
        "        if late():",
        "            raise TimeoutError",
        "        time.sleep(1)",
        "while True:",
        "    def f():",
        "        work()",
        "    time.sleep(1)",
    ]
    lines[3] = "        if time.time() > end:"
    found = [waiting_loop.waits_in_loop(lines, n) for n in range(1, 11)]
    assert found == [False, False, True, True, True, True, False, False, False, False]
    assert not waiting_loop.waits_in_loop(["while (:"], 1)


def test_an_attempt_that_is_made_again_and_again_waits() -> None:
    lines = [
        "while True:",
        "    try:",
        "        fd = os.open(path, os.O_CREAT | os.O_EXCL)",
        "    except FileExistsError:",
        "        continue",
        "    os.write(fd, me)",
        "    return",
    ]
    found = [waiting_loop.waits_in_loop(lines, n) for n in range(1, 8)]
    assert found == [False, True, True, True, True, False, False]
    others = {2: "        x = model(path)", 4: "        return"}
    for number in (2, 4):  # work; a loop that ends at the first failure
        other = [others[n] if n == number else line for n, line in enumerate(lines)]
        assert not waiting_loop.waits_in_loop(other, 3)
    scan = ["while paths:", "    path = paths.pop()", *lines[1:6]]
    assert not waiting_loop.waits_in_loop(scan, 4)


def test_frames_of_libraries_are_not_the_users() -> None:
    rows = [
        ["/usr/lib/python3.12/threading.py", 1, "wait"],
        ["/e/lib/python3.12/site-packages/torch/x.py", 1, "f"],
        ["<frozen importlib._bootstrap>", 1, "g"],
        ["/site/sitecustomize.py", 1, "exec_module"],
        ["/home/me/train.py", 3, "h"],
        ["/home/me/main.py", 4, "i"],
    ]
    frames = [StackFrame(*row) for row in rows]
    assert waiting_loop.own_frame(frames, "/site") == frames[4]
    assert waiting_loop.own_frame(frames[:4], "/site") is None
