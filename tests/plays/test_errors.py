"""All errors of the parser, whole, in errors.txt: a play, and what is said of it.

python -m tests.plays.test_errors writes the file anew; read the difference.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from ipexctl.errors import InputError, IpexctlError, printable_text
from ipexctl.inventory.inventory import Host, Inventory
from ipexctl.play.play import validate_play
from ipexctl.play.play_files import read_play_file
from ipexctl.play.play_hosts import of_inventory
from ipexctl.play.play_scope import PlayScope
from ipexctl.play.steps import all_steps
from ipexctl.play.text.play_reader import HABITS, read_play
from tests.plays.wrong_plays import FILES, TEXTS

GOLDEN = Path(__file__).parent / "errors.txt"
HEAD = "==== "
SAYS = "---- says"


def _error(path: str) -> str:
    try:
        play = read_play(*read_play_file(path), all_steps())
        hosts = Inventory((Host("node01", vars=(("site", "east"),)), Host("node02")), "hosts")
        validate_play(
            play, of_inventory(play, hosts, hosts), PlayScope(play, {}, hosts=hosts.hosts)
        )
    except InputError as e:
        return "\n".join(map(_said_of, (e, *e.others)))
    return "nothing is wrong"


def _said_of(e: IpexctlError) -> str:
    hint = "".join(f"\n  try: {line}" for line in e.hint.splitlines()[:12])
    return printable_text(e.what + (f"\n  why: {e.why}" if e.why else "") + hint)


CASES: dict[str, str | bytes] = {**TEXTS, **FILES}


def _said(name: str, folder: Path) -> str:
    here = Path.cwd()
    os.chdir(folder)
    try:
        content = CASES[name]
        if isinstance(content, bytes) and content.startswith(b"/"):
            return _error(content.decode())
        data = content if isinstance(content, bytes) else content.encode()
        Path("play.yaml").write_bytes(data)
        return _error("play.yaml")
    finally:
        os.chdir(here)


def _golden() -> dict[str, str]:
    parts = re.split(f"^{HEAD}", GOLDEN.read_text(), flags=re.MULTILINE)[1:]
    return {part.split("\n", 1)[0]: part.split(f"{SAYS}\n", 1)[1].rstrip("\n") for part in parts}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", CASES)
def test_what_is_said_of_a_wrong_play(name: str, tmp_path: Path) -> None:
    assert _said(name, tmp_path) == _golden()[name], "python -m tests.plays.test_errors"


def test_each_error_has_a_place_and_fits_a_screen() -> None:
    golden = _golden()
    assert golden.keys() == CASES.keys()
    for name, said in golden.items():
        first = said.splitlines()[0]
        assert said != "nothing is wrong", name
        assert name in FILES or re.match(r"play\.yaml:[0-9]+:[0-9]+: ", first), (name, first)
        assert len(first) < 200, name


@pytest.mark.parametrize("text", ["steps: [{{sh: id, {}: x}}]", "{}: x\nsteps: [sh: id]"])
def test_what_ansible_calls_otherwise_is_answered_with_our_word(text: str) -> None:
    for word in HABITS.keys() - all_steps().keys():
        with pytest.raises(InputError, match=f"unknown key '{word}'") as e:
            read_play(text.format(word), "play.yaml", all_steps())
        ours, nothing = HABITS[word], "nothing: "
        use = f"leave it out: {ours.removeprefix(nothing)}"
        assert e.value.hint == (use if nothing in ours else f"use {ours} instead of {word}")


def write(folder: Path) -> None:
    texts = []
    for name, content in CASES.items():
        shown = content if isinstance(content, str) and len(content) < 2000 else ""
        said = _said(name, folder)
        texts.append(f"{HEAD}{name}\n{printable_text(shown)}\n{SAYS}\n{said}\n")
    GOLDEN.write_text("\n".join(texts))


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as made:
        write(Path(made))
