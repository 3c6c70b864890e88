"""Names of checkpoints and words of a rank that would fill the memory or the time."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from ipexctl.common.copy_messages import PartFound
from ipexctl.remote.checkpoints.publication import Publication


@pytest.mark.timeout(300)
def test_thousands_of_checkpoints_do_not_keep_the_hub_busy() -> None:
    hub, began = Publication(["a", "b"]), time.process_time()
    for number in range(20_000):
        hub.take("a", PartFound(f"out/c-{number}", "1", ["m"], [], 0.0), 0.0)
        if number % 256 == 255:  # as the hub does after so many messages
            hub.begin(0.0)
    assert len(hub.order) == 20_000
    assert time.process_time() - began < 30  # minutes if each message looked at all names


def test_what_a_rank_says_of_its_threads_is_read_up_to_a_limit(tmp_path: Path) -> None:
    (tmp_path / "7.answer").write_bytes(b"[" + b"[]," * (8 << 18) + b"0]")
    code = (
        "import sys\n"
        "from ipexctl.remote.hang.python_stacks import RankQuestion\n"
        "question = RankQuestion(sys.argv[1], 7, 'R')\n"
        "question.why = ''\n"
        "assert question.answer()[0] is None\n"
        "print(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 150 << 10  # KiB
