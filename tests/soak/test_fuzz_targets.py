"""Each fuzz target for a minute, from what earlier runs have found.

The corpus stays in ~/.cache/ipexctl-fuzz. `IPEXCTL_FUZZ_SECONDS` sets another time.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]
TARGETS = REPO / "tests" / "fuzz" / "atheris_targets.py"
SECONDS = int(os.environ.get("IPEXCTL_FUZZ_SECONDS", "60"))
CORPUS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ipexctl-fuzz"
NAMES = re.findall(r'^    "(\w+)": Target\(', TARGETS.read_text("utf-8"), re.MULTILINE)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With Atheris, which is a compiled package and not there for every Python."""
    folder = tmp_path_factory.mktemp("fuzz")
    venv.create(folder, with_pip=True)
    needs = ["atheris==3.0.0", "pyyaml", "packaging", "pytest", str(REPO)]
    done = subprocess.run(
        [folder / "bin/pip", "install", "-q", *needs], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"no atheris for Python {sys.version_info[:2]}: {done.stderr[-300:]}")
    return folder / "bin/python"


@pytest.mark.parametrize("name", NAMES)
def test_no_input_is_a_crash_or_takes_five_seconds(python: Path, name: str) -> None:
    corpus = CORPUS / name
    corpus.mkdir(parents=True, exist_ok=True)
    limit = f"-max_total_time={SECONDS}"
    words = [python, TARGETS, name, limit, f"-artifact_prefix={corpus}-", corpus]
    done = subprocess.run(words, capture_output=True, text=True, cwd=REPO)
    assert done.returncode == 0, done.stderr[-4000:]
    (runs,) = re.findall(r"Done (\d+) runs", done.stderr)
    print(f"{name}: {int(runs):,} inputs, {len(list(corpus.iterdir())):,} kept")
    assert int(runs) > 100
