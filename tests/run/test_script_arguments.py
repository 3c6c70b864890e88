"""A command line that the script's own parser would refuse is refused before ranks start, and
where the code leaves open what it accepts, nothing is said."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ipexctl.base.typed_command import Typed
from ipexctl.errors import InputError
from ipexctl.run.run_script import move_words_first
from ipexctl.run.script.check_arguments import refuse_misfit
from ipexctl.user_code.source_reader import read_source
from tests.cli import ipexctl as typed

ARGPARSE = """\
import argparse
def main():
    parser = argparse.ArgumentParser()
    group = parser.add_argument_group("training")
    parser.add_argument("data")
    group.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("-e", "--epochs", type=int, default=1)
    parser.add_argument("--kind", choices=["big", "small"])
    parser.add_argument("--shuffle", action="store_true")
    parser.add_argument("--sizes", type=int, nargs="*")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
if __name__ == "__main__":
    main()
"""
CLICK = """\
import click
@click.command()
@click.option("--lr", type=float, default=0.1)
@click.option("--shuffle/--no-shuffle", default=True)
@click.option("--out", required=True)
@click.argument("data")
def main(lr, shuffle, out, data):
    pass
if __name__ == "__main__":
    main()
"""
TYPER = """\
import typer
app = typer.Typer()
@app.command()
def main(data: str, lr: float = 0.1, shuffle: bool = True):
    pass
if __name__ == "__main__":
    app()
"""
TYPER_RUN = TYPER.replace("app = typer.Typer()\n@app.command()\n", "").replace(
    "    app()", "    typer.run(main)"
)
HF = """\
from dataclasses import dataclass, field
from transformers import HfArgumentParser
@dataclass
class Arguments:
    data: str = field(metadata={"help": "folder"})
    lr: float = 0.1
    shuffle: bool = True
    names: list[str] = field(default_factory=list)
parser = HfArgumentParser((Arguments,))
(args,) = parser.parse_args_into_dataclasses()
"""
HF_TRAINER = HF.replace("import HfArgumentParser", "import HfArgumentParser, TrainingArguments")
HF_TRAINER = HF_TRAINER.replace("((Arguments,))", "((Arguments, TrainingArguments))")

# script, its arguments, what is said, the script's part of the first line to paste
REFUSED = {
    "an option": (
        ARGPARSE, "d --out o --lrr 0.1", "train.py has no option --lrr; did you mean --lr?",
        "d --out o --lr 0.1",
    ),
    "with its value": (
        ARGPARSE, "d --out o --epoch_s=3",
        "train.py has no option --epoch_s; did you mean --epochs?",
        "d --out o --epochs=3",
    ),
    "unlike any": (
        ARGPARSE, "d --out o --zzz 3", "train.py has no option --zzz", "d --out o --zzz 3",
    ),
    "in full": (
        ARGPARSE, "d --out o --learning-rate 3",
        "train.py has no option --learning-rate; did you mean --lr?", "d --out o --lr 3",
    ),
    "by its initials": (
        ARGPARSE.replace('"--lr"', '"--learning_rate"'), "d --out o --lr=3",
        "train.py has no option --lr; did you mean --learning_rate?",
        "d --out o --learning_rate=3",
    ),
    "before what is missing": (
        ARGPARSE, "--lrr 3", "train.py has no option --lrr; did you mean --lr?", "--lr 3",
    ),
    "one argument too many": (
        ARGPARSE, "d e --out o", "train.py has no argument e", "d e --out o",
    ),
    "a required option": (ARGPARSE, "d", "train.py needs --out", "d --out OUT"),
    "a required argument": (ARGPARSE, "--out o", "train.py needs data", "--out o DATA"),
    "no number": (
        ARGPARSE, "d --out o --lr fast",
        "train.py: argument --lr: invalid float value: 'fast'", "d --out o --lr 0.1",
    ),
    "no choice": (
        ARGPARSE, "d --out o --kind huge", "train.py: argument --kind: invalid choice: 'huge'",
        "d --out o --kind big",
    ),
    "the default of a number": (
        ARGPARSE.replace("default=0.1", "default=2.5"), "d --out o --lr=fast",
        "train.py: argument --lr: invalid float value: 'fast'", "d --out o --lr=2.5",
    ),
    "a number in another spelling": (
        ARGPARSE, "d --out o --epochs 1e3",
        "train.py: argument -e/--epochs: invalid int value: '1e3'", "d --out o --epochs 1000",
    ),
    "no value": (
        ARGPARSE, "d --out o --epoc", "train.py: argument -e/--epochs: expected one argument",
        "d --out o --epoc 1",
    ),
    "no value before another option": (
        ARGPARSE, "d --kind --out o", "train.py: argument --kind: expected one argument",
        "d --kind big --out o",
    ),
    "a required number": (
        ARGPARSE.replace('"--out",', '"--out", type=int,'), "d", "train.py needs --out",
        "d --out 1",
    ),
    "click": (
        CLICK, "--out o d --lrr 1", "train.py has no option --lrr; did you mean --lr?",
        "--out o d --lr 1",
    ),
    "click, required": (CLICK, "d", "train.py needs --out", "d --out OUT"),
    "typer": (
        TYPER, "d --shufle", "train.py has no option --shufle; did you mean --shuffle?",
        "d --shuffle",
    ),
    "typer, required": (TYPER, "--lr 1", "train.py needs DATA", "--lr 1 DATA"),
    "typer.run": (
        TYPER_RUN, "d --lrr 1", "train.py has no option --lrr; did you mean --lr?", "d --lr 1",
    ),
    "HfArgumentParser": (
        HF, "--data d --lrr 1", "train.py has no option --lrr; did you mean --lr?",
        "--data d --lr 1",
    ),
    "HfArgumentParser, required": (HF, "--lr 1", "train.py needs --data", "--lr 1 --data DATA"),
    "beside the Trainer's own": (
        HF_TRAINER, "--bf16 --lr 1", "train.py needs --data", "--bf16 --lr 1 --data DATA",
    ),
}  # fmt: skip


def refuse(text: str, args: list[str]) -> InputError | None:
    try:
        refuse_misfit(
            [read_source("train.py", text, main=True)], args,
            Typed(("run", "-f", "my hosts", "-F", "cfg"), ("train.py", *args)), move_words_first,
        )  # fmt: skip
    except InputError as e:
        return e
    return None


@pytest.mark.parametrize(
    ("args", "first_line"),
    [
        # an option of run that the script does not have, even if the script has a similar one
        ("d --out o --timeout 10m", "run -f 'my hosts' -F cfg --timeout 10m train.py d --out o"),
        ("d --out o -n 3", "run -f 'my hosts' -F cfg -n 3 train.py d --out o"),
        ("d --out o --kind bigg", "run -f 'my hosts' -F cfg train.py d --out o --kind big"),
        ("d --out o --kind=smal", "run -f 'my hosts' -F cfg train.py d --out o --kind=small"),
    ],
)
def test_the_first_line_to_paste_says_what_was_meant(args: str, first_line: str) -> None:
    error = refuse(ARGPARSE, args.split())
    assert error and error.hint.partition("   # ")[0].splitlines()[0] == f"ipexctl {first_line}"


def test_a_required_argument_is_filled_with_a_choice_of_its_own() -> None:
    error = refuse(ARGPARSE.replace('"small"]', '"small"], required=True'), ["d", "--out", "o"])
    assert error and error.hint.splitlines()[0].endswith(
        "train.py d --out o --kind big   # --kind: big or small"
    )


@pytest.mark.parametrize(("text", "args", "what", "corrected"), REFUSED.values(), ids=REFUSED)
def test_what_the_script_would_refuse_is_one_sentence_and_a_line(text, args, what, corrected):
    error = refuse(text, args.split())
    assert error and error.what.startswith(what)
    lines = error.hint.splitlines()
    commands = [line.partition("   # ")[0] for line in lines if "ipexctl" in line]
    command = f"ipexctl run -f 'my hosts' -F cfg train.py {corrected}"
    is_template = corrected.endswith((" OUT", " DATA"))  # only the reader knows the value
    assert commands == (["# " * is_template + command] if corrected != args else [])
    assert "--force" not in error.hint, "the run would fail at once"


@pytest.mark.parametrize(
    ("args", "offered"),
    [
        ("d --out o --zzz 3", "# its options: --lr, --epochs, --kind, --shuffle, --sizes, --out"),
        ("d e --out o", "# its arguments: data"),
    ],
)
def test_a_word_unlike_any_is_not_dropped_from_the_line_to_paste(args: str, offered: str) -> None:
    error = refuse(ARGPARSE, args.split())
    assert error and error.hint.splitlines()[0] == offered


# what is accepted, and what only the run can know
ACCEPTED = {
    "all": (ARGPARSE, "d --lr -1 -e 3 --kind big --shuffle --sizes 1 2 --out=o"),
    "a number for some versions of Python": (ARGPARSE, "d --out o --lr -1e-3"),
    "an abbreviation": (ARGPARSE, "d --ep 3 --ou o"),
    "help": (ARGPARSE, "--help"),
    "click": (CLICK, "--no-shuffle --lr -1 --out o d"),
    "typer": (TYPER, "d --lr 3 --no-shuffle"),
    "Hf": (HF, "--data d --no_shuffle --names a b --lr 1"),
    "the Trainer's options": (HF_TRAINER, "--data d --bf16 --output_dir x"),
    "parse_known_args": (ARGPARSE.replace("parse_args", "parse_known_args"), "--lrr 1"),
    "subcommands": (
        ARGPARSE.replace("    args =", "    parser.add_subparsers()\n    args ="),
        "--lrr 1",
    ),
    "a loop": (
        ARGPARSE.replace(
            "    args =", "    for n in 'ab':\n        parser.add_argument('--' + n)\n    args ="
        ),
        "--a 1",
    ),
    "a loop over constants": (
        ARGPARSE.replace(
            "    args =", "    for n in x:\n        parser.add_argument('--a')\n    args ="
        ),
        "--lrr 1",
    ),
    "a parser that is handed on": (
        ARGPARSE.replace("    args =", "    add(parser)\n    args ="),
        "--a 1",
    ),
    "a parser of parents": (
        ARGPARSE.replace("ArgumentParser()", "ArgumentParser(parents=[p])"),
        "--a",
    ),
    "another prefix": (
        ARGPARSE.replace("ArgumentParser()", "ArgumentParser(prefix_chars='+')"),
        "--a",
    ),
    "words of its own": (ARGPARSE.replace("parse_args()", "parse_args(words)"), "--a"),
    "sys.argv": (
        ARGPARSE.replace("    args =", "    sys.argv.remove('--a')\n    args =").replace(
            "import argparse", "import argparse, sys"
        ),
        "--a",
    ),
    "an option under a condition": (
        ARGPARSE.replace("    args =", "    if x:\n        parser.add_argument('--a')\n    args ="),
        "d --out o --a 1",
    ),
    "a requirement under a condition": (
        ARGPARSE.replace(
            '    parser.add_argument("--out"', '    if x: parser.add_argument("--out"'
        ),
        "d",
    ),
    "two parsers": (
        ARGPARSE.replace("    group", "    other = argparse.ArgumentParser()\n    group"),
        "--a",
    ),
    "a parser that may not be used": (
        ARGPARSE.replace("    args =", "    if x:\n        return\n    args ="),
        "--a",
    ),
    "a group's own arguments": (ARGPARSE.replace('"--lr"', '"--rate"'), "d --out o --rate 1"),
    "unpacked options": (ARGPARSE.replace('"--out"', "*names"), "--a"),
    "an action of its own": (ARGPARSE.replace('"store_true"', "Mine"), "--a"),
    "several click commands": (
        CLICK.replace("def main", "def main", 1).replace(
            "if __name__", "@click.command()\ndef other():\n    pass\nif __name__"
        ),
        "--a",
    ),
    "click that ignores": (
        CLICK.replace(
            "click.command()", "click.command(context_settings={'ignore_unknown_options': True})"
        ),
        "--a",
    ),
    "no parser": ("print(1)\n", "--a"),
    "fire": ("import fire\nfire.Fire(main)\n", "--a"),
}


@pytest.mark.parametrize(("text", "args"), ACCEPTED.values(), ids=ACCEPTED)
def test_where_it_is_not_certain_nothing_is_said(text, args):
    assert refuse(text, args.split()) is None


@pytest.mark.parametrize(
    ("text", "args"),
    [(text, args) for text, args, *_ in REFUSED.values() if text in (ARGPARSE, CLICK, TYPER)],
)
def test_the_real_parser_refuses_the_same(tmp_path, text, args):
    """And accepts the corrected lines above, but for values that only the user knows."""
    (tmp_path / "train.py").write_text(text)
    run = [sys.executable, str(tmp_path / "train.py")]
    assert subprocess.run([*run, *shlex.split(args)], capture_output=True).returncode == 2


@pytest.mark.parametrize(
    ("text", "args"),
    [
        case
        for name, case in ACCEPTED.items()
        if name in ("all", "an abbreviation", "click", "typer")
    ],
)
def test_the_real_parser_accepts_the_same(tmp_path, text, args):
    (tmp_path / "train.py").write_text(text)
    run = [sys.executable, str(tmp_path / "train.py"), *shlex.split(args)]
    assert subprocess.run(run, capture_output=True).returncode == 0


def test_run_says_it_before_it_connects(tmp_path: Path):
    """Port 1 of this machine refuses every connection: no host was asked."""
    (tmp_path / "hosts").write_text("a address=127.0.0.1 port=1\n")
    (tmp_path / "train.py").write_text(ARGPARSE)
    done = typed("run", "-f", "hosts", "train.py", "d", "--out", "o", "--lrr", "1", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    said = done.stderr.splitlines()
    assert said[0].endswith("train.py has no option --lrr; did you mean --lr?")
    assert "  try: ipexctl run -f hosts train.py d --out o --lr 1" in said
    forced = typed(
        "run", "--force", "-f", "hosts", "train.py", "d", "--out", "o", "--lrr", "1", cwd=tmp_path
    )
    assert "no option" not in forced.stderr and forced.returncode == 4


def test_more_arguments_in_a_file_beside_the_script_are_left_to_it(tmp_path: Path):
    (tmp_path / "hosts").write_text("a address=127.0.0.1 port=1\n")
    (tmp_path / "train.py").write_text(HF)
    assert typed("run", "-f", "hosts", "train.py", cwd=tmp_path).returncode == 2
    (tmp_path / "train.args").write_text("--data d\n")
    assert typed("run", "-f", "hosts", "train.py", cwd=tmp_path).returncode == 4
    assert os.listdir(tmp_path)


def test_a_module_in_one_folder_of_the_project_is_named_with_it(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "trainer.py").write_text("print(1)\n")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "pkg").mkdir()
    refused = typed("run", "-n", "1", "-m", "trainer", cwd=tmp_path)
    assert refused.returncode == 2
    assert "there is no module trainer in" in refused.stderr
    assert "try: cd src && ipexctl run -n 1 -m trainer\n" in refused.stderr
    inside = typed("run", "--explain", "-n", "1", "-m", "trainer", cwd=tmp_path / "src")
    assert "there is no module" not in inside.stderr
    elsewhere = typed("run", "--explain", "-n", "1", "-m", "pkg", cwd=tmp_path)
    assert "there is no module" not in elsewhere.stderr
