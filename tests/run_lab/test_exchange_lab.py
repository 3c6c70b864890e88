"""What ranks on lab hosts say about their groups, with the real torch, as an ordinary user.

`make soak` has more shapes (tests/soak/test_exchange_runs.py).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.run_lab.test_ps_lab import second

SHAPES = Path(__file__).parents[1] / "soak" / "exchange" / "torch_shapes.py"


@pytest.fixture
def ranks(runner):
    runner.script(SHAPES.read_text(), "shapes.py")

    def run(*words: str, script: str = "shapes.py"):
        done = runner.plain("--json", "-n", "4", "-ppn", "2", *words[1:], script, words[0])
        print(done.stdout, done.stderr)  # shown if the test fails
        events = [json.loads(line) for line in done.stdout.splitlines()]
        return done.returncode, events[-1]

    return run


@pytest.mark.parametrize(
    ("shape", "verdict", "alarm"),
    [
        ("all-reduce", "together", False),
        ("ddp", "together", False),
        ("spawn-kept", "together", False),
        ("barrier", "alone", False),
        ("alone", "alone", True),
        ("messages", "unknown", False),
        ("mpi4py", "unknown", False),
    ],
)
def test_what_ran_in_the_groups_of_ranks_decides(ranks, shape, verdict, alarm):
    code, result = ranks(shape)
    seen = result["exchange"]
    assert (code, seen["verdict"], seen["alarm"]) == (0, verdict, alarm), seen
    assert bool(seen["collectives"]) == (verdict == "together")
    assert bool(seen["reason"]) == (verdict == "unknown")


def test_ranks_that_did_not_work_together_can_be_an_error(ranks):
    code, result = ranks("halves", "--require-together")
    assert (code, result["ended_by"]) == (125, "not-together")
    assert result["exchange"]["groups"] == [[0, 1], [2, 3]]
    assert result["known"]["slug"] == "trained-alone"
    code, result = ranks("all-reduce", "--require-together", "--no-inspect")
    assert (code, result["ended_by"]) == (126, "not-known")
    assert "--no-inspect" in result["exchange"]["reason"]


def test_a_rank_that_was_killed_leaves_it_open(ranks):
    _, result = ranks("killed")
    assert (result["exchange"]["verdict"], result["exchange"]["alarm"]) == ("unknown", False)


@pytest.mark.parametrize(("shape", "verdict"), [("ddp", "together"), ("alone", "alone")])
def test_who_attaches_to_a_run_without_its_command_hears_what_its_ranks_exchanged(
    ranks, runner, tmp_path, shape, verdict
):
    _, left = ranks(shape, "-d")
    for _ in ("until its end", "afterwards"):
        done = second(runner, tmp_path / "two", "attach", left["run_id"], "--json")
        seen = json.loads(done.stdout.splitlines()[-1])["exchange"]
        assert (seen["verdict"], seen["alarm"]) == (verdict, verdict == "alone")


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
