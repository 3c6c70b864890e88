"""`ipexctl play` on this machine."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.cli import Ended, ipexctl

REPO = Path(__file__).parents[2]


def argv(play: str, *words: str) -> list[str]:
    return [sys.executable, "-m", "ipexctl", "play", play, *words]


def environment(folder: Path, **more: str) -> dict[str, str]:
    own = {"PYTHONPATH": str(REPO), "XDG_STATE_HOME": str(folder / "state"), "HOME": str(folder)}
    return {**os.environ, **own, "XDG_CONFIG_HOME": str(folder / "config"), **more}


def run(folder: Path, text: str, *words: str, **more: str) -> Ended:
    (folder / "play.yaml").write_text(text)
    return ipexctl("play", "play.yaml", *words, cwd=folder, env=environment(folder, **more))


def steps(folder: Path, text: str, *words: str, **more: str) -> list[dict[str, Any]]:
    done = run(folder, text, "--json", *words, **more)
    assert done.stdout, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["plays"][0]["steps"]
    return found
