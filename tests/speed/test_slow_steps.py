"""What the steps of a run wait for: what is named and proposed, and where nothing is."""

from __future__ import annotations

import json
import os
from collections import deque
from dataclasses import replace
from types import SimpleNamespace

import pytest

from ipexctl.base.host_answer import Answer
from ipexctl.common.rank_paces import RankPace, RankPaces
from ipexctl.remote.rank import socket_table
from ipexctl.remote.run.last_minute import Pace, Programs
from ipexctl.run.command.summary import summary_lines
from ipexctl.run.outcome.run_result import RunResult
from ipexctl.run.output.slow_rank import Slow
from ipexctl.run.pace.rank_pace import HostPace, pace_of
from ipexctl.run.pace.run_speed import Speed
from ipexctl.run.pace.slow_steps import StepWait, judge_slow_steps
from ipexctl.run.plan import shown_plan
from ipexctl.run.plan.launch import HostPlan, LaunchPlan, RankPlace
from ipexctl.run.run_plan import remember_tuned, was_tuned
from ipexctl.user_code.frameworks import of_run
from ipexctl.user_code.source_reader import read_source

MB = 1e6


def plan(
    hosts: int = 2, each: int = 1, *, threads: int | None = 4, quota: float | None = None,
    env: tuple[tuple[str, str], ...] = (), ddp: bool = True,
) -> LaunchPlan:  # fmt: skip
    """`quota`: of the last host."""
    made = []
    for i in range(hosts):
        ranks = tuple(RankPlace(i * each + k, k, (0, 1, 2, 3)) for k in range(each))
        name, limit = f"node{i + 1:02d}", quota if i == hosts - 1 else None
        made.append(HostPlan(name, name, "", "eth0", ranks, (), env, threads, limit))
    return LaunchPlan(tuple(made), "10.0.0.1", 29500, ("train.py",), (), "", ddp=ddp)


def paces(
    given: LaunchPlan, *cpus: float, sent: float = 1 * MB, sending: float | None = 0.02,
    host_cpu: float = 0.4,
) -> list[HostPace]:  # fmt: skip
    """`cpus`: of each rank of a host."""
    return [
        HostPace(
            host.host,
            tuple(RankPace(p.rank, 60.0, used, sent, sending) for p in host.ranks),
            host_cpu,
        )
        for host, used in zip(given.hosts, cpus, strict=True)
    ]


COMPRESSED = (("IPEXCTL_COMPRESS", "bf16"),)
SHARED = (("IPEXCTL_SHARE", "0.5"),)
ONE_THREAD = (("OMP_NUM_THREADS", "1"),)
EXCHANGES = {"sent": 20 * MB, "sending": 0.5}
CASES = {  # plan, CPUs of the ranks of each host, what they sent, what is said, what is proposed
    "a slow network": (plan(), (1.6, 1.8), EXCHANGES, StepWait.EXCHANGE, ["compress"]),
    "compressed already": (
        plan(env=COMPRESSED), (1.6, 1.8), EXCHANGES, StepWait.EXCHANGE, ["tune"],
    ),
    "tuned, and compressed": (
        replace(plan(env=COMPRESSED), tuned=True), (1.6, 1.8), EXCHANGES, StepWait.EXCHANGE, [],
    ),
    "tuned, not compressed": (
        replace(plan(), tuned=True), (1.6, 1.8), EXCHANGES, StepWait.EXCHANGE, ["compress"],
    ),
    "tuned, and idle": (replace(plan(), tuned=True), (0.9, 1.0), {}, StepWait.IDLE, []),
    "no DDP": (plan(ddp=False), (1.6, 1.8), EXCHANGES, StepWait.EXCHANGE, ["tune"]),
    "many small messages": (
        plan(), (1.6, 1.8), {"sent": 0.1 * MB, "sending": 0.5}, StepWait.EXCHANGE, ["tune"],
    ),
    "hidden behind the computation": (plan(), (3.9, 3.8), EXCHANGES, StepWait.COMPUTING, []),
    "a slow host": (plan(), (1.5, 3.9), {}, StepWait.SLOW_HOST, ["doctor", "share"]),
    "a slow host, and the script has shares": (
        plan(env=SHARED), (1.5, 3.9), {}, StepWait.SLOW_HOST, ["doctor"],
    ),
    "a quota": (plan(quota=0.5), (1.5, 0.49), {}, StepWait.SLOW_HOST, ["doctor", "share"]),
    "a slow host on a slow network": (
        plan(), (1.5, 3.9), EXCHANGES, StepWait.SLOW_HOST, ["doctor", "share"],
    ),
    "few threads": (plan(env=ONE_THREAD), (0.97, 0.96), {}, StepWait.COMPUTING, []),
    "few threads that wait": (plan(env=ONE_THREAD), (0.6, 0.7), {}, StepWait.MIXED, []),
    "as many threads as planned": (
        plan(threads=1, env=ONE_THREAD), (0.97, 0.96), {}, StepWait.COMPUTING, [],
    ),
    "idle": (plan(), (0.9, 1.0), {}, StepWait.IDLE, ["tune"]),
    "asleep": (plan(), (0.2, 0.3), {}, StepWait.IDLE, []),
    "idle, as other programs use the CPUs": (
        plan(), (0.9, 1.0), {"host_cpu": 0.97}, StepWait.MIXED, [],
    ),
    "idle before the first exchange": (plan(), (0.9, 1.0), {"sent": 0.0}, StepWait.MIXED, []),
    "an old kernel": (plan(), (0.9, 1.0), {"sending": None}, StepWait.MIXED, []),
    "healthy": (plan(), (3.9, 3.8), {}, StepWait.COMPUTING, []),
    "healthy, ranks wait a little": (plan(), (2.9, 2.6), {}, StepWait.MIXED, []),
    "two hosts that differ by a quarter": (plan(), (3.0, 3.9), {}, StepWait.COMPUTING, []),
    "healthy on one host": (plan(1, 2), (3.8,), {"sending": 0.0}, StepWait.COMPUTING, []),
    "unknown CPUs": (plan(threads=None), (3.9, 3.8), {}, StepWait.UNKNOWN, []),
}  # fmt: skip


def test_all_hosts_whose_cpus_are_busy_are_named():
    given = plan(4)
    seen = paces(given, 1.0, 1.0, 1.0, 1.0, host_cpu=0.998)
    seen[3] = replace(seen[3], cpu=None)
    said = judge_slow_steps(given, seen).headline
    assert said.endswith("; the CPUs of node[01-03] are busy with other programs, too")


@pytest.mark.parametrize(("given", "cpus", "sent", "wait", "slugs"), CASES.values(), ids=CASES)
def test_only_what_the_evidence_supports_is_proposed(given, cpus, sent, wait, slugs):
    found = judge_slow_steps(given, paces(given, *cpus, **sent))
    assert (found.wait, [one.slug for one in found.proposals]) == (wait, slugs)
    assert all(one.command.startswith("ipexctl ") for one in found.proposals)
    document = judge_slow_steps(
        shown_plan.read_shown_plan(shown_plan.show_plan(given).document(), "r1"),
        paces(given, *cpus, **sent),
    )
    assert document.wait is wait and len(document.proposals) == len(slugs)


@pytest.mark.parametrize("host_cpu", [0.4, 0.998])
def test_the_other_hosts_of_a_queued_run_are_no_part_of_its_steps(host_cpu):
    """They keep its record, and have no ranks: run --queue -n 1 on three hosts."""
    known = paces(plan(1), 1.0, host_cpu=host_cpu)
    others = [HostPace(name, (), host_cpu) for name in ("node02", "node03")]
    assert judge_slow_steps(plan(1), [*known, *others]) == judge_slow_steps(plan(1), known)


def test_a_step_is_divided_where_its_time_is_known():
    known = paces(plan(), 1.6, 1.8, sent=25.8 * MB, sending=0.5)
    found = judge_slow_steps(plan(), known, Speed(1 / 0.62, 0.02, 9))
    assert found.headline == (
        "a step takes 620 ms; 310 ms of it the ranks exchange 16 MB at 413 Mbit/s"
    )
    assert found.document()["steps_per_second"] == pytest.approx(1.613, abs=1e-3)


def test_too_little_evidence_is_said():
    given = plan()
    for known in ([], paces(given, 1.0, 1.0)[:1]):
        found = judge_slow_steps(given, known)
        assert found.wait is StepWait.UNKNOWN and not found.proposals and "02" in found.headline


def test_the_slow_host_is_named_with_its_limit():
    given = plan(3, 2, quota=1.0)
    found = judge_slow_steps(given, paces(given, 1.5, 1.6, 0.5))
    assert "node03" in found.headline and "allows 1 CPU" in found.headline
    assert "node0[1" not in found.headline and "node01" not in found.headline


def test_commands_get_the_users_options():
    found = judge_slow_steps(plan(), paces(plan(), 1.6, 1.8, **EXCHANGES), script="train.py --lr 1")
    said = found.spelled(lambda name: f"ipexctl {name} -f hosts").proposals[0].command
    assert said == "ipexctl run -f hosts --compress bf16 train.py --lr 1"


@pytest.mark.parametrize(
    ("cpus", "more", "slow", "lines"),
    [
        ((1.6, 1.8), EXCHANGES, None, 1),
        ((1.5, 3.9), {}, Slow((1,), 0.6), 1),
        ((1.6, 1.8), EXCHANGES, Slow((1,), 0.6), 0),  # the two would contradict each other
        ((3.9, 3.8), {}, None, 0),
    ],
)
def test_the_summary_has_one_line_at_most(cpus, more, slow, lines):
    given = plan()
    steps = judge_slow_steps(given, paces(given, *cpus, **more))
    result = RunResult("r1", 0, "ranks", 9.0, given, (), steps=steps, slow=slow)
    said = [line.plain for line in summary_lines(result) if "try:" in line.plain]
    assert len(said) == lines and all(steps.proposals[0].command in line for line in said)


# --- what hosts report ----------------------------------------------------------------------------


def test_a_host_that_reports_nothing_has_no_paces():
    rank = RankPace(0, 60.0, 1.5, 10.0)
    paces = RankPaces(0.5, [rank], [("make", 1.5)])
    assert pace_of("n", paces) == HostPace("n", (rank,), 0.5, (("make", 1.5),))
    assert pace_of("n", None) == HostPace("n") == pace_of("n", RankPaces())


def test_the_last_minute_begins_with_the_first_exchange():
    pace = Pace(SimpleNamespace(took={}), None)
    rows = [(0.0, 0.0, 0, 0.0), (10.0, 20.0, 0, 0.0), (12.5, 25.0, 1000, 1.0)]
    rows += [(15.0, 26.0, 2000, 2.0), (22.5, 30.0, 6000, 6.0)]
    pace.samples = deque(
        (0.5, {3: (at, cpu, [sent, busy], at / 8, [at / 2, 0.0, 0.0])})
        for at, cpu, sent, busy in rows
    )
    found = pace.last_minute()
    assert found == RankPaces(0.5, [RankPace(3, 10.0, 0.5, 500.0, 0.5, 0.125, 0.5, 0, 0)])
    assert Answer("n", json.loads(json.dumps(found.document()))).read(RankPaces) == found
    pace.samples = deque(list(pace.samples)[:1])
    assert pace.last_minute().ranks == []


def test_cpu_time_of_a_child_that_is_lost_is_not_below_zero():
    """A host reports no value that the controller refuses."""
    pace = Pace(SimpleNamespace(took={}), None)
    rows = [(0.0, 9.0, None, None, [0.0] * 3), (10.0, 4.0, None, None, [0.0] * 3)]
    pace.samples = deque((None, {0: row}) for row in rows)
    found = pace.last_minute()
    assert Answer("n", found.document()).read(RankPaces) == found and found.ranks[0].cpus == 0


def test_what_the_guardian_started_is_no_other_program():
    programs, us, guardian = Programs(), os.getpid(), os.getppid()
    ours, other = max(us, guardian) + 1, max(us, guardian) + 2
    for ticks in (0, 100, 200):
        table = {
            guardian: ("ipexctl-guard", 1, ticks), us: ("ipexctl-run", guardian, ticks),
            ours: ("ipexctl-copy", guardian if ticks < 200 else 1, ticks),
            other: ("make", 1, ticks),
        }  # fmt: skip
        if ticks == 200:
            del table[guardian]  # it was killed
        programs.look(1.0 + ticks, table)
    assert [name for name, _ in programs.top()] == ["make"]


def test_the_kernel_counts_how_long_data_is_on_its_way():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        other, own = server.accept()[0], one.getsockname()
        one.sendall(b"." * 1000)
        found = [c for c in socket_table.list_connections() if c.key[:2] == own]
        one.close()
        other.close()
    assert len(found) == 1 and (found[0].busy is None or 0 <= found[0].busy < 5)


@pytest.mark.parametrize(
    ("text", "ddp"),
    [
        ("from torch.nn.parallel import DistributedDataParallel as DDP\nDDP(model)\n", True),
        ("from accelerate import Accelerator\nAccelerator().prepare(model)\n", True),
        ("from torch.distributed.fsdp import fully_shard\nfully_shard(model)\n", False),
        ("import accelerate, deepspeed\ndeepspeed.initialize(model)\n", False),
        ("import torch.distributed as dist\ndist.all_reduce(x)\n", False),
    ],
)
def test_whose_gradients_go_through_ddp(text, ddp):
    assert of_run([read_source("train.py", text, main=True)], ("train.py",), {}).ddp is ddp


def test_a_folder_that_was_tuned_on_these_hosts_is_known(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert not was_tuned(plan())
    remember_tuned(plan())
    assert was_tuned(plan(env=COMPRESSED)), "another script or profile"
    assert not was_tuned(plan(3))
    monkeypatch.chdir("/")
    assert not was_tuned(plan())
