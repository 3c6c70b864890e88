"""Files that are here and not on the hosts: which rule leaves them out, and what brings them."""

from __future__ import annotations

import pytest

from ipexctl.core.run.project_files import MAX_BYTES
from ipexctl.errors import InputError
from ipexctl.verbs.run.send_project import (
    Project,
    always_no,
    check_sent,
    left_out_file,
    project_of,
    take,
)
from tests.files.test_sync import NOBODY, fill, sent, taken

LEFT_OUT = {
    "by Git": (
        {".gitignore": "# mine\n\nscratch/\n"}, "scratch/try.py",
        "left out by scratch/ in .gitignore:3",
        "add the line !scratch/try.py to {top}/.ipexctlignore, then run the same command again",
    ),
    "by Git further down": (
        {"a/.gitignore": "*.py"}, "a/b/try.py",
        "left out by *.py in a/.gitignore:1",
        "add the line !a/b/try.py to {top}/.ipexctlignore, then run the same command again",
    ),
    "by Git for this clone": (
        {".git/info/exclude": "try.py"}, "try.py",
        "left out by try.py in {top}/.git/info/exclude:1",
        "add the line !try.py to {top}/.ipexctlignore, then run the same command again",
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
        check_sent(take(project, always_no, NOBODY), f"../{script}", NOBODY)
    said = (e.value.what, e.value.why, e.value.hint)
    what = f"the script ../{script} is not sent to the hosts"
    assert said == (what, why.format(top=tmp_path), hint.format(top=tmp_path))
    if "!" in hint:
        with open(tmp_path / ".ipexctlignore", "a") as file:
            file.write(f"!{script}\n")
        check_sent(take(project, always_no, NOBODY), f"../{script}", NOBODY)


WORK = "/home/ann/.ipexctl/runs/r1/work"
NO_FILE = "FileNotFoundError: [Errno 2] No such file or directory: {}"
# what the rank said, and what brings the file back; "": nothing is known of it
NOT_FOUND = {
    "a folder that a rule leaves out": (NO_FILE.format("'../conf/a.yaml'"), "add the line !conf/"),
    "from the script's own place": (
        NO_FILE.format(f"'{WORK}/conf/a.yaml'"), "add the line !conf/",
    ),
    "the folder itself": (NO_FILE.format(f"'{WORK}/conf'"), "add the line !conf/"),
    "Hydra's": (
        f"Config error.\nCheck that the config directory '{WORK}/conf' exists and readable",
        "add the line !conf/",
    ),
    "h5py's": (
        "FileNotFoundError: [Errno 2] Unable to synchronously open file (unable to open file: "
        "name = '../a.h5', errno = 2, error message = 'No such file or directory')",
        "add the line !a.h5",
    ),
    "a large folder": (
        NO_FILE.format("'../big/b.bin'"), "add the line !big/b.bin",
    ),
    "a large file": (
        NO_FILE.format("'../big/a.bin'"),
        "ipexctl data push {top}/big --as big, then ipexctl run --data big ... with "
        "$IPEXCTL_DATA_BIG as its path",
    ),
    "a large file at the top": (
        NO_FILE.format("'../a.ckpt'"),
        "move it into a folder DIR of its own: ipexctl data push DIR",
    ),
    "a secret": (NO_FILE.format("'../.env'"), "give it another name"),
    "one that was sent": (NO_FILE.format("'../sub/x'"), ""),
    "one that is not here": (NO_FILE.format("'../conf/other'"), ""),
    "one of the host": (NO_FILE.format("'/etc/hostname'"), ""),
    "none": ("RuntimeError: no words", ""),
}  # fmt: skip


@pytest.mark.parametrize(("said", "advice"), NOT_FOUND.values(), ids=NOT_FOUND)
def test_a_file_that_ranks_do_not_find_as_it_stays_here(tmp_path, said, advice) -> None:
    fill(tmp_path, {"conf/a.yaml": "", "a.h5": "", "sub/x": "", "big/b.bin": "", ".env": ""})
    fill(tmp_path, {".gitignore": "conf/\n*.h5\nbig/\n*.ckpt\n"})
    for name in ("big/a.bin", "a.ckpt"):
        with open(tmp_path / name, "wb") as file:
            file.truncate(MAX_BYTES + 1)
    snapshot = taken(tmp_path, cwd="sub")
    found = left_out_file(snapshot, f"{WORK}/sub", said.splitlines(), NOBODY)
    assert (found is None) == (advice == "")
    if found:
        assert found.fix.startswith(advice.format(top=tmp_path)), found
    if advice.startswith("add the line "):
        fill(tmp_path, {".ipexctlignore": advice.removeprefix("add the line ")})
        assert found and found.path in sent(tmp_path) + list(taken(tmp_path).bundle.tree.folders)


def test_a_file_above_the_folder_that_is_sent(tmp_path) -> None:
    fill(tmp_path, {"conf/a.yaml": "", "sub/train.py": ""})
    lines = [NO_FILE.format(f"'{WORK}/../conf/a.yaml'")]
    found = left_out_file(taken(tmp_path / "sub"), WORK, lines, NOBODY)
    assert found and found.path == f"{tmp_path}/conf/a.yaml"
    assert found.fix.startswith(f"git init {tmp_path}   #")
    assert project_of(tmp_path / "sub", tmp_path).folder == tmp_path / "sub"
    (tmp_path / ".git").mkdir()
    assert project_of(tmp_path / "sub", tmp_path).folder == tmp_path
