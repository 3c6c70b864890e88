"""A hang that is ended keeps its diagnosis: in the summary, the run's folder, `ps` and `why`."""

from __future__ import annotations

import json
import signal
import time

import pytest

from tests.run.test_ps_local import Here
from tests.run.test_ps_local import here as here  # noqa: PLC0414  a fixture

HANG = """
import os, time, torch
print("up", flush=True)
try:
    if os.environ["RANK"] == "1":
        os.mkfifo("fifo")
        open("fifo").read()
    time.sleep(600)
except KeyboardInterrupt:
    for i in range(8):
        print("saving", i, flush=True)
        time.sleep(0.5)
    raise
"""
LONG_STEP = 8  # seconds
SLOW = f"""\
import time, torch
for step in range(1, 100):
    print(f"step {{step}}/100 loss 1.0", flush=True)
    time.sleep({LONG_STEP})
"""
QUIET = 14  # seconds; from 10 on the hosts look before the run is ended


@pytest.fixture(autouse=True)
def _script(here: Here) -> None:
    (here.code / "hang.py").write_text(HANG)


def why(here: Here) -> tuple[int, dict]:
    done = here.call("why", "@last", "--json")
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("how", ["timeout", "stop", "interrupt"])
def test_which_rank_hung_where_is_part_of_how_the_run_ended(here: Here, how: str) -> None:
    limit = ["--timeout", "30"] if how == "timeout" else []
    run = here.start("--name", "bert", *limit, "hang.py")
    seen = [why(here)]
    while seen[-1][1]["state"] in ("starting", "running", "stalled"):
        if how != "timeout" and (seen[-1][1]["quiet_seconds"] or 0) >= QUIET:
            break
        time.sleep(2.0)
        seen.append(why(here))
    if how == "stop":
        assert here.call("stop", "bert").returncode == 0
    elif how == "interrupt":
        run.send_signal(signal.SIGINT)
        time.sleep(1.5)
        seen.append(why(here))
    said, noted = run.communicate(timeout=60)
    seen.append(why(here))

    assert [document["kind"] for _, document in seen[-2:]].count("moving") == 0
    code, document = seen[-1]
    assert (code, document["kind"], document["suspects"][0]["rank"]) == (1, "blocked-io", 1)
    assert document["cause"]
    (row,) = here.listed("-a")
    assert row["stalled"]["kind"] == "blocked-io" and "hang.py:7" in row["stalled"]["headline"]
    assert row["stalled"]["headline"] in here.call("ps", "-av").stdout
    (folder,) = (here.code / ".ipexctl/runs").iterdir()
    result = json.loads((folder / "result.json").read_text())
    assert result["stalled"]["headline"] == row["stalled"]["headline"]
    assert abs(result["stalled"]["seconds"] - row["stalled"]["seconds"]) < 2
    summary = noted.partition("exit code")[0]
    assert row["stalled"]["headline"] in " ".join(summary.split())
    assert "Traceback" not in said and said.count("saving 7") == 2


def test_a_script_whose_steps_are_long_is_not_called_stalled(here: Here) -> None:
    (here.code / "slow.py").write_text(SLOW)
    here.start("--name", "bert", "slow.py")
    time.sleep(2.2 * LONG_STEP)  # until its rate is known
    ends, found = time.monotonic() + 1.5 * LONG_STEP, []
    while time.monotonic() < ends:
        found.append(why(here))
    assert len(found) > 2
    assert {(code, row["stalled"]) for code, row in found} == {(0, False)}
