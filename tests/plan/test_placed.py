"""The wrapper of a rank starts the script: on which CPUs, and what it reports."""

from __future__ import annotations

import json
import os

from ipexctl.common.wrapper_messages import ScriptOrder
from ipexctl.remote.rank import rank_wrapper


def test_the_script_is_on_the_cpus_that_its_wrapper_tells_of(tmp_path, monkeypatch):
    monkeypatch.setenv("IPEXCTL_RUN_ID", "r1")
    cpu = max(os.sched_getaffinity(0))
    script = "import os, json; print(json.dumps(sorted(os.sched_getaffinity(0))))"
    python = "/usr/bin/env"
    orders = {
        "argv": [python, "python3", "-c", script],
        "log": str(tmp_path / "log"),
        "cwd": str(tmp_path),
        "cpus": [cpu],
        "umask": None,
        "node": 0,
        "env": {"PATH": os.environ["PATH"]},
    }
    pid, where = rank_wrapper.start_script(orders)
    os.waitpid(pid, 0)
    assert json.loads((tmp_path / "log").read_text()) == where["cpus"] == [cpu]


def test_a_script_that_cannot_start_says_so_in_its_log(tmp_path):
    log, cwd = str(tmp_path / "log"), str(tmp_path)
    order = ScriptOrder({}, ["/no/such/python"], cwd, log, cpus=[], node=None, umask=None)
    pid, where = rank_wrapper.start_script(order.document())
    assert os.WEXITSTATUS(os.waitpid(pid, 0)[1]) == 127
    assert "cannot start /no/such/python" in (tmp_path / "log").read_text()
    assert where["cpus"]
