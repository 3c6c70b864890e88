"""Which options of the command line hide what tune has written."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipexctl.run.plan.run_options import RunOptions
from ipexctl.tune.tune import _instead
from ipexctl.tune.tune_space import Change, Profile

BEST = Profile((("compression", Change("--compress bf16", options=(("compress", "bf16"),))),))


@pytest.mark.parametrize(
    ("options", "hidden"),
    [
        (RunOptions("train.py"), ()),
        (RunOptions("train.py", compress="fp16"), ("--compress",)),
        (RunOptions("train.py", env={"OMP_NUM_THREADS": "2"}), ()),
    ],
)
def test_only_what_was_typed_goes_before_the_file(
    options: RunOptions, hidden: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert _instead(BEST, options) == hidden
