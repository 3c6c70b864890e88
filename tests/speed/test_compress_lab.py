"""run --compress on practice hosts with the real torch: the ranks check what arrives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ipexctl.run.output.rank_lines import WARNING
from tests.run_lab.conftest import runner  # noqa: F401  (a fixture)

CHECKS = Path(__file__).parent / "compression_checks.py"
NAMES = {
    "no_sync", "views", "builtin hook", "bytes", "copies", "float64", "join", "losses", "half",
    "unused", "overflow", "nan", "own hook", "sparse", "static_graph",
}  # fmt: skip
LOSSES = Path(__file__).parent / "compression_losses.py"
PREFIX = "ipexctl: --compress"
TWO = ("-n", "2", "-ppn", "1", "-l", "node01,node02")


@pytest.mark.parametrize(("mode", "more"), [("fp16", ()), ("bf16", ("--no-inspect",))])
def test_gradients_arrive_in_half_precision(runner, mode, more):  # noqa: F811
    script = runner.script(CHECKS.read_text())
    run, result = runner.train(*TWO, "--compress", mode, *more, str(script))
    checks = [line.removeprefix("check ") for line in run.lines() if line.startswith("check ")]
    assert sorted(checks) == sorted(f"{name} ok" for name in NAMES), run.lines()
    assert ("look 0" in run.lines()) is bool(more)
    said = {rank: [t for t in run.lines(rank) if t.startswith(PREFIX)] for rank in (0, 1)}
    # what becomes of float32, float64 and sparse gradients, and the two hooks of the script itself
    assert (len(said[0]), len(said[1])) == (5, 0)
    assert len(result["warnings"]) == (mode == "fp16")  # the gradients of rank 1 were too large


@pytest.mark.parametrize(
    ("case", "mode", "expected"),
    [
        ("lstm", "fp16", [r"rank 0: .*became 0: (9\d|100)(\.\d+)? % of all"]),
        ("lstm", "bf16", []),
        ("auxiliary", "fp16", [r"rank 0: .*(9\d|100)(\.\d+)? % of auxiliary\.weight"]),
        ("auxiliary", "bf16", []),
        ("healthy", "fp16", []),
        ("overflow", "fp16", ["rank 1: .*too large", "rank 1: .*NaN"]),
        ("overflow", "bf16", []),
    ],
)
def test_gradients_that_fp16_loses_stand_in_the_result(runner, case, mode, expected):  # noqa: F811
    script = runner.script(LOSSES.read_text())
    run, result = runner.train(*TWO, "--compress", mode, str(script), case)
    warnings = result["warnings"]
    assert len(warnings) == len(expected), warnings
    for text, pattern in zip(warnings, expected, strict=True):
        assert re.match(pattern, text), warnings
        assert "bf16" in text
        assert any(text.endswith(line.removeprefix(WARNING)) for line in run.lines())
