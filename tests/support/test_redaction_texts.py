"""Texts of someone who had not read the patterns: marked parts are masked, or kept."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ipexctl.support.find_secrets import masked_secrets, plain
from ipexctl.support.redaction import Redactor


def texts(file: str) -> list[object]:
    given = (Path(__file__).parent / "redaction" / file).read_text("utf-8")
    _, *parts = given.replace("·", "").replace("␛", "\x1b").split("\n%% ")
    cases = [part.rstrip("\n").partition("\n") for part in parts]
    return [
        pytest.param(re.sub("[«»]", "", text), re.findall("«(.+?)»", text, re.S), id=kind)
        for kind, _, text in cases
    ]


@pytest.mark.parametrize(("text", "secrets"), texts("secrets.txt"))
def test_no_part_of_a_secret_is_left(text: str, secrets: list[str]) -> None:
    found = Redactor().text(f"{text}\nnext line\nstep 2 loss 0.4\n")
    assert [part for whole in secrets for part in (whole[:6], whole[-6:]) if part in found] == []
    assert found.endswith("step 2 loss 0.4\n")


@pytest.mark.parametrize(("text", "kept"), texts("innocent.txt"))
def test_what_is_no_secret_is_kept(text: str, kept: list[str]) -> None:
    found = masked_secrets(plain(text))
    assert [part for part in kept if part not in found] == []
