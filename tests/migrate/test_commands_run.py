"""Commands that `migrate` prints, run to the end as they are: here, with the real torch and MPI."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ipexctl.local.user_dirs import cache_dir
from tests.cli import ipexctl
from tests.migrate.record import HERE

REPO = Path(__file__).parents[2]
# each line of the file, and how many ranks it starts
LINES = {5: 2, 6: 2, 7: 2, 8: 2, 9: 2, 10: 1, 11: 2}
QUICK = (5, 10, 11)  # in `make test`; `make soak` has all of them


@dataclass(frozen=True)
class Here:
    """The cases beside what `ipexctl install` made on this machine."""

    folder: Path
    env: dict[str, str]

    def shell(self, text: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", text], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            cwd=self.folder, env=self.env, timeout=300,
        )  # fmt: skip


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    """Wheels come from the user's own cache, and are fetched into it once."""
    top = tmp_path_factory.mktemp("here")
    (top / "bin").mkdir()
    (top / "home").mkdir()
    program = top / "bin/ipexctl"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ipexctl "$@"\n')
    program.chmod(0o755)
    folder = Path(shutil.copytree(HERE / "cases", top / "cases"))
    env = {
        **os.environ, "HOME": str(top / "home"), "PYTHONPATH": str(REPO), "EPOCHS": "3",
        "PATH": f"{top / 'bin'}:/usr/bin:/bin", "XDG_CACHE_HOME": str(cache_dir().parent),
    }  # fmt: skip
    env.pop("VIRTUAL_ENV", None)
    made = Here(folder, env)
    done = made.shell("ipexctl install -y")
    assert done.returncode == 0, done.stderr
    yield made
    assert json.loads(made.shell("ipexctl ps --json").stdout)["runs"] == []


@pytest.mark.parametrize(
    "line", [n if n in QUICK else pytest.param(n, marks=pytest.mark.soak) for n in LINES]
)
def test_a_command_runs_to_the_end_with_its_number_of_ranks(here: Here, line: int) -> None:
    printed = json.loads(ipexctl("migrate", "--json", "local_lines.sh", cwd=here.folder).stdout)
    assert [one["line"] for one in printed["commands"]] == list(LINES)
    (text,) = (one["text"] for one in printed["commands"] if one["line"] == line)
    done = here.shell(text)
    assert done.returncode == 0, f"{text}\n{done.stderr}"
    ranks = sorted(re.findall(r"rank (\d) of (\d)", done.stdout))
    assert ranks == [(str(rank), str(LINES[line])) for rank in range(LINES[line])]
