"""A run as it is watched: files, faults that show, panes in a real terminal. Real lab hosts."""

from __future__ import annotations

import hashlib
import json
import re
import time
from pathlib import Path

import pytest

CRASH = (
    "import os, sys\n"
    "class Held:\n"
    "    def __del__(self, abort=os.abort): abort()\n"
    "held = Held() if os.environ['RANK'] == '1' else None\n"
    "print('saved')\n"
)
TORTURE = """
import hashlib, os, sys
rank = int(os.environ['RANK'])
said = hashlib.sha256()
def write(data):
    said.update(data)
    sys.stdout.buffer.write(data)
if rank == 0:
    for i in range(500): write(b'x' * 99_999 + b'\\n')
elif rank == 1:
    write(b'y' * 1_000_000 + b'\\n'); write(b'a\\0b\\xff\\xfe\\x1b[2J\\n')
    for i in range(1000): write(b'\\r%d%%' % i)
    write(b'\\nask: ')
    write(repr(sys.stdin.read()).encode() + b'\\n')
else:
    write(b'z' * 100_000)
    open('said.odd', 'w', encoding='utf-8').write(os.environ['ODD'] + sys.argv[1])
sys.stdout.buffer.flush()
open('said.%d' % rank, 'w').write(said.hexdigest())
"""


def kept(runner, run_id: str) -> Path:
    return runner.folder / ".ipexctl" / "runs" / run_id


def test_every_byte_of_every_rank_is_here_at_the_end_and_what_was_asked_for(runner):
    """50 MB in long lines, a line of 1 MB, NULs, no text, a bar, stdin, no newline."""
    script = runner.script(TORTURE)
    odd = "a 'b' \"c\"\n$(touch x) `y` %s \\ \u00fc\U0001f600 "
    done = runner.plain("-n", "3", "--fetch", "said.*", "--env", f"ODD={odd}", str(script), odd)
    assert done.returncode == 0, done.stderr
    (folder,) = (runner.folder / ".ipexctl" / "runs").iterdir()
    logs = sorted((folder / "logs").glob("rank*"))
    assert [p.name for p in logs] == [f"rank0000{r}.node0{r + 1}.log" for r in range(3)]
    hashes = [hashlib.sha256(p.read_bytes()).hexdigest() for p in logs]
    fetched = ["said.0", "@node02/said.1", "@node03/said.2"]
    assert [(folder / "outputs" / name).read_text() for name in fetched] == hashes
    assert (folder / "outputs/@node03/said.odd").read_text("utf-8") == odd + odd
    assert b"ask: ''\n" in logs[1].read_bytes()
    assert {p.stat().st_mode & 0o777 for p in folder.rglob("*") if p.is_file()} == {0o600}
    lines = done.stdout.split("\n")
    assert sum(len(t) - 13 for t in lines if t.startswith("node01")) == 500 * 99_999
    assert "node02 r01 | 999%" in lines


def test_a_script_that_writes_outside_of_its_folder_is_not_followed(runner):
    script = runner.script("import os\nos.symlink('/etc', 'out')\nopen('a.txt','w').write('1')\n")
    done = runner.plain("-n", "1", "--outputs", "out", "--fetch", "*.txt", str(script))
    assert done.returncode == 0, done.stderr
    (folder,) = (runner.folder / ".ipexctl" / "runs").iterdir()
    outputs = folder / "outputs"
    assert [p.relative_to(outputs) for p in outputs.rglob("*")] == [Path("a.txt")]


def test_a_rank_that_stands_still_ends_the_run_and_is_named(runner):
    script = runner.script(
        "import os, signal, time\nprint('up', flush=True)\n"
        "if os.environ['RANK'] == '1': os.kill(os.getpid(), signal.SIGSTOP)\ntime.sleep(100)\n"
    )
    run = runner.start("--host-timeout", "4", "-n", "3", str(script))
    result = run.finish()
    assert (result["exit_code"], result["ended_by"]) == (121, "rank-frozen")
    assert result["cause"].split()[:4] == ["rank", "1", "on", "node02"]
    assert [h["survivors"] for h in result["hosts"]] == [0, 0, 0]


@pytest.mark.parametrize(
    ("code", "options"), [(0, ()), (0, ("--no-inspect",)), (3, ()), (3, ("--no-inspect",))]
)
def test_the_code_is_the_scripts_where_python_crashes_after_it(runner, code, options):
    script = runner.script(f"{CRASH}raise SystemExit({code} * (os.environ['RANK'] == '1'))\n")
    run = runner.start(*options, "-n", "3", str(script))
    result = run.finish()
    assert (result["exit_code"], result["aborted_at_exit"]) == (code, [1])
    assert result["ended_by"] == ("rank-failed" if code else "ranks")
    assert run.lines().count("saved") == 3


def test_the_end_of_a_rank_does_not_wait_for_one_that_was_killed(runner):
    script = runner.script(
        "import os, sys, time\n"
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "dist.all_reduce(torch.ones(1))\n"
        "if dist.get_rank() == 1: os.kill(os.getpid(), 9)\n"
        "pending = dist.all_reduce(torch.ones(1 << 20), async_op=True)\n"
        "print('end', flush=True)\n"
    )
    run = runner.start("-n", "2", str(script))
    run.until(event="line", text="end")
    began = time.monotonic()
    result = run.finish()
    assert (result["exit_code"], result["first"]["rank"]) == (137, 1)
    assert time.monotonic() - began < 20


def test_only_what_is_chosen_is_shown_and_all_of_it_is_kept(runner):
    script = runner.script("import os\nfor w in ('loss 1', 'note'): print(w)\n")
    done = runner.plain(
        "-n", "3", "--ranks", "0-1", "--show-hosts", "node02", "-i", "loss", str(script)
    )
    assert (done.returncode, done.stdout) == (0, "node02 r01 | loss 1\n")
    (folder,) = (runner.folder / ".ipexctl" / "runs").iterdir()
    assert [p.read_text() for p in (folder / "logs").glob("rank*")] == ["loss 1\nnote\n"] * 3


def test_json_events_keep_to_what_the_docs_say(runner):
    run = runner.start("-n", "2", str(runner.script("import time\nprint('a')\ntime.sleep(3)\n")))
    result = run.finish()
    text = (Path(__file__).parents[2] / "docs" / "run-results.md").read_text()
    told = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", text, re.MULTILINE))
    told["result"] = text.partition("\n`result` has ")[2].partition("\n\n")[0]
    for event in run.events:
        assert event["schema_version"] == 1
        fields = set(re.findall(r"`(\w+)`", told[event["event"]]))
        assert set(event) - {"schema_version", "event"} == fields, event["event"]
    assert {e["event"] for e in run.events} >= {"plan", "note", "line", "result"}
    folder = kept(runner, run.run_id)
    assert json.loads((folder / "result.json").read_text()) == result
