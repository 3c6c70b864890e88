"""The kernel's counters of real connections between ranks on lab hosts, as an ordinary user."""

from __future__ import annotations

import json

import pytest

from tests.run_lab.test_ps_lab import second

# ranks of `GROUP` ranks send each other BYTES over sockets of their own; no framework
TALK = """
import os, socket, sys, time
rank, world = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])
group, size, pause = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
hosts = [a for a in os.environ['HOSTS'].split(',')]
mine = [r for r in range(world) if r // group == rank // group]
def take(s, n):
    while n:
        n -= len(s.recv(min(n, 1 << 16)))
kept = []
server = socket.create_server((hosts[rank // 2], 7000 + rank))
for other in mine:
    if other < rank:
        for _ in range(200):
            try:
                s = socket.create_connection((hosts[other // 2], 7000 + other)); break
            except OSError: time.sleep(0.1)
        s.sendall(b'x' * size); take(s, size); kept.append(s)
for other in mine:
    if other > rank:
        s, _ = server.accept(); take(s, size); s.sendall(b'y' * size); kept.append(s)
for step in range(int(sys.argv[4])):
    print('step', step, 'loss', 1 / (step + 1), flush=True)
    time.sleep(pause)
time.sleep(0.4)
"""


@pytest.fixture
def talk(runner):
    facts = runner.lab.hosts
    addresses = ",".join(str(facts[name].address) for name in facts)
    runner.script(
        "# a framework by name alone\nif 0:\n    import accelerate\n    loss.backward()\n" + TALK,
        "talk.py",
    )
    runner.script(TALK, "sweep.py")

    def run(*words: str, options: tuple[str, ...] = (), script: str = "talk.py"):
        done = runner.plain(
            "--json", "-n", "4", "-ppn", "2", "--env", f"HOSTS={addresses}", *options, script,
            *words,
        )  # fmt: skip
        events = [json.loads(line) for line in done.stdout.splitlines()]
        notes = [e["text"] for e in events if e["event"] == "note"]
        return done.returncode, events[-1], notes

    return run


def test_what_ranks_exchange_is_counted_also_between_two_looks(talk):
    code, result, _ = talk("4", "300000", "0", "2")
    seen = result["exchange"]
    assert (code, seen["verdict"], seen["alarm"]) == (0, "together", False)
    assert 12 * 300_000 <= seen["bytes"] <= 12 * 310_000


def test_ranks_that_exchange_nothing_are_alarmed_about_and_can_be_an_error(talk):
    code, result, _ = talk("1", "1", "1", "6")
    assert (code, result["exchange"]["verdict"], result["exchange"]["alarm"]) == (0, "alone", True)
    code, result, _ = talk("1", "1", "1", "6", options=("--require-together",))
    assert (code, result["ended_by"]) == (125, "not-together")
    assert "4" in result["cause"].split()
    assert result["known"]["slug"] == "trained-alone"
    code, _, _ = talk("4", "9000", "0.1", "5", options=("--require-together",))
    assert code == 0


@pytest.mark.parametrize(
    ("group", "script", "verdict", "alarm"),
    [
        ("4", "talk.py", "together", False),
        ("1", "talk.py", "alone", True),
        ("1", "sweep.py", "alone", False),
    ],
)
def test_who_attaches_to_a_run_without_its_command_hears_what_its_ranks_exchanged(
    talk, runner, tmp_path, group, script, verdict, alarm
):
    _, left, _ = talk(group, "300000", "1", "8", options=("-d",), script=script)
    for _ in ("until its end", "afterwards"):
        done = second(runner, tmp_path / "two", "attach", left["run_id"], "--json")
        seen = json.loads(done.stdout.splitlines()[-1])["exchange"]
        assert (seen["verdict"], seen["alarm"]) == (verdict, alarm)
        assert (12 * 300_000 <= seen["bytes"] <= 12 * 310_000) == (group == "4")


def test_groups_without_a_connection_between_them_are_named(talk):
    _, result, _ = talk("2", "200000", "1", "6")
    assert (result["exchange"]["verdict"], result["exchange"]["groups"]) == (
        "apart", [[0, 1], [2, 3]],
    )  # fmt: skip


@pytest.mark.parametrize("words", [("1", "1", "0.1", "5"), ("2", "200000", "0.1", "3")])
def test_a_run_that_is_too_short_to_judge_gets_no_verdict(talk, words):
    code, result, _ = talk(*words, options=("--require-together",))
    assert (code, result["ended_by"]) == (126, "not-known")
    seen = result["exchange"]
    assert (seen["verdict"], seen["alarm"], seen["groups"]) == ("unknown", False, [])


GPU_CHECK = """
import sys
print("Unable to locate sufficient 2 gpus to run this example. Exiting.")
sys.exit()
loss.backward()
"""


def test_a_script_that_ends_at_its_own_check_for_gpus_is_not_said_to_train_alone(runner):
    runner.script(GPU_CHECK)
    done = runner.plain("--json", "-n", "4", "-ppn", "2", "script.py")
    result = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, result["known"]["slug"]) == (0, "gpu-check")
    assert (result["exchange"]["verdict"], result["exchange"]["alarm"]) == ("unknown", False)


LOOPBACK = """
import os
import torch.distributed as dist
name = "MASTER_ADDR"  # so that the text of the script does not show it
os.environ[name] = "127.0.0.1"
os.environ["MASTER_PORT"] = "29511"
dist.init_process_group("gloo")
"""


def test_a_rendezvous_at_loopback_is_named_before_the_time_is_up(runner):
    runner.script(LOOPBACK)
    done = runner.plain("--json", "-n", "4", "-ppn", "2", "--timeout", "45", "script.py")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    notes = [e["text"] for e in events if e["event"] == "note"]
    assert [n for n in notes if "127.0.0.1:29511" in n and "ranks 2-3" in n], notes
    lines = [e["text"] for e in events if e["event"] == "line"]
    assert not [text for text in lines if text.startswith("frame #")]
    result = events[-1]
    assert (done.returncode, result["known"]["slug"]) == (124, "master-loopback")
    assert "127.0.0.1:29511" in result["cause"]
