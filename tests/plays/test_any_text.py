"""Whatever a play is, it is read or refused with a place; never with a traceback."""

import json
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipexctl.errors import InputError
from ipexctl.inventory.inventory import Host, Inventory
from ipexctl.play.play import validate_play
from ipexctl.play.play_hosts import of_inventory
from ipexctl.play.play_scope import PlayScope
from ipexctl.play.steps import all_steps
from ipexctl.play.text.play_reader import read_play
from ipexctl.play.text.play_values import Play, PlayStep
from ipexctl.play.text.step_schema import step_arguments

PLAY_KEYS, STEP_KEYS = step_arguments(Play), step_arguments(PlayStep)
HOSTS = Inventory((Host("node01"),), "hosts")
WORDS = (
    *PLAY_KEYS, *STEP_KEYS, *all_steps(), "path", "content", "src", "dest", "cmd", "line", "isa",
    "min", "not", "memory", "<<", "&a", "*a", "*b", "${lr}", "${fact.isa}", "$${x}", "${", "}",
    "{", "[", "]", ": ", ", ", "- ", "\n", "\n  ", "\n    ", "\t", "'", '"', "|\n", ">-\n", "#",
    "!!str ", "!x ", "? ", "---", "...", "%", "@", "`", "~", "null", "yes", "0644", "1e9", "90s",
    "\0", "\x85", "\u2028", "\ufeff", "\ud800", "é", "\U0001f600", "\\u0000", "\\ud800",
    "<<EOF\n", "$((", "$(",
)  # fmt: skip
KINDS = st.sampled_from(sorted(all_steps()))
BESIDE = st.sampled_from(list(STEP_KEYS))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(WORDS) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=3)
    ),
    max_leaves=8,
)


def _read(text: str) -> None:
    try:
        play = read_play(text, "play.yaml", all_steps())
        validate_play(play, of_inventory(play, HOSTS, HOSTS), PlayScope(play, {"lr": "1"}))
    except InputError as e:
        placed = re.match(r"play\.yaml(:[0-9]+:[0-9]+: | is empty| is larger)", e.what)
        assert placed, e.what


@settings(max_examples=250, deadline=2000)
@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=3), max_size=20).map("".join))
def test_any_text(text: str) -> None:
    _read(text)


@settings(max_examples=250, deadline=2000)
@given(
    st.lists(st.tuples(KINDS, VALUES, BESIDE, VALUES), max_size=3),
    st.dictionaries(st.sampled_from([key for key in PLAY_KEYS if key != "steps"]), VALUES),
)
def test_any_values(steps: list[tuple[str, object, str, object]], keys: dict[str, object]) -> None:
    """JSON is YAML."""
    found = [{kind: value, key: other} for kind, value, key, other in steps]
    try:
        text = json.dumps({**keys, "steps": found}, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps({**keys, "steps": found})
    _read(text)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "text",
    [
        "steps: [" + "sh: id, " * 60_000 + "]",
        "a: &a [x]\nsteps: [" + "*a, " * 190_000 + "]",
        "steps:\n- &a {sh: id}\n" + "- *a\n" * 60_000,
        "steps: [{sh: '" + "${lr} " * 100_000 + "'}]",
        "steps: [{sh: \"" + "$((" * 100_000 + "\"}]",
        "steps: [{sh: \"" + "<<a " * 100_000 + "\\n${lr}\"}]",
        "steps: [{sh: '" + "${nope" * 100_000 + "'}]",
        "vars: {" + ", ".join(f"v{n}: '${{lr}}'" for n in range(20_000)) + "}\nsteps: [sh: id]",
    ],
    ids=range(8),
)  # fmt: skip
def test_long_plays_take_seconds_and_not_minutes(text: str) -> None:
    began = time.process_time()  # others use this machine, too
    _read(text)
    assert time.process_time() - began < 20
