"""With umask 0, nothing that ipexctl makes is writable for others; a rank's own files are as its
user wants them."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pull.hub_server import Hub, served
from tests.run.test_ps_local import Here

TRAIN = """
import os, time, torch
print("step 1 loss 0.5", flush=True)
time.sleep(2)
if os.environ["RANK"] == "0":
    os.makedirs("out/checkpoint-1")
    open("out/checkpoint-1/model.pt", "wb").write(b"weights" * 1000)
    open("own.txt", "w").close()
"""
COMMANDS = """
doctor
run -n 2 --force --checkpoints out/checkpoint-* train.py
ps -a
fetch @last own.txt -o got
fetch @last --checkpoint last -o got-checkpoint
report @last -o report.html
support @last
data push set
data pull hf:acme/tiny --yes
prune --yes
""".strip().splitlines()


def writable(*tops: Path) -> Iterator[str]:
    for top in tops:
        for folder, names, files in os.walk(top):
            for path in (Path(folder, name) for name in [*names, *files]):
                mode = path.lstat().st_mode
                if not stat.S_ISLNK(mode) and mode & 0o022:
                    yield f"{stat.filemode(mode)} {path}"


def run(here: Here, command: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        here.argv(*command.split()), cwd=here.code, env={**here.env, **more}, umask=0,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture
def here(tmp_path: Path) -> Here:
    made = Here(tmp_path)
    (made.code / "train.py").write_text(TRAIN)
    (made.code / "set").mkdir()
    (made.code / "set/a.txt").write_text("a")
    return made


def test_with_umask_0_nothing_is_writable_for_others(here: Here) -> None:
    trace = here.code / "trace.json"
    home = Path(here.env["HOME"])
    with served(Hub()) as hub:
        hub.add("models", "acme/tiny").files = {"config.json": b"{}", "model.bin": bytes(20_000)}
        more = {"HF_ENDPOINT": hub.url, "HF_HOME": str(home / "hf"), "IPEXCTL_TRACE": str(trace)}
        for command in COMMANDS:
            done = run(here, command, **more)
            assert done.returncode == 0 or command == "doctor", (command, done)
    rank = next(home.glob(".ipexctl/runs/*/work"))
    own = {f"-rw-rw-rw- {path}" for path in rank.rglob("own.txt")}
    own |= {f"-rw-rw-rw- {path}" for path in rank.rglob("model.pt")}
    own |= {f"drwxrwxrwx {path}" for path in (*rank.rglob("out"), *rank.rglob("checkpoint-1"))}
    assert len(own) == 4
    assert sorted(set(writable(home, here.code)) - own) == []
    assert stat.S_IMODE(trace.stat().st_mode) == 0o600
    private = [*home.glob(".ipexctl/runs/*"), *here.code.glob(".ipexctl/runs/*")]
    assert len(private) == 2
    assert [path for path in private if path.stat().st_mode & 0o077] == []


def test_a_trace_is_written_through_no_link_and_over_nothing_else(here: Here) -> None:
    kept, link = here.code / "kept", here.code / "link"
    kept.write_text("kept")
    link.symlink_to(kept)
    for place in (link, here.code / "set"):
        done = run(here, "ps -a", IPEXCTL_TRACE=str(place))
        assert done.returncode == 0
        assert f"cannot write IPEXCTL_TRACE={place}" in done.stderr
    assert (kept.read_text(), link.is_symlink()) == ("kept", True)
    (here.code / "open").mkdir()
    (here.code / "open").chmod(0o777)
    done = run(here, "ps -a", IPEXCTL_TRACE=str(here.code / "open/trace.json"))
    assert "writable by everyone" in done.stderr and not list((here.code / "open").iterdir())
    trace = here.code / "trace.json"
    run(here, "ps -a", IPEXCTL_TRACE=str(trace))
    assert json.loads(trace.read_text())["traceEvents"]
