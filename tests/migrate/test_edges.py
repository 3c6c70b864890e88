"""Files that are odd."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipexctl.local.bounded_read import LIMIT
from ipexctl.migrate.code.file_kinds import kind_of, read_file
from ipexctl.migrate.migrate import migrate, migration_tables
from ipexctl.user_code.shell_words import split_commands
from tests.cli import ipexctl

CCL = "import torch.distributed as dist\ndist.init_process_group('ccl')\n"
SKIPPED = {
    "a.py": (b"print 'ccl'\n", "line 1: Python 3.", "cannot read it: Missing parentheses"),
    "b.py": (b"def f(:\n", "line 1: Python 3.", "cannot read it"),
    "f.py": (b"x = '\0'\n", "not a text file", ""),
    "i.yaml": (b"distributed_type: [1\n", "Accelerate config:2:1: ", ""),
    "j.sh": (b"# " + b"x" * LIMIT, "larger than 4 MiB", ""),
    "k.txt": (b"one thing; and another\n", "not a kind of file that migrate reads", ""),
}


@pytest.mark.parametrize("name", SKIPPED)
def test_what_cannot_be_read_is_said_with_the_reason_and_is_no_finding(
    name: str, tmp_path: Path
) -> None:
    data, *why = SKIPPED[name]
    (tmp_path / name).write_bytes(data)
    done = ipexctl("migrate", name, cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    assert f"{name}: not read: " in done.stdout
    assert all(part in done.stdout for part in why)


ENCODINGS = {
    "the mark of UTF-8": ("a.py", b"\xef\xbb\xbf" + CCL.encode()),
    "line ends of Windows": ("a.py", CCL.replace("\n", "\r\n").encode()),
    "an encoding": ("a.py", b"# -*- coding: latin-1 -*-\n# \xe9t\xe9\n" + CCL.encode()),
    "no end of the last line": ("a.py", CCL.rstrip().encode()),
    "a form feed": ("a.py", b"x = 1\n\x0c\n" + CCL.encode()),
    "wide letters before it": ("a.py", f"'«é𝒳»'; {CCL}".encode()),
    "bytes of a shell script": ("a.sh", b"# \xe9\xff\npython x.py --do_train --ddp_backend ccl\n"),
    "shell of Windows": (
        "a.sh", b"python x.py \\\r\n --do_train \\\r\n --ddp_backend ccl \\\r\n --bf16\r\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "data"), ENCODINGS.values(), ids=ENCODINGS)
def test_encodings_and_line_ends_are_read(name: str, data: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    done = ipexctl("migrate", name, "--json", cwd=tmp_path)
    found = json.loads(done.stdout)
    (one,) = found["findings"]
    assert (done.returncode, found["schema_version"], one["file"]) == (1, 1, name)
    assert one["rule"] and one["since"] and one["use"]
    ends = data.replace(b"\r\n", b"\n").replace(b"\x0c\n", b"\n")
    assert one["line"] == ends[: ends.index(b"ccl")].count(b"\n") + 1
    assert path.read_bytes() == data and os.listdir(tmp_path) == [name]


def test_links_and_other_peoples_folders_are_left_alone(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    for folder in (outside, inside / "env", inside / ".git", inside / "node_modules"):
        folder.mkdir(parents=True)
        (folder / "a.py").write_text(CCL)
    (inside / "env/pyvenv.cfg").write_text("")
    (inside / "link.py").symlink_to(outside / "a.py")
    (inside / "folder").symlink_to(outside)
    (inside / "own").mkdir()
    (inside / "own/a.py").write_text(CCL)
    done = migrate([str(inside)])
    assert [file.path for file in done.files] == [str(inside / "own/a.py")]
    assert "symbolic link" in ipexctl("migrate", "link.py", cwd=inside).stdout


def test_an_empty_folder_has_nothing(tmp_path: Path) -> None:
    done = ipexctl("migrate", "--json", ".", cwd=tmp_path)
    document = json.loads(done.stdout)
    assert (done.returncode, document["findings"], document["commands"]) == (0, [], [])
    assert "0 files" in ipexctl("migrate", ".", cwd=tmp_path).stdout


def unknown(path: str) -> None:
    """No script is known."""


PYTHON = {
    "import torch, intel_extension_for_pytorch as ipex\n": ["ipex-import"],
    "try:\n    import intel_extension_for_pytorch as ipex\nexcept ImportError:\n    pass\n": [
        "ipex-import"
    ],
    "def f():\n    import torch_ccl\n": ["ccl-import-old"],
    "init_process_group('ccl' if x else 'gloo')\n": [],
    "init_process_group('c' 'cl')\n": ["backend-ccl"],
    "init_process_group('nccl')\nadd_argument('--loss', default='ccl')\n": [],
    "from transformers import TrainingArguments as T\nT('o', use_ipex=True)\n": ["use-ipex"],
    "TrainingArguments(no_cuda=True)  # somebody else's\n": [],
    "import torch\ntorch.cpu.amp.autocast(True)\n": ["cpu-autocast"],
}


@pytest.mark.parametrize("text", PYTHON)
def test_what_is_found_in_python(text: str) -> None:
    reading = read_file("python", text, migration_tables(), unknown)
    assert [f.rule.id for f in reading.findings] == PYTHON[text]


SHELL = {
    "python x.py --no_cuda\n": [],  # whose option it is, nothing says
    "python x.py --no_cuda --do_train\n": ["no-cuda"],
    "python x.py --use_ipex\n": ["use-ipex"],
    "export CCL_WORKER_COUNT=1 A=2\n": ["ccl-variable"],
    "if x; then export CCL_WORKER_COUNT=1; fi\n": ["ccl-variable"],
    "CCL_WORKER_COUNT=1 mpirun -n 2 python x.py\n": ["ccl-variable"],
    "echo 'export CCL_WORKER_COUNT=1'\n": [],
    "# export CCL_WORKER_COUNT=1\n": [],
    "echo python x.py --do_train --no_cuda\n": [],
}


@pytest.mark.parametrize("text", SHELL)
def test_what_is_found_in_a_shell_line(text: str) -> None:
    reading = read_file("shell", text, migration_tables(), unknown)
    assert [f.rule.id for f in reading.findings] == SHELL[text]


def test_the_scripts_own_options_are_its_own(tmp_path: Path) -> None:
    """The script beside the shell file defines --use_ipex and --no_cuda."""
    own = "import argparse\np = argparse.ArgumentParser()\n"
    own += "p.add_argument('--use_ipex')\np.add_argument('--no-cuda')\n"
    (tmp_path / "x.py").write_text(own)
    (tmp_path / "run.sh").write_text("python x.py --use_ipex 1 --no-cuda --do_train\n")
    assert ipexctl("migrate", "run.sh", cwd=tmp_path).returncode == 0


def test_a_config_with_a_key_that_cannot_hold_is_not_converted(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("distributed_type: MULTI_CPU\nno_such_key: 1\n")
    done = ipexctl("migrate", "c.yaml", cwd=tmp_path)
    assert re.match(r"c.yaml:1: not converted: .*:2:14: unknown key no_such_key", done.stdout)
    (tmp_path / "c.yaml").write_text("num_processes: 2\nnum_processes: 3\nmpirun_config: {}\n")
    assert "duplicate key" in ipexctl("migrate", "c.yaml", cwd=tmp_path).stdout


def test_yaml_of_other_programs_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("kind: Job\nspec: [\n")
    done = ipexctl("migrate", "job.yaml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "nothing discontinued found in 1 file\n")


NAMES = {
    "a.py": "python", "x/run.slurm": "shell", "requirements-dev.txt": "requirements",
    "c.yml": "yaml", "n.ipynb": "", "m.ckpt": "", "a.txt": "", "start": "",
}  # fmt: skip


def test_the_kind_of_a_file_comes_from_its_name_else_from_its_first_line() -> None:
    assert {name: kind_of(name) for name in NAMES} == NAMES
    assert kind_of("start", "#!/usr/bin/env bash") == "shell"
    assert kind_of("start", "#!/usr/bin/python3 -u") == "python"
    assert kind_of("start.txt", "#!/bin/sh") == ""


@given(st.text(alphabet="ab\n\\'\"$(){}`;|&#<> \t\r-=", max_size=60))
def test_words_of_any_shell_text_are_where_they_say(text: str) -> None:
    for words in split_commands(text):
        assert all(text[w.start : w.end] == w.raw != "" for w in words)
        assert all(a.end <= b.start for a, b in zip(words, words[1:], strict=False))


@given(st.sampled_from(["python", "shell", "yaml", "requirements"]), st.text())
def test_any_text_is_read_without_a_failure(kind: str, text: str) -> None:
    read_file(kind, text, migration_tables(), unknown, ("c.yaml", "SCRIPT"))
