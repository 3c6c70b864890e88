"""The schema and the pages are made from the steps, and say what the reader reads."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from ipexctl import api
from ipexctl.doctor.checks import all_checks
from ipexctl.doctor.report.finding import Severity, as_fix
from ipexctl.doctor.report.fix_plan import fix_play, ready_commands
from ipexctl.errors import InputError
from ipexctl.play.command.step_help import step_help
from ipexctl.play.play_files import shipped_plays
from ipexctl.play.steps import all_steps
from ipexctl.play.text.interpolation import Scope
from ipexctl.play.text.play_reader import read_play
from ipexctl.play.text.step_schema import bind_step, step_arguments
from tests.checks.cases import ONE_HOST
from tests.checks.hosts import clean, findings

REPO = Path(__file__).parents[2]
sys.path.insert(0, str(REPO / "tools"))

from play_docs import play_schema, steps_page  # noqa: E402

SCHEMA = play_schema(all_steps())


def is_valid(text: str) -> bool:
    loaded = yaml.load(text, Loader=_Yaml12)
    return bool(jsonschema.Draft202012Validator(SCHEMA).is_valid(loaded))


class _Yaml12(yaml.SafeLoader):
    """As editors read it: of the words only true and false are no text."""


_Yaml12.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in pairs if letter in "tTfF" or ":bool" not in tag]
    for letter, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def test_the_schema_is_that_of_the_steps():
    for keyword in all_steps():
        assert f"\n## {keyword}\n" in steps_page(all_steps())
    assert json.loads((REPO / "ipexctl/schema/play.json").read_text()) == SCHEMA
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("keyword", all_steps())
def test_the_example_of_each_step_is_right(keyword):
    text = f"steps:\n  - {all_steps()[keyword].example}\n"
    (step,) = read_play(text, "example", all_steps()).steps
    if keyword != "get":  # its SHA-256 is not written out
        assert bind_step(all_steps()[keyword], step.node, Scope({}))
    assert is_valid(text)


def test_list_modules_names_every_step_and_explains_those_that_are_named():
    lines = list(step_help(all_steps(), ()))
    assert [line.split()[0] for line in lines] == list(all_steps())
    text = "\n".join(step_help(all_steps(), ("sh", "copy")))
    assert "copy: Copy a file" in text and "may follow the keyword directly" in text
    assert max(map(len, text.splitlines())) <= 80
    for about in (
        *step_arguments(all_steps()["sh"]).values(),
        *step_arguments(all_steps()["copy"]).values(),
    ):
        assert f"\n  {about.name} (" in text and about.doc.split()[-1] in text
    with pytest.raises(InputError, match="nosuch: unknown value"):
        list(step_help(all_steps(), ("nosuch",)))


@pytest.mark.parametrize("name", shipped_plays())
def test_shipped_plays_are_valid(name):
    text = shipped_plays()[name].read_text()
    assert is_valid(text)
    assert read_play(text, name, all_steps()).steps


def test_plays_in_the_docs_are_valid():
    text = (REPO / "docs/plays.md").read_text()
    blocks = re.findall(r"(?:^    .*\n)+", text, re.M)
    plays = [re.sub("^    ", "", block, flags=re.M) for block in blocks if "    steps:" in block]
    assert plays
    for play in plays:
        assert is_valid(play), play
        read_play(play, "docs", all_steps())


WRONG = [
    "steps: 1",
    "step: []",
    "steps: [{shh: x}]",
    "steps: [{sh: x, file: y}]",
    "steps: [{name: x}]",
    "steps: [{file: {path: /x, stat: file}}]",
    "steps: [{file: {path: /x, state: folder}}]",
    "steps: [{file: {}}]",
    "steps: [{wait: {port: many}}]",
    "steps: [{sh: x, when: [amx]}]",
    "steps: [{sh: x, when: {memory: {least: 3}}}]",
    "steps: [{sh: x, sudo: perhaps}]",
]


@pytest.mark.parametrize("text", WRONG)
def test_what_the_schema_refuses_the_reader_refuses(text):
    assert not is_valid(text)
    with pytest.raises(InputError):
        for step in read_play(text, "wrong", all_steps()).steps:
            bind_step(all_steps()[step.kind], step.node, Scope({}))


@pytest.mark.parametrize("case", ONE_HOST, ids=str)
def test_what_doctor_asks_of_root_is_a_play_that_can_be_read(case):
    for finding in findings(case.change(clean())):
        text = fix_play([finding], ["node01"])
        if not finding.fix.needs_root or finding.severity is Severity.NOTE:
            assert not text
        elif ready_commands(finding.fix):
            assert is_valid(text)
            for step in read_play(text, "fixes", all_steps()).steps:
                assert bind_step(all_steps()[step.kind], step.node, Scope({})), text
                assert step.sudo and finding.id in step.tags
        else:
            (comment,) = text.splitlines()
            assert comment.startswith("# ") and f" node01: {finding.id} " in comment


def test_the_shipped_preparations_are_what_doctor_recommends():
    """Each of their steps has the kind and the values of the fix of its check."""
    recommended = {check.id: set(as_fix(check.fix).lines) for check in all_checks()}
    for case in ONE_HOST:
        for finding in findings(case.change(clean())):
            for step in _steps(fix_play([finding], ["node01"])):
                recommended[finding.id].add(_values(step))
            recommended[finding.id].update(finding.fix.lines)
    for name in ("prepare-debian", "prepare-rhel"):
        for step in _steps(shipped_plays()[name].read_text()):
            check = next((tag for tag in step.tags if re.fullmatch(r"[A-Z]+-\d+", tag)), "")
            if check and step.kind == "sysctl":
                values = " ".join(recommended[check])
                node = {key.text: value.text for key, value in step.node.items}
                assert f"{node['name']}={node['value']}" in values or _values(step) in values
            elif check and step.kind == "line":
                what = step.node.get("line").text.rpartition(" - ")[2]
                assert any(what in text for text in recommended[check])


def _steps(text):
    return read_play(text, "play", all_steps()).steps if "\nsteps:" in text else ()


def _values(step):
    return f"{step.kind} {step.node}".replace(str(step.place), "")


def test_every_step_is_in_the_python_api() -> None:
    assert {kind.__name__ for kind in all_steps().values()} <= set(api.__all__)


def test_annotations_of_steps_are_those_that_python_3_10_can_evaluate() -> None:
    bare = [
        f"{base.__name__}.{name}"
        for kind in all_steps().values()
        for base in kind.__mro__
        for name, hint in vars(base).get("__annotations__", {}).items()
        if hint == "ClassVar"
    ]
    assert bare == []
