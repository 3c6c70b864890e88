"""What hosts can do to a run: each ends in time, costs little memory, and leaves the others whole.

The program of such a host says `ready` first, if nothing else is written here.
"""

from __future__ import annotations

import resource
import threading
import time

import pytest

from ipexctl.run.watch.run_watchers import Interrupts
from tests.hostile.speaker import GOOD, READY, drive

SLACK = 12.0  # this machine is slow and shared; without a deadline it would be for ever


def flood(event: str, pause: str = "pass") -> str:
    return f"while True:\n    tell({event})\n    {pause}\n"


DEEP = "raw(head.pack(400000, 0) + b'{\"id\": 1, \"event\": ' + b'[' * 399981)"
MANY = "raw(head.pack(900001, 0) + b'[' + b'[],' * 300000)"

# name: what it does after `ready`, what the run says of it
LOST = {
    "nests a header deeply": (DEEP, "invalid reply"),
    "sends a header of many values": (MANY, "invalid reply"),
    "drips half a frame": (
        "raw(head.pack(100, 0))\n" + "raw(b'x'); time.sleep(0.5)\n" * 80, "no message",
    ),
    "closes stdout and lives on": ("import os; os.close(1); time.sleep(60)", "connection ended"),
    "gives its exit code as text": (
        "tell(RankExited(1, Exit('0')))",
        "invalid reply",
    ),
    "says whose connections with a list": (
        "tell(Exchanged(ExchangeReport(moved=(([1], 'a', 'b', 1, 1),))))",
        "invalid reply",
    ),
}  # fmt: skip


def memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.parametrize("name", LOST)
def test_a_host_that_misbehaves_is_lost_and_the_other_is_not(tmp_path, name):
    does, why = LOST[name]
    before, began = memory(), time.monotonic()
    # short only where silence is what it is about: a busy machine is silent, too
    silence = 2.0 if why == "no message" else 50.0
    result = drive(tmp_path, [GOOD, f"{READY}{does}\ntime.sleep(60)\n"], host_timeout=silence)
    assert time.monotonic() - began < silence + SLACK
    assert memory() - before < 100 << 10
    assert result.cause.startswith("n1 was lost: ")
    assert why in result.cause
    assert [(h.host, h.survivors) for h in result.hosts] == [("n0", 0), ("n1", None)]


# These say that they are alive, and do nothing else that is wanted: a limit of the run, or the
# person, ends it. What they say cannot be told from a run that takes long.
ALIVE = {
    "floods with signs of life": flood("Pong()"),
    "floods with traffic": flood("Exchanged(ExchangeReport())"),
    "reads nothing and says that it lives": flood("Pong()", pause="time.sleep(0.1)"),
}


@pytest.mark.parametrize("name", ALIVE)
def test_a_host_that_only_lives_is_ended_by_ctrl_c(tmp_path, name):
    interrupts = Interrupts()

    def press() -> None:
        for pause in (2.0, 0.2, 1.5):
            time.sleep(pause)
            interrupts.handle_signal(2)

    threading.Thread(target=press, daemon=True).start()
    before, began = memory(), time.monotonic()
    result = drive(
        tmp_path, [GOOD, f"{READY}{ALIVE[name]}"], host_timeout=5.0, interrupts=interrupts
    )
    assert time.monotonic() - began < 3.7 + 2.0 + SLACK
    assert memory() - before < 200 << 10
    assert (result.exit_code, result.cause) == (130, "stopped by Ctrl-C")
    assert result.hosts[0].survivors == 0


TIME_UP = "tell(TimedOut(1))\ntell(OVER)\n"


def test_the_limit_of_a_run_counts_though_a_host_floods(tmp_path, monkeypatch):
    monkeypatch.setattr("ipexctl.run.watch.session.STOP_WAIT", 2.0)
    talks = f"{READY}{ALIVE['floods with signs of life']}"
    result = drive(tmp_path, [f"{READY}{TIME_UP}be_hub()\n", talks], host_timeout=5.0)
    assert "--timeout 1" in result.cause


@pytest.mark.parametrize(
    "drips",
    [
        "tell(Swept(0, left=1 << 60))",
        "tell(LogPart(1), body=b'x')",
    ],
)
def test_the_rest_of_the_output_has_a_limit(tmp_path, drips, monkeypatch):
    monkeypatch.setattr("ipexctl.run.watch.session.STOP_WAIT", 2.0)
    host = f"{READY}{TIME_UP}wait_for(EndPart)\nwhile True:\n    {drips}\n    time.sleep(0.3)\n"
    began = time.monotonic()
    result = drive(tmp_path, [host], host_timeout=5.0)
    assert time.monotonic() - began < 2.0 + SLACK
    assert "--timeout 1" in result.cause
