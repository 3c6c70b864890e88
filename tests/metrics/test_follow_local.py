"""`ipexctl logs -f` in a terminal: what `run` shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.run.test_ps_local import Here
from tests.ssh.test_shell import Terminal

TRAIN = """\
import os, sys, time, torch
rank = int(os.environ["RANK"])
for step in range(1, 41):
    sys.stderr.write(f"\\r{step * 20}%|##| {step}/40 [00:0{step}<00:01, 2.50it/s]")
    print(f"step {step}/40 loss {1 / step + rank:.2f}", flush=True)
    time.sleep(0.2)
"""


@pytest.mark.timeout(120)
def test_followed_lines_fold_below_them_the_progress(tmp_path: Path):
    here = Here(tmp_path)
    (here.code / "train.py").write_text(TRAIN)
    begun = here.call("run", "-d", "-n", "2", "--force", "train.py")
    assert begun.returncode == 0, begun.stderr
    variables = [f"{name}={value}" for name, value in {**here.env, "TERM": "xterm"}.items()]
    words = ["env", "-i", *variables, *here.argv("logs", begun.stdout.strip(), "--follow")]
    terminal = Terminal(words, 24, 100)
    terminal.until(r"all +x2  \|\S* step \d+/40 loss 0\.\d+\.\.1\.\d+")
    terminal.until(r"step \d+/40  loss 0\.\d+  [45](\.\d+)? it/s  eta \d s")
    terminal.until(r"step 40/40 loss")
    assert terminal.exit_code() == 0
    assert "all" not in here.call("logs", begun.stdout.strip()).stdout
