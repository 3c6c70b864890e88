"""docs/screens.md is what commands print; tools/make_screens.py writes it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from ipexctl.cli.help.help_examples import EXAMPLES
from tests.cli import ipexctl

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import make_screens  # noqa: E402

PAGE = make_screens.PAGE.read_text("utf-8")


@pytest.mark.parametrize("path", EXAMPLES)
def test_the_help_of_every_command_is_in_the_page(path: str) -> None:
    line = " ".join(["ipexctl", *path.split(), "--help"])
    env = {"PATH": "", "HOME": "/nonexistent", "COLUMNS": "80"}
    shown = ipexctl(*line.split()[1:], cwd=ROOT, env=env).stdout.splitlines()
    assert make_screens.block(line, shown, ()) in PAGE, "python tools/make_screens.py"


def test_the_page_has_every_command_that_the_tool_runs() -> None:
    lines = re.findall(r"(?m)^### `(.*)`$", PAGE)
    assert [*make_screens.WITHOUT_HOSTS, *make_screens.ON_HOSTS] == lines[len(EXAMPLES) + 1 :]


def test_every_screen_fits_a_terminal() -> None:
    for screen in re.findall(r"(?s)```text\n(.*?)\n```", PAGE):
        assert len(screen.splitlines()) < make_screens.ROWS
        assert [line for line in screen.splitlines() if len(line) > make_screens.COLUMNS] == []


def test_what_differs_from_run_to_run_has_a_stable_name() -> None:
    shown = [
        "run 20261123-113906-f34095 at 10.94.80.11:22151 took 13.4 s, 3 min 2 s ago",
        "10.94.80.[11-12]  815558de69152816  /tmp/abcd/mnist  2026-11-23",
    ]
    assert make_screens.block("x", shown, (("/tmp/abcd", "/home/ann"),)) == (
        "### `x`\n\n```text\n"
        "run 20260101-120000-3f2a91 at 10.0.0.11:29500 took 1.2 s, 12 s ago\n"
        "10.0.0.[11-12]  3f2a91c04d5e6b78  /home/ann/mnist  2026-01-01\n```\n"
    )
