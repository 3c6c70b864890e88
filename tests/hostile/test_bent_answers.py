"""A host whose Python bends what the agent sends: escape codes, line ends and bidirectional marks
at the end of some of its texts and keys. None reaches the terminal or a page."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.cli import ipexctl
from tests.run.test_ps_local import Here

BENT = """#!/usr/bin/python3 -IS
import json, sys, zlib
TAIL = "\\x1b]0;PWN\\x07\\x1b[31mPWN\\u202e\\u2066\\x9b31m\\x85\\u2028\\r\\nroot@pwn"
SEED, EVERY = map(int, open("SETTING").read().split())
plain = json.dumps

def hit(path, every):
    return EVERY and zlib.crc32((path + str(SEED)).encode()) % every == 0

def bent(value, path):
    if isinstance(value, str):
        return value + TAIL if hit(path, EVERY) else value
    if isinstance(value, dict):
        return {
            key + TAIL if hit(path + key + " key", 10 * EVERY) else key: bent(one, path + "/" + key)
            for key, one in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [bent(one, path + "/") for one in value]
    return value

def dumps(value, *args, **more):
    if isinstance(value, dict) and value.get("id"):
        kept = ("id", "event")
        value = {k: v if k in kept else bent(v, "%s/%s" % (value.get("event"), k))
                 for k, v in value.items()}
    return plain(value, *args, **more)

json.dumps = dumps
exec(sys.argv[2] if len(sys.argv) > 2 else sys.argv[1][3:])
"""
OBEYED = re.compile("[\x07\x85\x9b\u2028\u202e\u2066]|\x1b\\]0|^root@pwn", re.MULTILINE)
COMMANDS = """
doctor -v
doctor --json
doctor --print
env ls
env diff
install --check
run -n 2 --force train.py 1 0
ps -a
ps -a --json
logs @last
why @last
wait @last
metrics @last
checkpoints @last
report @last -o report.html
report @last --json
fetch @last *.py -o got
data ls
prune --check
remove --all --check
support
""".strip().splitlines()


@pytest.mark.parametrize(("every", "seed"), [(1, 1), (5, 0), (20, 1)])
def test_what_a_host_bends_is_not_obeyed(tmp_path: Path, every: int, seed: int) -> None:
    here, setting = Here(tmp_path), tmp_path / "setting"
    setting.write_text("0 0")
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin/python3"
    text = BENT.replace("/usr/bin/python3", sys.executable, 1)
    python.write_text(text.replace("SETTING", str(setting)))
    python.chmod(0o755)
    honest = here.call("run", "-n", "2", "--force", "train.py", "1", "0")  # is @last later
    assert honest.returncode == 0, honest
    env = {**here.env, "PATH": f"{python.parent}:{here.env['PATH']}"}
    assert ipexctl("ps", "-a", cwd=here.code, env=env).returncode == 0
    setting.write_text(f"{seed} {every}")
    codes, shown = {}, ""
    for command in COMMANDS:
        done = ipexctl(*command.split(), cwd=here.code, env=env)
        codes[command], shown = done.returncode, shown + done.stdout + done.stderr
        assert not OBEYED.search(done.stdout + done.stderr), (command, done)
        assert done.returncode != 70, (command, done)
    assert "root@pwn" in shown  # what was bent arrived, and was shown as text
    assert 0 in codes.values() and (every > 1 or any(codes.values())), codes
    for path in [*here.code.rglob("*.html"), *here.code.rglob("*.json")]:
        assert not OBEYED.search(path.read_text()), path


ODD = """#!/usr/bin/python3 -IS
import json, os, sys
plain = json.dumps

def dumps(value, *args, **more):
    done = value.get("done") if isinstance(value, dict) else None
    kept = open("ODD").read().split() if os.path.exists("ODD") else None
    if isinstance(done, dict) and kept is not None and not any(name in done for name in kept):
        value = dict(value, done={name: [{"x": [None]}] for name in done})
    return plain(value, *args, **more)

json.dumps = dumps
exec(sys.argv[2] if len(sys.argv) > 2 else sys.argv[1][3:])
"""


# these print facts of the host, or nothing, and its failure in other words
ELSEWHERE = ("doctor --json", "doctor --print", "support", "ps -a --json")
READ_RUNS = ("why", "report")


@pytest.mark.parametrize("kept", ["", "runs"])
def test_a_host_whose_every_value_has_another_type_fails(tmp_path: Path, kept: str) -> None:
    """`kept`: but for answers with this."""
    here, odd, python = Here(tmp_path), tmp_path / "odd", tmp_path / "bin/python3"
    python.parent.mkdir()
    python.write_text(ODD.replace("/usr/bin/python3", sys.executable, 1).replace("ODD", str(odd)))
    python.chmod(0o755)
    honest = here.call("run", "-n", "2", "--force", "train.py", "1", "0")
    assert honest.returncode == 0, honest
    env = {**here.env, "PATH": f"{python.parent}:{here.env['PATH']}"}
    assert ipexctl("ps", "-a", cwd=here.code, env=env).returncode == 0
    odd.write_text(kept)
    commands = [line for line in COMMANDS if line not in ELSEWHERE]
    for command in [line for line in commands if line.split()[0] in READ_RUNS or not kept]:
        done = ipexctl(*command.split(), cwd=here.code, env=env)
        assert done.returncode not in (0, 2, 70), (command, done)
        assert "localhost" in done.stdout + done.stderr, (command, done)
        assert re.search(r"sent (an )?invalid", done.stdout + done.stderr), (command, done)


DIES = """#!/usr/bin/python3 -IS
import json, sys
plain = json.dumps

def dumps(value, *args, **more):
    ranks = value.get("ranks") if isinstance(value, dict) else None
    if isinstance(ranks, list) and ranks and isinstance(ranks[0], dict) and "env" in ranks[0]:
        sys.exit(9)
    return plain(value, *args, **more)

json.dumps = dumps
exec(sys.argv[2] if len(sys.argv) > 2 else sys.argv[1][3:])
"""


def test_a_host_whose_python_ends_while_ranks_start_is_lost(tmp_path: Path) -> None:
    here, python = Here(tmp_path), tmp_path / "bin/python3"
    python.parent.mkdir()
    python.write_text(DIES.replace("/usr/bin/python3", sys.executable, 1))
    python.chmod(0o755)
    env = {**here.env, "PATH": f"{python.parent}:{here.env['PATH']}"}
    words = ("run", "-n", "1", "--force", "--host-timeout", "10s", "train.py", "1", "0")
    done = ipexctl(*words, cwd=here.code, env=env)
    assert done.returncode in (121, 122, 123, 124, 125), done
    assert "localhost" in done.stderr + done.stdout
