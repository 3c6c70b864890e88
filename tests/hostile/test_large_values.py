"""Short plays whose values would fill the memory."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

import pytest

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
