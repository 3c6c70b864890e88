"""A checkpoint of a run on this machine: from the process that copies, by the hub, to its list."""

from __future__ import annotations

import json
import subprocess

from tests.run.test_ps_local import Here
from tests.run.test_ps_local import here as here  # noqa: PLC0414  a fixture

WRITES = """
import os, sys, zipfile
print("begins", flush=True)
if os.environ["RANK"] == "0":
    os.makedirs("out/c-7")
    with zipfile.ZipFile("out/c-7/model.pt", "w") as made:
        made.writestr("data", "x" * 5000)
"""


def test_the_copy_process_the_hub_and_the_journal_agree_on_a_checkpoint(here: Here) -> None:
    (here.code / "write.py").write_text(WRITES)
    words = ("run", "-n", "2", "--force", "--checkpoints", "out/c-*", "write.py")
    done = subprocess.run(
        here.argv(*words), stdin=subprocess.DEVNULL, capture_output=True, text=True,
        cwd=here.code, env=here.env,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    asked = here.call("checkpoints", "@last", "--json")
    assert asked.returncode == 0, asked.stderr
    (row,) = json.loads(asked.stdout)["checkpoints"]
    assert (row["name"], row["step"]) == ("out/c-7", 7), row
