"""The queue for the CPUs of a host: real sockets of this machine, for CPUs that no machine has."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
import sysconfig
import time
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ipexctl.common.attempt_record import QueuedRun, RunEnded, RunQueued
from ipexctl.common.keeper_messages import CLAIMS, LEFT, WAITS, HostReport, HostReported, QueuePlace
from ipexctl.common.run_about import RunAbout
from ipexctl.remote.connection import link_stream
from ipexctl.remote.facts import read_other_runs
from ipexctl.remote.restart import core_queue, name_owners
from ipexctl.remote.restart.core_queue import STARTED, CoreQueue, cpu_list, cpu_mask, read_tickets
from ipexctl.remote.restart.queued_place import QueuedPlace
from ipexctl.remote.run_files import attempt_lines

REPO = Path(__file__).parents[2]
FIRST = 4000 + os.getpid() % 2000 * 4  # of the CPUs: tests run side by side
ME = read_other_runs.user_name(os.getuid())


@contextmanager
def queued(run: str, since: float, cpus: str) -> Iterator[CoreQueue]:
    """`cpus`: digits, as numbers of CPUs from FIRST on."""
    queue = CoreQueue(run, since, [FIRST + int(digit) for digit in cpus])
    try:
        yield queue
    finally:
        queue.close()


def look(queue: CoreQueue) -> QueuePlace:
    """Return the place without runs that other tests start here: they can have any CPU."""
    seen = queue.look()
    using = [run for run in seen.using if run.startswith(("run-", "CPU"))]
    return QueuePlace(seen.before, using, seen.claimed)


def waiting(run: str, owner: str = ME) -> QueuedRun:
    return QueuedRun(int(run[4:]) * 10000, run, owner)  # run-2 was queued at 20 s


def place(before: str = "", using: str = "") -> QueuePlace:
    using_rows = [f"{run} of {ME}" for run in using.split()]
    return QueuePlace([*map(waiting, before.split())], using_rows, False)


def test_of_runs_of_one_account_the_queue_says_who_started_each(tmp_path: Path) -> None:
    for run, by in (("run-1", "ann@desk"), ("run-2", ""), ("run-3", "bob@laptop")):
        folder = tmp_path / "runs" / run
        folder.mkdir(parents=True)
        attempt_lines.append_line(str(folder), "node01", RunQueued(1.0, RunAbout(by=by)))
    with (
        queued("run-1", 10.0, "1"), queued("run-2", 20.0, "1"), queued("run-3", 30.0, "2") as using,
    ):  # fmt: skip
        using.go_to("claims")
        last = CoreQueue("run-9", 90.0, {FIRST + 1, FIRST + 2}, str(tmp_path))
        try:
            seen = look(last)
        finally:
            last.close()
    assert [run.owner for run in seen.before] == ["ann@desk", ME]
    assert seen.using == ["run-3 of bob@laptop"]


def test_the_run_that_was_queued_first_is_before_those_that_need_one_of_its_cpus() -> None:
    with (
        queued("run-2", 20.0, "12") as second,
        queued("run-1", 10.0, "01") as first,
        queued("run-3", 30.0, "3") as other,
    ):
        assert look(first) == place()
        assert look(second) == place("run-1")
        assert look(other) == place()


def test_a_run_waits_for_those_that_have_its_cpus_and_is_next_when_they_have_gone() -> None:
    with queued("run-2", 20.0, "01") as second:
        with queued("run-1", 10.0, "01") as first:
            first.go_to(CLAIMS)
            assert look(first) == QueuePlace([], [], True)
            assert look(second) == place(using="run-1")
        assert look(second) == place()


def test_only_one_of_two_runs_can_claim_a_cpu_and_the_other_keeps_none() -> None:
    with queued("run-1", 10.0, "01") as first, queued("run-2", 20.0, "12") as second:
        second.go_to(CLAIMS)  # it looked before the first one was there
        first.go_to(CLAIMS)
        assert (bool(first.claims), bool(second.claims)) == (False, True)
        assert look(first) == place(using="run-2")
        second.go_to(WAITS)
        first.go_to(CLAIMS)
        assert (bool(first.claims), bool(second.claims)) == (True, False)
        assert look(second) == place(using="run-1")


def test_a_run_that_gives_its_cpus_up_has_the_place_that_it_had() -> None:
    with queued("run-1", 10.0, "0") as first, queued("run-2", 20.0, "0") as second:
        first.go_to(CLAIMS)
        first.go_to(WAITS)
        assert look(second) == place("run-1")


def test_a_run_that_left_the_queue_is_not_before_others_and_has_its_place_when_it_is_back() -> None:
    with queued("run-1", 10.0, "0") as first, queued("run-2", 20.0, "0") as second:
        first.go_to(LEFT)
        assert (look(first), look(second)) == (place(), place())
        first.go_to(WAITS)
        assert look(second) == place("run-1")


def test_a_run_looks_at_its_place_once_per_second_or_when_its_order_is_another_one() -> None:
    with queued("run-1", 10.0, "0") as first, queued("run-2", 20.0, "0") as second:
        place_at_first = second.follow(WAITS, 5.0)
        assert place_at_first and place_at_first.before == [waiting("run-1")]
        assert second.follow(WAITS, 5.9) is None
        assert second.follow(WAITS, 6.1)
        first.go_to(CLAIMS)
        in_vain = [second.follow(CLAIMS, now) for now in (6.2, 6.3)]
        assert [place and place.claimed for place in in_vain] == [False, False]
        assert second.state == WAITS
        first.close()
        claimed = second.follow(CLAIMS, 6.4)
        assert claimed and claimed.claimed
        assert second.follow(CLAIMS, 6.5) is None


def test_a_ticket_goes_with_its_process() -> None:
    code = f"""
from ipexctl.common.keeper_messages import CLAIMS
from ipexctl.remote.restart.core_queue import CoreQueue
queue = CoreQueue("run-1", 10.0, [{FIRST}])
queue.go_to(CLAIMS)
print("claimed", bool(queue.claims), flush=True)
input()
"""
    with queued("run-2", 20.0, "0") as second:
        process = subprocess.Popen(
            [sys.executable, "-c", code], cwd=REPO, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdout and process.stdin
        assert process.stdout.readline() == b"claimed True\n"
        assert look(second) == place(using="run-1")
        process.kill()
        process.communicate()
        assert look(second) == place()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start processes of other users")
def test_users_see_each_others_tickets() -> None:
    code = f"""
from ipexctl.common.keeper_messages import CLAIMS
from ipexctl.remote.restart.core_queue import CoreQueue
queue = CoreQueue("run-2", 20.0, [{FIRST}])
place = queue.look()
queue.go_to(CLAIMS)
before = [f"{{run.run}} of {{run.owner}}" for run in place.before]
print(before, [run for run in place.using if run[:4] == 'run-'], bool(queue.claims), flush=True)
input()
"""

    def look_as_user() -> str:
        with other_user(code) as process:
            return process.stdout.readline()

    with queued("run-1", 10.0, "0") as first:
        assert (
            look_as_user() == "['run-1 of root'] [] True\n"
        )  # it does not claim before it is the next
        first.go_to(CLAIMS)
        assert look_as_user() == "[] ['run-1 of root'] False\n"


TAKES = r"""
import socket, sys
while True:
    taken = []
    for name in sys.argv[1:]:
        holder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            holder.bind("\0" + name)
            taken.append(holder)
        except OSError:
            pass
    if len(taken) == len(sys.argv[1:]):
        print("taken", flush=True)
        sys.stdin.read()
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start processes of other users")
def test_a_run_waits_while_another_user_has_its_names_and_begins_when_they_are_free() -> None:
    with queued("run-1", 10.0, "01") as queue:
        names = [f"ipexctl-cpu/{FIRST}", queue.name_at(STARTED)]
        with other_user(TAKES, *names) as process:
            assert process.stdout.readline() == "taken\n"
            place = queue.follow(CLAIMS, 1.0)
            assert (queue.state, queue.claims) == (WAITS, [])
            assert place and place.using[:1] == ["run-1 of nobody"]
            with queued("run-2", 20.0, "0") as second:
                assert look(second).before == [waiting("run-1")]
        claimed = queue.follow(CLAIMS, 2.0)
        assert claimed and claimed.claimed


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start processes of other users")
def test_another_user_who_takes_the_name_of_a_ticket_ends_no_run() -> None:
    """Names are bound in a loop: each that is given back for a moment is taken."""
    with queued("run-1", 10.0, "0") as queue:
        with other_user(TAKES, queue.name_at(queue.since)) as process:
            for now in range(50):
                queue.follow((CLAIMS, WAITS)[now % 2], float(now))
            queue.follow(LEFT, 50.0)  # now the name is free
            assert process.stdout.readline() == "taken\n"
            place = queue.follow(WAITS, 51.0)
            assert (queue.state, queue.ticket) == (WAITS, None)
            assert place and place.before == []
        queue.follow(WAITS, 53.0)
        assert queue.ticket is not None


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start processes of other users")
def test_a_ticket_belongs_to_the_user_who_has_it_whatever_it_says() -> None:
    forged = f"ipexctl-queue/{os.getuid()}/run-1/10000/{FIRST}"
    with queued("run-2", 20.0, "0") as queue, other_user(TAKES, forged) as process:
        assert process.stdout.readline() == "taken\n"
        assert look(queue).before == [waiting("run-1", "nobody")]


MANY = r"""
import resource, socket, sys
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
held = []
for number in range(min(int(sys.argv[1]), most - 50)):
    held.append(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    cpus = sys.argv[3] if len(sys.argv) > 3 else ",".join(["0-99999"] * 6)
    held[-1].bind("\0ipexctl-queue/1/run-%05d/%d/%s" % (number, number * int(sys.argv[2]), cpus))
print("taken", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start processes of other users")
@pytest.mark.parametrize("started", [False, True])
def test_any_number_of_tickets_of_another_user_neither_holds_up_nor_ends_a_keeper(
    started: bool,
) -> None:
    """A keeper that looks for seconds votes and leads no more; one message has a limit."""
    step = "0" if started else "1"
    with queued("run-1", time.time(), "0") as queue, other_user(MANY, "1500", step) as process:
        assert process.stdout.readline() == "taken\n"
        clock = time.process_time()
        assert len(name_owners.list_names()) > 800
        names_took, clock = time.process_time() - clock, time.process_time()
        place = queue.look()
        assert time.process_time() - clock < 200 * names_took + 0.5
        assert (len(place.before) > 500, len(place.using) > 5) == (not started, started)
        assert len(place.before) <= core_queue.MOST_BEFORE
        assert len(place.using) <= core_queue.MOST_USING
    longest = [QueuedRun(10**13, "r" * 64, "o" * 64)] * core_queue.MOST_BEFORE
    users = ["r" * 64 + " of " + "o" * 64] * core_queue.MOST_USING
    report = HostReported(HostReport(place=QueuePlace(longest, users, False)))
    assert len(json.dumps(report.document())) < link_stream.LIMIT / 2


@contextmanager
def other_user(code: str, *words: str) -> Iterator[Any]:
    """Run Python as another user until the block ends."""
    user, paths = pwd.getpwnam("nobody"), f"{REPO}:{sysconfig.get_paths()['purelib']}"
    process = subprocess.Popen(
        ["/usr/bin/python3", "-c", code, *words], user=user.pw_uid, group=user.pw_gid,
        extra_groups=(), env={"PYTHONPATH": paths}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, cwd="/",
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_run_that_is_over_gives_its_cpus_to_others_while_its_leader_stays() -> None:
    with queued("run-1", 10.0, "0") as first, queued("run-2", 20.0, "0") as second:
        queued_place = types.SimpleNamespace(
            queue=first, record=types.SimpleNamespace(end=None),
            find_missing=str, find_sleeping=lambda now: [],
        )  # fmt: skip
        first.order = CLAIMS
        QueuedPlace.look(queued_place, 1.0, alone=False, idle=False)
        assert look(second) == place(using="run-1")
        queued_place.record.end = RunEnded("done", True)
        QueuedPlace.look(queued_place, 2.0, alone=False, idle=False)
        assert look(second) == place(using="run-1")  # ranks are being ended
        QueuedPlace.look(queued_place, 3.0, alone=False, idle=True)
        assert look(second) == place()


def test_a_list_of_cpus_that_is_too_long_for_a_name_becomes_a_range() -> None:
    odd = [FIRST + 20000 + 2 * n for n in range(40)]
    queue = CoreQueue("run-9", 10.0, odd)
    try:
        ticket = next(row for row in read_tickets() if row[1] == "run-9")
        assert ticket[3] == cpu_mask(f"{odd[0]}-{odd[-1]}")
    finally:
        queue.close()


@pytest.mark.parametrize(
    ("cpus", "text"),
    [([0], "0"), ([3, 1, 2], "1-3"), ([0, 1, 4, 6, 7], "0-1,4,6-7")],
)
def test_cpus_are_written_as_the_kernel_does(cpus: list[int], text: str) -> None:
    assert cpu_list(cpus) == text
