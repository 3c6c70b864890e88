"""Runs of ipexctl.api on practice hosts, as docs/notebook.md has them."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ipexctl.api import Cluster, RunContinues
from ipexctl.lab import Lab

pytestmark = pytest.mark.lab
SCRIPT = """\
import os, sys, time
for step in range(1, int(sys.argv[1]) + 1):
    print(f"step {step}/{sys.argv[1]} loss {1 / step:.3f}", flush=True)
    time.sleep(0.1)
sys.exit(int(sys.argv[2]) * (os.environ["RANK"] == "1"))
"""


@pytest.fixture
def cluster(installed_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    (tmp_path / "train.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    lab = installed_lab
    return Cluster(hostfile=lab.hostfile, ssh_config=lab.ssh_config, limit=["node0[1-2]"])


def test_a_run_is_read_and_found_again(cluster: Cluster):
    run = cluster.start("train.py", n=2, args=("30", "0"), name="named")
    assert (run.wait(), run.state, cluster.find_run("named").id) == (0, "done", run.id)
    said = repr(run.status())
    assert said.startswith(f"{run.id}: done, 2 ranks on node[01-02]") and "step 30 of 30" in said
    rows = run.metrics
    assert [(r["rank"], r["step"]) for r in rows] == [
        (r, s) for r in range(2) for s in range(1, 31)
    ]
    assert run.logs(rank=1, lines=1) == "step 30/30 loss 0.033"
    assert run.logs(lines=1).splitlines()[1] == "node02 r01 | step 30/30 loss 0.033"
    assert run.why().document["run_id"] == run.id
    assert "30 of 30" in run._repr_html_()
    assert run.id in cluster.runs(every=True)._repr_html_()


def test_a_run_that_is_interrupted_here_continues_and_can_be_stopped(cluster: Cluster):
    with ThreadPoolExecutor() as pool:  # as a notebook's await asyncio.to_thread
        run = pool.submit(cluster.start, "train.py", n=2, args=("900", "0")).result()
    main = threading.main_thread().ident
    threading.Timer(1.5, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        run.wait()
    with pytest.raises(RunContinues):
        run.wait(0.2)
    assert [one.id for one in cluster.runs()] == [run.id]
    assert (run.state, run.stop(5), run.wait()) == ("running", "stopped", 130)


def test_a_failed_run_names_its_first_cause(cluster: Cluster):
    run = cluster.start("train.py", n=2, args=("20", "7"))
    assert run.wait() == 7
    status = run.status()
    assert (status.state, status.cause) == ("failed", "rank 1 on node02 exited with code 7")
