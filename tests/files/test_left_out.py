"""Files that are here and not on the hosts: which rule leaves them out, and what brings them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from ipexctl.errors import InputError
from ipexctl.project import project_folder
from ipexctl.project.files import project_files
from ipexctl.project.files.project_files import MAX_BYTES, MAX_DATA, Ignore, ignored_data
from ipexctl.project.project_folder import left_out
from ipexctl.project.send_agreed import answer_no
from ipexctl.project.send_project import (
    Project,
    check_sent,
    left_out_file,
    project_of,
    read_project,
)
from tests.files.test_sync import NOBODY, fill, sent, taken

WAY = "printf '%s\\n' '!/{}' >> {{top}}/.ipexctlignore   # then run the same command again"
LEFT_OUT = {
    "by Git": (
        {".gitignore": "# mine\n\nscratch/\n"}, "scratch/try.py",
        "left out by scratch/ in .gitignore:3",
        WAY.format("scratch/"),
    ),
    "by Git further down": (
        {"a/.gitignore": "*.py"}, "a/b/try.py",
        "left out by *.py in a/.gitignore:1",
        WAY.format("a/b/try.py"),
    ),
    "by Git for this clone": (
        {".git/info/exclude": "try.py"}, "try.py",
        "left out by try.py in {top}/.git/info/exclude:1",
        WAY.format("try.py"),
    ),
    "by us": (
        {".ipexctlignore": "try.*\n"}, "try.py",
        "left out by try.* in .ipexctlignore:1", "remove that line, or add !try.py below it",
    ),
    "by us, with its folder": (
        {".ipexctlignore": "scratch\n"}, "scratch/try.py",
        "left out by scratch in .ipexctlignore:1", "remove that line",
    ),
    "as a secret": (
        {}, ".env.py", ".env.py may contain secrets: it is never sent",
        "give it another name, or another place",
    ),
    "as an environment": (
        {"env/pyvenv.cfg": ""}, "env/bin/try.py",
        "env/ is a Python environment, which is never sent", "put it elsewhere",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("files", "script", "why", "hint"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_a_script_that_stays_here_is_refused_with_the_rule_that_keeps_it(
    tmp_path, files, script, why, hint
) -> None:
    fill(tmp_path, {**files, script: "", "other/x": ""})
    project = Project(tmp_path, "other", git=True)
    with pytest.raises(InputError) as e:
        check_sent(read_project(project, answer_no, NOBODY), f"../{script}", NOBODY)
    assert (e.value.slug, f"../{script}" in e.value.what) == ("script-left-out", True)
    assert (e.value.why, e.value.hint) == (why.format(top=tmp_path), hint.format(top=tmp_path))
    if "!" in hint:
        with open(tmp_path / ".ipexctlignore", "a") as file:
            file.write(re.findall(r"![^' ]+", hint)[0] + "\n")
        check_sent(read_project(project, answer_no, NOBODY), f"../{script}", NOBODY)


WORK = "/home/ann/.ipexctl/runs/r1/work"
NO_FILE = "FileNotFoundError: [Errno 2] No such file or directory: {}"
NO_MODULE = "ModuleNotFoundError: No module named {}"
PRINTF = "printf "  # a command to paste
# what the rank said; the advice ("": nothing is known of it); what comes once it was followed
NOT_FOUND = {
    "a folder that a rule leaves out": (
        NO_FILE.format("'../conf/a.yaml'"), PRINTF, ["conf/a.yaml", "conf/x/b.yaml"],
    ),
    "from the script's own place": (
        NO_FILE.format(f"'{WORK}/conf/a.yaml'"), PRINTF, ["conf/a.yaml", "conf/x/b.yaml"],
    ),
    "the folder itself": (
        NO_FILE.format(f"'{WORK}/conf'"), PRINTF, ["conf/a.yaml", "conf/x/b.yaml"],
    ),
    "Hydra's": (
        f"Config error.\nCheck that the config directory '{WORK}/conf' exists and readable",
        PRINTF, ["conf/a.yaml", "conf/x/b.yaml"],
    ),
    "h5py's": (
        "FileNotFoundError: [Errno 2] Unable to synchronously open file (unable to open file: "
        "name = '../out/a.h5', errno = 2, error message = 'No such file or directory')",
        PRINTF, ["out/a.h5"],
    ),
    "a model's": (
        "OSError: Error no file named model.safetensors, or pytorch_model.bin, found in directory "
        "../tiny.",
        PRINTF, ["tiny/model.safetensors"],
    ),
    "a model's, from the top of the disk": (
        "OSError: Error no file named pytorch_model.bin, model.safetensors, tf_model.h5, "
        f"model.ckpt.index or flax_model.msgpack found in directory {WORK}/tiny but there is a",
        PRINTF, ["tiny/model.safetensors"],
    ),
    "a checkpoint": (
        "ValueError: Can't find a valid checkpoint at ../ck/checkpoint-5",
        PRINTF, ["ck/checkpoint-5/a.pt"],
    ),
    "with those beside it": (
        NO_FILE.format("'../set/a.pt'"), PRINTF, ["set/a.pt", "set/b [1]*.pt", "set/c\\.pt"],
    ),
    "a large folder": (NO_FILE.format("'../big/b.pt'"), PRINTF, ["big/b.pt"]),
    "a large file": (
        NO_FILE.format("'../big/a.bin'"),
        "ipexctl data push {top}/big --as big, then ipexctl run --data big ... with "
        "$IPEXCTL_DATA_BIG as its path", [],
    ),
    "a large file at the top": (
        NO_FILE.format("'../a.ckpt'"),
        "move it into a folder DIR of its own: ipexctl data push DIR", [],
    ),
    "a module of a package that a rule leaves out": (
        NO_MODULE.format("'lib'"), PRINTF, ["lib/__init__.py", "lib/blocks.py"],
    ),
    "a package without __init__.py": (
        NO_MODULE.format("'plain.part'"), PRINTF, ["plain/a.py", "plain/part/b.py"],
    ),
    "a module beside the script": (NO_MODULE.format("'own'"), PRINTF, ["sub/own.py"]),
    "a module below src": (
        NO_MODULE.format("'mine.lib.x'"), PRINTF, ["src/mine/lib/x.py", "src/mine/lib/y.py"],
    ),
    "a module of python -m": (
        "python3: No module named lib.blocks", PRINTF, ["lib/__init__.py", "lib/blocks.py"],
    ),
    "a folder of data that is called like a module": (NO_MODULE.format("'big'"), "", []),
    "a module of somebody else's": (NO_MODULE.format("'yaml'"), "", []),
    "a secret": (NO_FILE.format("'../.env'"), "give it another name", []),
    "one that was sent": (NO_FILE.format("'../sub/x'"), "", []),
    "one that is not here": (NO_FILE.format("'../conf/other'"), "", []),
    "one of the host": (NO_FILE.format("'/etc/hostname'"), "", []),
    "none": ("RuntimeError: no words", "", []),
}  # fmt: skip


@pytest.mark.parametrize(("said", "advice", "comes"), NOT_FOUND.values(), ids=NOT_FOUND)
def test_a_file_that_ranks_do_not_find_as_it_stays_here(tmp_path, said, advice, comes) -> None:
    names = ("conf/a.yaml", "conf/x/b.yaml", "out/a.h5", "sub/x", "big/b.pt", ".env")
    names += ("set/a.pt", "set/b [1]*.pt", "set/c\\.pt")
    names += ("tiny/config.json", "tiny/model.safetensors", "ck/checkpoint-5/a.pt")
    names += ("lib/__init__.py", "lib/blocks.py", "plain/a.py", "plain/part/b.py", "sub/own.py")
    names += ("src/mine/__init__.py", "src/mine/lib/x.py", "src/mine/lib/y.py", "pyproject.toml")
    fill(tmp_path, dict.fromkeys(names, ""))
    rules = "conf/ *.h5 big/ *.ckpt set/*.pt *.safetensors ck/ lib/ plain/ own.py"
    fill(tmp_path, {".gitignore": rules.replace(" ", "\n")})
    for name in ("big/a.bin", "a.ckpt"):
        with open(tmp_path / name, "wb") as file:
            file.truncate(MAX_BYTES + 1)
    before = set(sent(tmp_path))
    snapshot = taken(tmp_path, cwd="sub")
    found = left_out_file(snapshot, f"{WORK}/sub", said.splitlines(), NOBODY)
    assert (found is None) == (advice == "")
    if found:
        assert found.fix.startswith(advice.format(top=tmp_path)), found
    if found and advice == PRINTF:
        subprocess.run(["bash", "-c", found.fix], check=True)
    assert sorted(set(sent(tmp_path)) - before - {".ipexctlignore"}) == comes


def test_a_file_above_the_folder_that_is_sent(tmp_path) -> None:
    fill(tmp_path, {"conf/a.yaml": "", "sub/train.py": ""})
    lines = [NO_FILE.format(f"'{WORK}/../conf/a.yaml'")]
    found = left_out_file(taken(tmp_path / "sub"), WORK, lines, NOBODY)
    assert found and found.path == f"{tmp_path}/conf/a.yaml"
    assert found.fix.startswith(f"git init {tmp_path}   #")
    assert project_of(tmp_path / "sub", tmp_path).folder == tmp_path / "sub"
    (tmp_path / ".git").mkdir()
    assert project_of(tmp_path / "sub", tmp_path).folder == tmp_path


def test_a_file_beside_where_the_command_was_typed(tmp_path, monkeypatch) -> None:
    fill(tmp_path, {"conf/a.yaml": "", "sub/train.py": ""})
    lines = [NO_FILE.format("'conf/a.yaml'")]
    assert left_out_file(taken(tmp_path / "sub"), WORK, lines, NOBODY) is None
    monkeypatch.chdir(tmp_path)
    found = left_out_file(taken(tmp_path / "sub"), WORK, lines, NOBODY)
    assert found and (found.path, found.fix.partition("   #")[0]) == (
        f"{tmp_path}/conf/a.yaml", f"git init {tmp_path}",
    )  # fmt: skip


# --- data that Git's rules leave out -------------------------------------------------------------

NANOGPT = {
    ".gitignore": ".DS_Store\n__pycache__\n*.bin\n*.pkl\n*.pt\ninput.txt\nenv/\nout*/\n.env\n",
    "train.py": "", "model.py": "", "data/shakespeare_char/prepare.py": "",
}  # fmt: skip
ITS_DATA = [
    f"data/shakespeare_char/{name}" for name in ("input.txt", "meta.pkl", "train.bin", "val.bin")
]


def nanogpt(top: Path) -> Path:
    fill(top, {**NANOGPT, **dict.fromkeys(ITS_DATA, "1")})
    fill(top, dict.fromkeys((".DS_Store", "__pycache__/a.pyc", "env/pyvenv.cfg", "env/a.bin"), "1"))
    return fill(top, {"out-shakespeare-char/ckpt.pt": "1" * 1000, "out/x.bin": "1", ".env": "1"})


def test_small_data_beside_the_script_goes_although_git_ignores_it(tmp_path) -> None:
    snapshot = taken(nanogpt(tmp_path))
    files = [f.path for f in snapshot.bundle.tree.files]
    assert sorted(files) == sorted([*NANOGPT, *ITS_DATA])
    assert snapshot.ignored == 4
    assert sorted(snapshot.left) == ["out-shakespeare-char/ckpt.pt", "out/x.bin"]


def test_what_is_left_out_is_said_with_the_command_that_sends_it(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(nanogpt(tmp_path))
    secret, note = taken(tmp_path).notes
    assert "2 files (1.0 kB): out" in note
    subprocess.run(["sh", "-c", note.partition("; to send all: ")[2]], check=True)
    snapshot = taken(tmp_path)
    assert {"out-shakespeare-char/ckpt.pt", "out/x.bin"} <= {
        f.path for f in snapshot.bundle.tree.files
    }
    assert snapshot.notes == (secret,) and secret.endswith(": .env")
    assert taken(fill(tmp_path / "p", {"a.py": ""})).notes == ()


def test_what_our_own_file_leaves_out_stays_and_is_not_mentioned(tmp_path) -> None:
    fill(nanogpt(tmp_path), {".ipexctlignore": "*.pt\n*.bin\nout/\n.env\n"})
    fill(tmp_path, {"out-2/.ipexctlignore": "*\n", "out-2/x": ""})
    snapshot = taken(tmp_path)
    assert (snapshot.ignored, snapshot.left, snapshot.notes) == (2, (), ())


@pytest.mark.parametrize(
    ("path", "goes"),
    [
        ("data/train.bin", True),
        ("data/deep/er/train-images-idx3-ubyte", True),
        ("data/TRAIN.NPY", True),
        ("train.npz", True),
        ("jobs/tokens.bin", True),
        ("data/labels.csv", True),
        ("data/train_tokens.txt", True),
        ("notes.txt", False),  # text at the top is often about the project, or a key
        ("data/config.yaml", False),
        ("gcp.json", False),
        ("data/gcp.json", False),
        ("token.pickle", False),
        ("data/hf_token.txt", False),
        ("data/API-KEY.txt", False),
        ("keys/a.bin", False),
        ("data/secrets.csv", False),
        ("my_passwords.csv", False),
        ("data/id_rsa.bin", False),
        ("data/.hidden/a.bin", False),
        ("checkpoint-500/pytorch_model.bin", False),
        ("outputs/2026/a.npy", False),
        ("out-x/a.npy", False),
        ("wandb/run/a.gz", False),
        ("build/a.bin", False),
        ("model.pt", False),
        ("run.log", False),
    ],
)
def test_which_ignored_files_are_data(path, goes) -> None:
    assert (path in ignored_data([(path, 1)], [""])) is goes


def test_the_docs_name_what_is_data_and_what_is_not() -> None:
    text = (Path(__file__).parents[2] / "docs/run-environment.md").read_text("utf-8")
    names = (*project_files.DATA, *project_files.TEXT, *project_files.MADE)
    assert [name for name in names if f"`{name}`" not in text] == []


def test_data_is_below_the_script_or_where_ranks_start_and_not_large() -> None:
    found = [("a/x.bin", 1), ("b/x.bin", 1), ("c/x.bin", 1), ("runs/7/x.bin", 1)]
    assert set(ignored_data(found, ["a", "b"])) == {"a/x.bin", "b/x.bin"}
    assert set(ignored_data(found, ["runs/7"])) == {"runs/7/x.bin"}
    assert set(ignored_data([("a.bin", MAX_DATA), ("b.bin", MAX_DATA + 1)], [""])) == {"a.bin"}


def test_data_that_is_too_much_is_warned_of_with_the_smallest_first(tmp_path) -> None:
    fill(tmp_path, {".gitignore": "*.pkl\n", "train.py": "", "data/meta.pkl": "1"})
    for name in ("a", "b", "c"):
        with open(tmp_path / "data" / f"{name}.pkl", "wb") as file:
            file.truncate(MAX_BYTES // 2 - 1000)
    snapshot = taken(tmp_path)
    assert (snapshot.ignored, len(snapshot.withheld)) == (0, 4)
    assert snapshot.notes[0].startswith("WARNING: ") and "data/meta.pkl" in snapshot.notes[0]


def test_a_link_that_leads_out_is_the_cause_of_what_is_missing_below_it(tmp_path) -> None:
    fill(tmp_path / "elsewhere" / "set", {"train.bin": "1"})
    project = fill(tmp_path / "p", {".gitignore": "*.bin\n", "train.py": "", "data/a": ""})
    os.symlink(tmp_path / "elsewhere" / "set", project / "data" / "set")
    why, fix = left_out(project, "data/set/train.bin", Ignore())
    assert ("data/set" in why, "data push" in fix) == (True, True)


@pytest.mark.parametrize("rule", ["data/", "*.jpg"])
def test_a_large_ignored_folder_is_not_looked_through(tmp_path, monkeypatch, rule) -> None:
    monkeypatch.setattr(project_folder, "SCANNED", 20)
    monkeypatch.setattr(project_folder, "SCANNED_ALL", 50)
    images = {f"data/class{i // 40}/{i}.jpg": "" for i in range(1000)}
    fill(tmp_path, {".gitignore": f"{rule}\n*.bin\n", "a/vocab.bin": "", "train.py": "", **images})
    looked, scandir = [], os.scandir

    def counted(path: str):
        looked.append(path)
        return scandir(path)

    monkeypatch.setattr(project_folder.os, "scandir", counted)
    snapshot = taken(tmp_path)
    assert len(looked) < 40
    assert len(snapshot.left) < 50
    assert "data/" in snapshot.notes[0].partition(":")[2]
    assert ("a/vocab.bin" in [f.path for f in snapshot.bundle.tree.files]) is (rule == "data/")
