"""What is read out of the open parts of the corpus: no wrong value, and most steps and losses."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from ipexctl.run.output.metric_lines import LineReader
from ipexctl.run.watch.metric_formats import metric_formats

CORPUS = Path(__file__).parent / "corpus"
OPEN = sorted([*CORPUS.glob("open/*.json"), *CORPUS.glob("third/*.json")])
TRAINING = ("step", "epoch", "loss", "rate", "lr")
# A table of two-word titles; tensor(2.04); the step of an epoch's summary behind many other values.
NOT_READ = {"spacy_table", "peft_example", "fairseq_json", "megatron_lm"}


def same(value: float, wanted: object) -> bool:
    number = float(str(wanted))
    return math.isclose(value, number, rel_tol=1e-5) or (math.isnan(value) and math.isnan(number))


@pytest.mark.parametrize("path", OPEN, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_style(path: Path):
    told: dict[str, Any] = json.loads(path.read_text())
    text = path.with_suffix(".log").read_bytes().decode("utf-8", "replace")
    wanted = {point["line"]: point for point in told["points"]}
    reader, found, missed = LineReader(metric_formats()), 0, 0
    for number, line in enumerate(re.split(r"[\r\n]", text), 1):
        point = reader.point(line)
        says, known = point.says if point else {}, wanted.get(number, {})
        if number in told["nothing"]:
            assert not says.keys() & set(TRAINING), line
        for key in says.keys() & known.keys():
            also = known.get("step_alt" if key == "step" else "loss_avg", known[key])
            assert same(says[key], known[key]) or same(says[key], also), (key, line)
        for key in {"step", "loss"} & known.keys():
            found, missed = (found + 1, missed) if key in says else (found, missed + 1)
    assert found >= 9 * missed or path.stem in NOT_READ
