"""YAML text -> the values of a step on a host."""

from dataclasses import dataclass
from typing import Any, Literal

import pytest

from ipexctl.base.located_errors import Bad
from ipexctl.base.place import Place
from ipexctl.base.yaml_nodes import read_yaml
from ipexctl.inventory.inventory import Host
from ipexctl.play.play_scope import PlayScope
from ipexctl.play.steps import all_steps
from ipexctl.play.text.interpolation import Scope, interpolate_text
from ipexctl.play.text.play_reader import read_play
from ipexctl.play.text.play_values import Play
from ipexctl.play.text.step_schema import Code, Seconds, Step, arg, bind_step
from tests.refused import refused

SCOPE = Scope({"a": "1", "b": "x y", "host": "node01"}, ("fact.nic",), {"fact.isa"})


@dataclass(frozen=True)
class Sample(Step):
    """For this test."""

    keyword = "sample"
    main = "text"

    text: str = arg("")
    flag: bool = arg("", False)
    number: int = arg("", 0)
    time: Seconds = arg("", Seconds(0))
    words: tuple[str, ...] = arg("", ())
    maybe: tuple[str, ...] | None = arg("", None)
    env: dict[str, str] = arg("", {})
    choice: Literal["one", "two"] = arg("", "one")
    code: Code = arg("", Code(""))

    def check(self) -> None:
        if self.text == "bad":
            raise Bad("bad is bad")


def _bind(text: str) -> Sample | None:
    return bind_step(Sample, read_yaml(text, "play.yaml", "a play"), SCOPE)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("plain", {"text": "plain"}),
        ("'${a}-${b}'", {"text": "1-x y"}),
        ("$${a} $a ${ a }", {"text": "${a} $a 1"}),
        ("{text: t, flag: yes}", {"flag": True}),
        ("{text: t, flag: Off}", {"flag": False}),
        ("{text: t, flag: TRUE}", {"flag": True}),
        ("{text: t, number: -3}", {"number": -3}),
        ("{text: t, number: 0644}", {"number": 644}),
        ("{text: t, number: '${a}0'}", {"number": 10}),
        ("{text: t, time: 90}", {"time": 90.0}),
        ("{text: t, time: 1.5h}", {"time": 5400.0}),
        ("{text: t, time: 2d}", {"time": 172800.0}),
        ("{text: t, words: a}", {"words": ("a",)}),
        ("{text: t, words: [a, '${b}']}", {"words": ("a", "x y")}),
        ("{text: t, words: }", {"words": ()}),
        ("{text: t, maybe: []}", {"maybe": ()}),
        ("{text: t}", {"maybe": None, "env": {}, "choice": "one"}),
        ("{text: t, env: {A: '${a}'}}", {"env": {"A": "1"}}),
        ("{text: t, choice: two}", {"choice": "two"}),
        # YAML 1.1 makes numbers, flags and dates of these
        ("{text: no}", {"text": "no"}),
        ("{text: on}", {"text": "on"}),
        ("{text: 0644}", {"text": "0644"}),
        ("{text: 1_000}", {"text": "1_000"}),
        ("{text: 12:30:45}", {"text": "12:30:45"}),
        ("{text: 2026-01-01}", {"text": "2026-01-01"}),
        ("{text: 1e3}", {"text": "1e3"}),
        ("{text: .inf}", {"text": ".inf"}),
        ("{text: =}", {"text": "="}),
        ("{text: 'null'}", {"text": "null"}),
        ("{text: '~'}", {"text": "~"}),
        ("{text: '', flag: true}", {"text": ""}),
        ("{text: !!str 5}", {"text": "5"}),
    ],
)
def test_values_by_type(text: str, wanted: dict[str, Any]) -> None:
    step = _bind(text)
    assert {name: getattr(step, name) for name in wanted} == wanted


@pytest.mark.parametrize("text", ["'${fact.isa}'", "{text: t, code: 'echo ${fact.isa}'}"])
def test_a_fact_that_is_not_known_yet(text: str) -> None:
    assert _bind(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", ""),
        ("${a}${a}", "11"),
        ("$${a}", "${a}"),
        ("$$${a}", "$${a}"),
        ("$$", "$$"),
        ("a$", "a$"),
        ("{a} }{", "{a} }{"),
        ("${fact.isa}", None),
        ("${a} ${fact.isa}", None),
    ],
)
def test_text_with_names(text: str, value: str | None) -> None:
    assert interpolate_text(text, SCOPE) == value


def test_a_fact_that_a_host_did_not_report() -> None:
    with refused("fact-not-reported", "${fact.nic}", "node01"):
        interpolate_text("${fact.nic}", SCOPE)


def test_a_value_is_not_read_again() -> None:
    assert interpolate_text("${a}", Scope({"a": "${b} $${a}", "b": "2"})) == "${b} $${a}"


def _play(text: str) -> Play:
    return read_play(text, "play.yaml", all_steps())


def test_the_order_of_variables() -> None:
    play = _play("vars: {a: play, b: play, c: play}\nsteps: [sh: id]\n")
    host = Host("node01", vars=(("a", "host"), ("b", "host"), ("host", "x")))
    values = PlayScope(play, {"a": "extra", "host": "x"}).scope_on(host).values
    assert [values[name] for name in ("a", "b", "c", "host")] == ["extra", "host", "play", "node01"]


def test_a_variable_uses_those_above_it() -> None:
    play = _play(
        "vars: {a: '${x}/1', b: '${a}/2', c: '$${a}', d: '${fact.isa}'}\nsteps: [sh: id]\n"
    )
    scope = PlayScope(play, {"x": "${y}"}).scope_on(Host("node01"))
    assert [scope.values[name] for name in "abc"] == ["${y}/1", "${y}/1/2", "${a}"]
    assert interpolate_text("${d}", scope) is None


def test_on_is_a_key_and_not_true() -> None:
    play = _play("steps:\n  - sh: id\n    on: node01\n    sudo: no\n")
    assert (play.steps[0].on, play.steps[0].sudo) == ("node01", False)


def test_null_is_the_default_of_a_key() -> None:
    play = _play("name: ~\nsudo:\nhosts: null\nsteps:\n  - {sh: id, name: ~, retries: , on: ~}\n")
    assert (play.name, play.hosts, play.steps[0].sudo) == ("", "", False)
    assert (play.steps[0].name, play.steps[0].on) == ("", "")


def test_a_folded_name_is_one_line() -> None:
    assert _play("steps:\n  - sh: id\n    name: >\n      a b\n").steps[0].name == "a b"


def test_anchors_and_merges_are_followed() -> None:
    play = _play("steps:\n  - &a {sh: id, retries: 3}\n  - {<<: *a, retries: 4}\n  - *a\n")
    assert [step.retries for step in play.steps] == [3, 4, 3]
    assert play.steps[2].place == Place("play.yaml", 2, 9)


# --- loops ---------------------------------------------------------------------------------------


def test_a_step_with_a_loop_is_one_step_for_each_item() -> None:
    play = _play(
        "vars: {first: x}\nsteps:\n  - sh: id\n"
        "  - {sh: 'echo ${item.name}', name: say, loop: [{name: '${first}'}, {name: 'b\\n c'}]}\n"
        "  - {sh: 'echo ${item}', loop: [1, yes]}\nhandlers: {h: [{sh: id, loop: [z]}]}\n"
    )
    assert [step.number for step in play.all_steps] == [1, 2, 3, 4, 5, 6]
    titles = ["sh", "say (name=${first})", "say (name=b\\n c)", "sh (1)", "sh (yes)", "h: sh (z)"]
    assert [step.title for step in play.all_steps] == titles
    scope = PlayScope(play, {})
    found = [dict(scope.scope_on(Host("n"), step.item).values) for step in play.all_steps]
    assert [values.get("item.name") for values in found[:4]] == [None, "x", "b\\n c", None]
    assert [values.get("item") for values in found] == [None, None, None, "1", "yes", "z"]
