"""The corpus of training logs is whole: its JSON files say what their logs print."""

from __future__ import annotations

import hashlib
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

CORPUS = Path(__file__).parent / "corpus"
LOGS = sorted(CORPUS.glob("*/*.log"))
KEYS = {
    *("line", "step", "step_alt", "epoch", "epochs", "total", "loss", "loss_avg", "eval_loss"),
    *("lr", "rate", "rate_text", "samples_per_s", "tokens_per_s", "eta"),
}
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
NUMBER = re.compile(r"[-+]?(?:\d[\d.,]*(?:[eE][-+]?\d+)?[kKMG]?|nan|NaN|inf)")
UNITS = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}


def read(log: Path) -> tuple[list[str], dict[str, Any]]:
    lines = re.split(r"[\r\n]", log.read_bytes().decode())
    return lines, json.loads(log.with_suffix(".json").read_bytes())


def readings(text: str) -> set[float | str]:
    """Every number that can be read in a line: 1.600 is 1.6, and 1600 in some countries."""
    found: set[float | str] = set()
    for word in NUMBER.findall(text):
        if word.lstrip("+-").lower() in ("nan", "inf"):
            found.add(word.lower())
            continue
        factor = UNITS.get(word[-1], 1)
        word = word.rstrip("kKMG.,")
        whole = (word.replace(",", ""), word.replace(",", "."), word.replace(".", ""))
        for spelling in (*word.split(","), *whole):
            try:
                found |= {float(spelling), float(spelling) * factor}
            except ValueError:
                continue
    return found


def printed(value: float | str, found: set[float | str]) -> bool:
    if isinstance(value, str):
        return value in found
    return any(isinstance(x, float) and math.isclose(x, value, rel_tol=1e-9) for x in found)


def test_three_parts_of_thirty() -> None:
    parts = ("open", "held", "third")
    assert [len(list((CORPUS / part).glob("*"))) for part in parts] == [60, 60, 60]
    assert len({log.name for log in LOGS if log.parent.name != "third"}) == 60


@pytest.mark.parametrize("log", LOGS, ids=lambda log: f"{log.parent.name}-{log.stem}")
def test_values_are_in_their_lines(log: Path) -> None:
    lines, said = read(log)
    assert 10 <= len(lines) <= 61
    assert set(said) == {"style", "program", "points", "nothing"}
    numbers = [point["line"] for point in said["points"]]
    assert numbers == sorted(set(numbers))
    assert said["nothing"] == sorted(set(said["nothing"]) - set(numbers))
    assert all(lines[number - 1].strip() for number in said["nothing"])
    for point in said["points"]:
        assert set(point) <= KEYS and len(point) > 1
        text = ANSI.sub("", lines[point["line"] - 1])
        found = readings(text)
        for key in ("rate_text", "eta"):
            assert point.get(key, "") in text
        if "rate_text" in point:
            (duration,) = (x for x in re.findall(r"\d+(?:\.\d+)?", point["rate_text"]))
            inverses = (1 / float(duration), 1000 / float(duration))
            assert any(math.isclose(point["rate"], x, rel_tol=1e-5) for x in inverses)
        for key in point.keys() - {"line", "eta", "rate_text"}:
            if key != "rate" or "rate_text" not in point:
                assert printed(point[key], found), (point, key, text)


def test_held_half_is_unchanged() -> None:
    digest = hashlib.sha256()
    for path in sorted((CORPUS / "held").iterdir(), key=lambda path: path.name.encode()):
        digest.update(path.read_bytes())
    assert digest.hexdigest() == (CORPUS / "held.sha256").read_text().split()[0]
