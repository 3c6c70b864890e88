"""A misspelt word in a file is answered with the line that corrects it and repeats the command."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli import ipexctl
from tests.pastable import why_not_pastable

PLAY = "name: x\nsteps:\n  - %s: {name: curl}\n"
HOST = "node1.invalid address=127.0.0.1 %s=1\n"


@pytest.mark.parametrize(
    ("name", "text", "wrong", "right", "words"),
    [
        ("hosts", f"{HOST % 'slots'}{HOST % 'slot'}".replace("1.i", "2.i", 1), "slot", "slots",
         "run -f hosts -n 2 t.py"),
        ("my hosts", HOST % "prot", "prot", "port", "hosts -f 'my hosts'"),
        ("ipexctl.toml", 'hostfle = "hosts"\n', "hostfle", "hostfile", "config"),
        ("ipexctl.toml", "# restarts\n[run]\nrestart = 2\n", "restart", "restarts", "config"),
        ("a.yaml", PLAY % "packge", "packge", "package", "play a.yaml --check"),
        ("a.yaml", PLAY % "aptt", "aptt", "package", "play a.yaml --check"),
        ("a.yaml", PLAY % "apt", "apt", "package", "play a.yaml --check"),
        ("a.yaml", "setps:\n  - sh: hostname\n", "setps", "steps", "play a.yaml --check"),
    ],
)  # fmt: skip
def test_the_line_corrects_the_file(tmp_path: Path, name, text, wrong, right, words) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / "t.py").write_text("")
    env = {"PATH": "", "HOME": str(tmp_path)}
    typed = subprocess.run(
        ["bash", "-c", f"printf '%s\\n' {words}"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    done = ipexctl(*typed, cwd=tmp_path, env=env)
    error = done.errors[0]
    first = error.hint.splitlines()[0]
    assert why_not_pastable(first) == "", done.stderr
    correct, _, again = first.partition(" && ")
    assert again == f"ipexctl {words}"
    subprocess.run(["bash", "-c", correct], cwd=tmp_path, check=True)
    before, after = text.splitlines(), (tmp_path / name).read_text().splitlines()
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    ((old, new),) = changed
    assert new == old.replace(wrong, right, 1)
    assert ipexctl(*typed, cwd=tmp_path, env=env).slug != error.slug


def test_a_word_that_is_not_at_its_place_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("slot01 slot=2\n")  # the first `slot` is a part of the name
    done = ipexctl("hosts", "-f", "hosts", cwd=tmp_path, env={"PATH": "", "HOME": str(tmp_path)})
    assert [error.slug for error in done.errors] == ["unknown-host-key"]
    assert "sed" not in done.errors[0].hint
