import os

import pytest

from ipexctl.core.sync import File, Ignore, check_size, link_stays
from ipexctl.errors import InputError
from ipexctl.verbs import sync


@pytest.mark.parametrize(
    ("path", "folder", "left"),
    [
        ("train.py", False, False),
        ("pkg/mod.py", False, False),
        (".git", True, True),
        ("a/__pycache__", True, True),
        (".venv", True, True),
        (".env", False, True),
        ("conf/.env.local", False, True),
        ("id_rsa", False, True),
        ("keys/server.pem", False, True),
        ("data/big.bin", False, True),
        ("data/keep.bin", False, False),
    ],
)
def test_secrets_and_caches_are_never_sent_and_ignore_files_are_obeyed(path, folder, left):
    ignore = Ignore(["data/*\n!data/keep.bin\n# comment\n"])
    assert ignore(path, folder=folder) is left


def test_an_ignore_file_cannot_bring_secrets_back():
    assert Ignore(["!id_rsa\n!.env\n"])("id_rsa")


@pytest.mark.parametrize(
    ("path", "target", "stays"),
    [
        ("a", "b", True),
        ("sub/a", "../b", True),
        ("a", "../b", False),
        ("sub/a", "../../b", False),
        ("a", "/etc/passwd", False),
        ("a", "..", False),
    ],
)
def test_links_that_leave_the_folder_are_told(path, target, stays):
    assert link_stays(path, target) is stays


def test_a_folder_that_is_too_big_is_refused_and_its_largest_file_named():
    files = [File("small.py", 10), File("model.bin", 200 * 1000 * 1000)]
    with pytest.raises(InputError) as e:
        check_size(files, "/proj")
    assert "model.bin (200 MB)" in e.value.why
    assert ".ipexctlignore" in e.value.hint


def test_a_snapshot_holds_files_modes_and_inner_links(tmp_path):
    (tmp_path / "pkg").mkdir()
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / "pkg" / "go.sh").write_text("#!/bin/sh\n")
    (tmp_path / "pkg" / "go.sh").chmod(0o755)
    (tmp_path / ".env").write_text("TOKEN=1\n")
    (tmp_path / "inner").symlink_to("pkg/go.sh")
    (tmp_path / "outer").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    taken = sync.take(tmp_path)
    assert [(f.path, f.size, f.mode, f.link) for f, _ in taken.files] == [
        ("inner", 0, 0o644, "pkg/go.sh"),
        ("pkg/go.sh", 10, 0o755, ""),
        ("train.py", 9, 0o644, ""),
    ]
    assert sorted(n.split(":")[0] for n in taken.notes) == ["outer", "pipe"]


def test_a_folder_with_ssh_keys_is_never_sent(tmp_path):
    (tmp_path / ".ssh").mkdir()
    with pytest.raises(InputError, match="holds a .ssh folder"):
        sync.take(tmp_path)
