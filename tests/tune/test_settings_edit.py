"""ipexctl.toml with a profile in it: the user's settings and comments stay."""

from __future__ import annotations

import pytest

from ipexctl.base import toml
from ipexctl.errors import InputError
from ipexctl.local.settings_file import parse_settings
from ipexctl.tune.settings_edit import edit_settings, new_settings_lines

HEAD = "# my hosts\nhostfile = 'hosts'  # all of them\n"
CASES = {
    "no file": "",
    "other settings": HEAD,
    "a run table": f"{HEAD}\n[run]\n# ranks\nppn = 2\n",
    "an env table": f"{HEAD}[run.env]\nOMP_NUM_THREADS = 1  # why\nMINE = 'x'\n\n[prune]\nruns = 5",
    "an inline table": f"{HEAD}[run]\nenv = {{OMP_NUM_THREADS = '1', MINE = 'x'}} # own\nppn = 2",
    "dotted keys": f"{HEAD}[run]\nenv.OMP_NUM_THREADS = '1'\nenv.MINE = 'x'\nppn = 2",
    "both tables": "[run]\nn = 4\n\n[run.env]\nOMP_NUM_THREADS = '1'\n\n# the end\n# of it",
}


@pytest.mark.parametrize("text", CASES.values(), ids=CASES)
def test_only_what_is_to_change_changes(text: str) -> None:
    made = edit_settings(
        text, {"OMP_NUM_THREADS": None, "B": "10"}, {"ppn": 4}, {"B": "ipexctl tune: 1.5x"}
    )
    before, after = toml.loads(text), toml.loads(made)
    env = {**before.get("run", {}).pop("env", {}), "B": "10"}
    env.pop("OMP_NUM_THREADS", None)
    assert after.get("run", {}).pop("env") == env
    assert after.pop("run") == {**before.pop("run", {}), "ppn": 4}
    assert after == before
    comments = [line for line in text.splitlines() if line.startswith("#") or "# all" in line]
    assert [line for line in comments if line not in made.splitlines()] == []
    parse_settings(made, "ipexctl.toml")


@pytest.mark.parametrize("text", CASES.values(), ids=CASES)
def test_a_second_time_changes_nothing(text: str) -> None:
    env, options = {"OMP_NUM_THREADS": "8"}, {"ppn": 4}
    once = edit_settings(text, env, options, {"ppn": "a"})
    assert edit_settings(once, env, options, {"ppn": "a"}) == once


def test_a_comment_of_an_earlier_tune_is_replaced_and_one_of_the_user_stays() -> None:
    inline = "[run]\nenv = { A = '1' }  # %s\n"
    again = edit_settings(
        inline % "A: ipexctl tune: 1.2x", {"A": "2"}, {}, {"A": "ipexctl tune: 3x"}
    )
    assert "3x" in again and "1.2x" not in again
    own = edit_settings(inline % "mine", {"A": "2"}, {}, {"A": "ipexctl tune: 3x"})
    assert own.endswith("# mine\n")


def test_a_value_that_needs_quoting_is_quoted() -> None:
    made = edit_settings("", {"LD_PRELOAD": '/a "b"\\c é'}, {}, {})
    assert toml.loads(made)["run"]["env"] == {"LD_PRELOAD": '/a "b"\\c é'}


@pytest.mark.parametrize("text", ["run = {ppn = 2}\n", "run.env.A = '1'\n"])
def test_a_file_of_another_form_is_not_touched(text: str) -> None:
    with pytest.raises(InputError) as refused:
        edit_settings(text, {"B": "1"}, {"ppn": 4}, {})
    assert refused.value.slug == "settings-not-editable"
    assert 'B = "1"' in refused.value.hint


def test_what_is_shown_can_be_read_as_settings() -> None:
    text = new_settings_lines({"A": "1", "B": None}, {"ppn": 2})
    assert {k: s.value for k, s in parse_settings(text, "x").items()} == {
        "run.ppn": 2, "run.env": {"A": "1"},
    }  # fmt: skip
