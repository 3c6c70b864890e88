"""run --compress on practice hosts with the real torch: the ranks check what arrives."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.run_lab.conftest import runner  # noqa: F401  (a fixture)

CHECKS = Path(__file__).parent / "compression_checks.py"
NAMES = {
    "no_sync", "views", "builtin hook", "bytes", "copies", "float64", "join", "losses", "half",
    "unused", "overflow", "nan", "own hook", "sparse", "static_graph",
}  # fmt: skip
PREFIX = "ipexctl: --compress"


@pytest.mark.parametrize(("mode", "more"), [("fp16", ()), ("bf16", ("--no-inspect",))])
def test_gradients_arrive_in_half_precision(runner, mode, more):  # noqa: F811
    script = runner.script(CHECKS.read_text())
    where = ("-n", "2", "-ppn", "1", "-l", "node01,node02")
    run, _ = runner.train(*where, "--compress", mode, *more, str(script))
    checks = [line.removeprefix("check ") for line in run.lines() if line.startswith("check ")]
    assert sorted(checks) == sorted(f"{name} ok" for name in NAMES), run.lines()
    assert ("look 0" in run.lines()) is bool(more)
    said = {rank: [t for t in run.lines(rank) if t.startswith(PREFIX)] for rank in (0, 1)}
    # what becomes of float32, float64 and sparse gradients, and the two hooks of the script itself
    assert len(said[0]) == 5
    assert len(said[1]) == (mode == "fp16")  # its gradients were too large
