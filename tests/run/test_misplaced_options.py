"""ipexctl's options that stand after the script: the script gets them, and a note says so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ipexctl.base.typed_command import Typed
from ipexctl.local.run_options import RunOptions
from ipexctl.run.run_script import (
    describe_misplaced,
    move_options_first,
    move_refused_first,
    read_script,
)
from ipexctl.user_code.source_reader import read_source
from tests.refused import refused


def said_of(typed: Typed, args: list[str], own: frozenset[str] = frozenset()) -> str:
    return describe_misplaced(typed, move_options_first(typed, args, own))


OWN = "ipexctl's own options go before the script: ipexctl run"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["-n", "6"], f"-n 6 goes to a.py; {OWN} -x b -n 6 a.py"),
        (["--ppn=2", "x"], f"--ppn=2 goes to a.py; {OWN} -x b --ppn=2 a.py x"),
        (
            ["-np", "4", "-f", "my hosts", "--lr", "1"],
            f"-np 4 -f 'my hosts' go to a.py; {OWN} -x b -np 4 -f 'my hosts' a.py --lr 1",
        ),
        (["--queue"], f"--queue goes to a.py; {OWN} -x b --queue a.py"),
        (["--queue", "-n", "6", "x"], f"--queue -n 6 go to a.py; {OWN} -x b --queue -n 6 a.py x"),
        (["--queue=1"], ""),
        (["--lr", "1", "-n", "6"], ""),
        (["-n"], ""),
        (["-n", "--lr", "1"], ""),
        (["--", "-n", "6"], ""),
        ([], ""),
    ],
)
def test_options_right_after_the_script(args, said):
    assert said_of(Typed(("run", "-x", "b"), ("a.py", *args)), args) == said


@pytest.mark.parametrize("typed", ["-n", "-n=2"])
def test_an_option_that_was_given_before_the_script_is_the_scripts_after_it(typed):
    assert said_of(Typed(("run", typed, "2"), ("a.py", "-n", "6")), ["-n", "6"]) == ""


def test_after_two_dashes_they_are_meant_for_the_script():
    assert said_of(Typed(("run", "--"), ("a.py", "-n", "6")), ["-n", "6"]) == ""


@pytest.mark.parametrize(
    "text",
    [
        "p.add_argument('-n', '--num')\n",
        "@click.option('-n', default=1)\ndef main(n): ...\n",
        "def main(n: int = typer.Option(1, '-n')): ...\n",
    ],
)
def test_options_that_the_script_defines_are_its_own(text):
    own = read_source("a.py", text, main=True).options
    assert said_of(Typed(("run",), ("a.py", "-n", "6")), ["-n", "6"], own) == ""


def test_a_script_may_have_an_option_queue():
    assert said_of(Typed(("run",), ("a.py", "--queue")), ["--queue"], frozenset({"queue"})) == ""


ARGPARSE = "import argparse\np = argparse.ArgumentParser()\n"


@pytest.mark.parametrize(
    ("text", "before", "stops"),
    [
        ("print(1)\n", ("run",), True),
        (ARGPARSE + "p.add_argument('--lr')\n", ("run",), True),
        (ARGPARSE + "p.add_argument('-ppn')\n", ("run",), False),
        ("import sys\nprint(sys.argv)\n", ("run",), False),
        ("from sys import argv\nprint(argv)\n", ("run",), False),
        ("import fire\nfire.Fire(print)\n", ("run",), False),
        ("print(1)\n", ("run", "--"), False),
        ("print(1)\n", ("run", "-ppn", "2"), False),
        ("print(1)\n", (), False),  # called from a program
    ],
)
def test_options_after_a_script_that_does_not_read_them_stop_the_run(
    tmp_path, monkeypatch, text, before, stops
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text(text)
    args = ("-ppn", "1", "--lr", "2")
    options = RunOptions("a.py", args, typed=Typed(before, ("a.py", *args)))
    if not stops:
        read_script(options)
        return
    with refused("options-after-script") as e:
        read_script(options)
    assert e.value.hint.splitlines()[0] == "ipexctl run -ppn 1 a.py --lr 2"
    read_script(replace(options, force=True))


@pytest.mark.parametrize(
    ("before", "args", "refused", "retry"),
    [
        ("run", "--epochs 5 -n 2", "-n 2", "run -n 2 a.py --epochs 5"),
        ("run -x b", "-n 2 --timeout=5m -d --lr 1", "-n 2 --timeout=5m -d", "run -x b -n 2 "
         "--timeout=5m -d a.py --lr 1"),
        ("run", "--epochs 5 --epoch 3", "--epoch 3", "run a.py --epochs 5 --epoch 3"),
        ("run", "-n 2 --lr 1 -d", "-n 2 -d", "run a.py -n 2 --lr 1 -d"),  # not in one piece
        ("run", "--lr 1 -n", "-n", "run a.py --lr 1 -n"),
        ("run --", "--lr 1 -n 2", "-n 2", "run -- a.py --lr 1 -n 2"),
    ],
)  # fmt: skip
def test_options_of_ipexctl_that_the_script_refused_are_before_it_the_next_time(
    before, args, refused, retry
):
    typed = Typed(tuple(before.split()), ("a.py", *args.split()))
    lines = ["usage: a.py [-h]", f"a.py: error: unrecognized arguments: {refused}"]
    moved = move_refused_first(typed, lines)
    assert " ".join((*moved.options, *moved.script)) == retry
    assert move_refused_first(typed, ["failed"]) == typed
