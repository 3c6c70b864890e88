"""What is read out of the open half of the corpus: no wrong value, and most steps and losses."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from ipexctl.core.output.metric_lines import LineReader
from ipexctl.local.shipped_tables import metric_formats

OPEN = Path(__file__).parent / "corpus/open"
TRAINING = ("step", "epoch", "loss", "rate", "lr")
# A table of two-word titles; tensor(2.04); the step of an epoch's summary behind many other values.
NOT_READ = {"spacy_table", "peft_example", "fairseq_json"}


def same(value: float, wanted: object) -> bool:
    number = float(str(wanted))
    return math.isclose(value, number, rel_tol=1e-5) or (math.isnan(value) and math.isnan(number))


@pytest.mark.parametrize("name", sorted(path.stem for path in OPEN.glob("*.json")))
def test_a_style(name: str):
    told: dict[str, Any] = json.loads((OPEN / f"{name}.json").read_text())
    text = (OPEN / f"{name}.log").read_bytes().decode("utf-8", "replace")
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
    assert found >= 9 * missed or name in NOT_READ
