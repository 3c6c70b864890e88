"""An option is a field: the command line, plays and ipexctl.toml are made from its declaration."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from ipexctl.api import Run
from ipexctl.base.option import Seconds, option, options_of, setting_types
from ipexctl.cli.options import declared_parameters, take_options
from ipexctl.local.run_options import RunOptions
from ipexctl.local.settings_file import setting_kinds
from ipexctl.play.text.step_schema import step_arguments
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.command.command_line_words import spell_for_click
from tests.cli import command_tree, ipexctl


@dataclass(frozen=True)
class Sample:
    files: tuple[str, ...] = option("FILES", "Files.", (), in_plays=True)
    fast: bool = option("-q --fast", "Hurry.", False, in_plays="Be quick.", in_settings=True)
    count: int | None = option("--count N", "A number.", None, least=1, in_settings=True)
    pause: Seconds = option("--pause TIME", "A break.", Seconds(5))
    env: dict[str, str] = option("--env NAME", "Variables.", {}, in_settings=True)
    place: str = option("--place DIR", "A folder.", "", is_path=True)
    added: int = 7


def test_a_command_has_a_parameter_for_each_option() -> None:
    found = {p.name: p for p in declared_parameters(Sample)}
    assert [*found] == ["files", "fast", "count", "pause", "env", "place"]
    assert {name: p.default for name, p in found.items()} == {
        "files": None, "fast": False, "count": None, "pause": 5, "env": None, "place": None,
    }  # fmt: skip
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in found.values())
    about = options_of(Sample)["fast"]
    assert (about.flags, about.metavar) == (("-q", "--fast"), None)
    assert options_of(Sample)["files"].flags == ()


def test_what_is_typed_becomes_the_value_and_the_rest_has_its_default() -> None:
    given: dict[str, Any] = dict.fromkeys(options_of(Sample)) | {"fast": True, "other": 1}
    given |= {"files": ["a", "b"], "place": Path("x"), "env": ["A"]}
    made = take_options(Sample, given, {"env": lambda names: dict.fromkeys(names, "1")})
    assert made == Sample(("a", "b"), fast=True, env={"A": "1"}, place="x")
    assert given == {"other": 1}, "the options are taken out"


def test_plays_and_settings_have_the_options_that_say_so() -> None:
    docs = {name: about.doc for name, about in step_arguments(Sample).items()}
    assert docs == {"files": "Files.", "fast": "Be quick."}
    assert setting_types(Sample) == {"fast": bool, "count": int, "env": dict}


def test_each_option_of_run_is_on_its_command_line_and_in_the_api() -> None:
    command = dict(command_tree())["run"]
    assert options_of(RunOptions).keys() <= {p.name for p in command.params}
    assert step_arguments(Run).keys() < options_of(RunOptions).keys()
    run = {key for key in setting_kinds() if key.startswith("run.")}
    assert run == {f"run.{name}" for name in setting_types(RunOptions)}


@pytest.mark.parametrize("name", [n for n, about in options_of(RunOptions).items() if about.flags])
def test_the_words_of_an_option_are_told_from_the_script(name: str) -> None:
    flag = options_of(RunOptions)[name].flags[-1]
    value = [] if RunOptions.__annotations__[name] == "bool" else ["none"]
    if name != "accelerate":  # its file is read
        assert spell_for_click(["run", flag, *value, "-np", "3", "t.py"])[-3:] == [
            "-n",
            "3",
            "t.py",
        ]


def test_a_variable_is_passed_openly_or_as_a_secret(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("")
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TOKEN": "x"}
    words = ("--env", "TOKEN=1", "--secret-env", "TOKEN")
    done = ipexctl("run", *words, "t.py", cwd=tmp_path, env=env)
    assert (done.slug, "TOKEN" in done.errors[0].what) == ("secret-also-in-env", True)
