"""A report of a run that is removed while it is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ipexctl.errors import InputError
from ipexctl.machines.target import Target
from ipexctl.report import run_report
from tests.run.test_ps_local import Here


@pytest.mark.timeout(120)
def test_a_run_that_is_removed_once_it_was_found_is_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, root = Here(tmp_path), str(tmp_path / "home/.ipexctl")
    (here.code / "train.py").write_text("print('step 1/1 loss 1.0')\n")
    done = here.call("run", "-n", "1", "--force", "--name", "gone", "train.py")
    assert done.returncode == 0, done.stderr
    find, removed = run_report.find, []

    def and_remove(*args: Any, **more: Any) -> Any:
        run = find(*args, **more)
        if not removed:
            removed.append(here.call("rm", "-y", "gone").returncode)
        return run

    monkeypatch.setattr(run_report, "find", and_remove)
    with pytest.raises(InputError):
        run_report.report(Target(), "gone", root, to=str(tmp_path / "report.html"))
    assert removed == [0] and not (tmp_path / "report.html").exists()
