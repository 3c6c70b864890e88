"""Short plays, names of checkpoints and words of a rank that would fill the memory or the time."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ipexctl.remote.shelf.publication import Publication
from tests.plays.play_here import argv, environment

ROOM = 1 << 30  # bytes of address space
DOUBLED = "".join(f"  a{i}: '{f'${{a{i - 1}}}' * 10}'\n" for i in range(1, 20))
LARGE = f"  a0: {'x' * 1000}\n" + "".join(f"  a{i}: '{f'${{a{i - 1}}}' * 10}'\n" for i in (1, 2))
MANY = "".join(f"  b{i}: 'x${{a2}}'\n" for i in range(20_000))
ENV = ", ".join(f"e{i}: 'x${{a2}}'" for i in range(20_000))

PLAYS = {
    "each ten times the one above": (f"vars:\n  a0: x\n{DOUBLED}", "  - sh: id\n"),
    "many variables": (f"vars:\n{LARGE}{MANY}", "  - sh: id\n"),
    "many texts of a step": (f"vars:\n{LARGE}", f"  - sh: {{cmd: id, env: {{{ENV}}}}}\n"),
    "many steps": (
        f"vars:\n{LARGE}", "  - file: {path: /tmp/x, content: 'x${a2}'}\n" * 12_000,
    ),
}  # fmt: skip


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", PLAYS)
def test_a_short_play_does_not_fill_the_memory(name: str, tmp_path: Path) -> None:
    head, steps = PLAYS[name]
    (tmp_path / "play.yaml").write_text(f"{head}steps:\n{steps}")
    done = subprocess.run(
        argv("play.yaml", "--check"), cwd=tmp_path, env=environment(tmp_path), check=False,
        text=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=100,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (ROOM, ROOM)),
    )  # fmt: skip
    assert done.returncode == 2, done.stderr[-2000:]
    assert " MiB" in done.stderr


@pytest.mark.timeout(60)
def test_thousands_of_checkpoints_do_not_keep_the_hub_busy() -> None:
    hub, began = Publication(["a", "b"]), time.process_time()
    for number in range(20_000):
        said = {"name": f"out/c-{number}", "stamp": "1", "names": ["m"], "needs": [], "age": 0.0}
        hub.take("a", {"shelf": "ready", **said}, 0.0)
        if number % 256 == 255:  # as the hub does after so many messages
            hub.begin(0.0)
    assert len(hub.order) == 20_000
    assert time.process_time() - began < 10


def test_what_a_rank_says_of_its_threads_is_evaluated_up_to_a_limit(tmp_path: Path) -> None:
    (tmp_path / "7.recorded").write_bytes(b"{}\n(" + b"[]," * (8 << 18) + b")")
    code = (
        "import sys\n"
        "from ipexctl.remote.hang.collectives import Question\n"
        "question = Question(sys.argv[1], 7, 'R')\n"
        "question.why = ''\n"
        "assert question.answer()[0] is None\n"
        "print(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 150 << 10  # KiB
