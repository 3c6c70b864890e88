"""Who could have written or replaced a file: by owner, group, list of users, link, folder above."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from ipexctl.local import user_dirs
from ipexctl.local.ownership import untrusted_above, untrusted_reason
from ipexctl.remote import root_folder
from ipexctl.remote.failure import Failure
from tests.refused import refused

REPO = Path(__file__).parents[2]
OPEN = "writable by everyone"

# /etc/passwd, /etc/group: is 500, the first group of root there, root's alone?
USERS = {
    "no other user has it": ("root:x:0:500::/root:/bin/sh", "root:x:500:", True),
    "it is the first one of others too": (
        "root:x:0:500::/root:/bin/sh\nmal:x:7:500::/:/bin/sh", "root:x:500:", False,
    ),
    "it has a name of its own": ("root:x:0:500::/root:/bin/sh", "team:x:500:", False),
    "it has a member": (
        "root:x:0:500::/root:/bin/sh\nmal:x:7:7::/:/bin/sh", "root:x:500:mal", False,
    ),
}  # fmt: skip
ASK = """
from ipexctl.common.folder_trust import is_private_group
print(is_private_group(500))
"""


@pytest.mark.parametrize(("passwd", "group", "private"), USERS.values(), ids=USERS)
def test_a_group_is_private_only_if_it_is_the_first_one_of_no_other_user(
    tmp_path: Path, passwd: str, group: str, private: bool
) -> None:
    if os.getuid():
        pytest.skip("needs root, for an /etc/passwd of its own")
    for name, text in (("passwd", passwd), ("group", group)):
        (tmp_path / name).write_text(text + "\n")
    mounts = [f"mount --bind {tmp_path}/{name} /etc/{name}" for name in ("passwd", "group")]
    script = " && ".join([*mounts, 'exec "$@"'])
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", sys.executable, "-c", ASK],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(REPO)},
    )  # fmt: skip
    if "unshare failed" in done.stderr:
        pytest.skip("this container has no mount namespaces")
    assert done.stdout == f"{private}\n", done.stderr


def acl_for(uid: int) -> bytes:
    """As the kernel stores it: the owner, that user, the group, the mask, others."""
    rows = [(1, 6, -1), (2, 6, uid), (4, 4, -1), (16, 6, -1), (32, 4, -1)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *row) for row in rows)


def test_a_list_of_users_that_may_write_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "ssh_config"
    file.write_text("")
    assert untrusted_reason(file) == ""
    try:
        os.setxattr(file, "system.posix_acl_access", acl_for(65534))
    except OSError as e:
        pytest.skip(f"this file system has no such lists: {e}")
    assert untrusted_reason(file).split()[-1] == "getfacl"


def test_of_a_link_what_it_leads_through_counts_too(tmp_path: Path) -> None:
    for name in ("mine", "shared", "real"):
        (tmp_path / name).mkdir()
    (tmp_path / "real" / "config").write_text("")
    (tmp_path / "shared" / "config").symlink_to("../real/config")
    (tmp_path / "mine" / "config").symlink_to("../shared/config")
    assert untrusted_reason(tmp_path / "mine" / "config") == ""
    (tmp_path / "shared").chmod(0o777)
    assert OPEN in untrusted_reason(tmp_path / "mine" / "config")
    (tmp_path / "mine" / "round").symlink_to("round")
    assert untrusted_reason(tmp_path / "mine" / "round")


def test_a_link_of_another_user_is_not_ours_wherever_it_leads(tmp_path: Path) -> None:
    if os.getuid():
        pytest.skip("needs root, to give a link away")
    (tmp_path / "ipexctl.toml").symlink_to("/etc/hostname")
    assert untrusted_reason(tmp_path / "ipexctl.toml") == ""
    os.lchown(tmp_path / "ipexctl.toml", 65534, 65534)
    assert untrusted_reason(tmp_path / "ipexctl.toml") == "owned by nobody"


def test_a_folder_further_above_counts_up_to_the_home(tmp_path: Path, monkeypatch) -> None:
    file = tmp_path / "home" / "a" / "b" / "file"
    file.parent.mkdir(parents=True)
    (tmp_path / "home" / "a").chmod(0o777)
    monkeypatch.setenv("HOME", "/nowhere")
    assert untrusted_above(file) == f"{tmp_path}/home/a is {OPEN}"
    (tmp_path / "home" / "a").chmod(0o700)
    (tmp_path / "home").chmod(0o777)
    assert untrusted_above(file) == f"{tmp_path}/home is {OPEN}"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert untrusted_above(file) == ""


def test_folders_of_our_own_are_private_whatever_the_umask_is(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        user_dirs.make_private(tmp_path / "state" / "ipexctl")
    finally:
        os.umask(before)
    for path in (tmp_path / "state", tmp_path / "state" / "ipexctl"):
        assert path.stat().st_mode & 0o777 == 0o700


def test_host_keys_do_not_count_where_others_could_put_theirs(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    user_dirs.make_private(user_dirs.state_dir())
    (tmp_path / "state").chmod(0o777)
    with refused("state-folder-untrusted", f"{tmp_path}/state is {OPEN}"):
        user_dirs.state_dir()


def test_a_list_of_users_above_the_root_is_seen_on_hosts(tmp_path: Path) -> None:
    (tmp_path / "above").mkdir()
    root_folder.prepare_root(str(tmp_path / "above" / "root"))
    try:
        os.setxattr(tmp_path / "above", "system.posix_acl_access", acl_for(65534))
    except OSError as e:
        pytest.skip(f"this file system has no such lists: {e}")
    with pytest.raises(Failure) as told:
        root_folder.prepare_root(str(tmp_path / "above" / "root"))
    assert told.value.slug == "root-parent-unsafe"


def test_a_link_of_another_user_above_the_root_is_seen_on_hosts(tmp_path: Path) -> None:
    if os.getuid():
        pytest.skip("needs root, to give a link away")
    (tmp_path / "real").mkdir()
    (tmp_path / "team").symlink_to("real")
    root_folder.prepare_root(str(tmp_path / "team" / "root"))
    os.lchown(tmp_path / "team", 65534, 65534)
    with pytest.raises(Failure) as told:
        root_folder.prepare_root(str(tmp_path / "team" / "root"))
    assert told.value.slug == "root-parent-unsafe"
    assert f"{tmp_path}/team," in told.value.what and "uid 65534" in told.value.what


@pytest.mark.parametrize("below", ["", "sub"])
def test_a_link_in_the_middle_that_others_could_replace_is_seen(tmp_path: Path, below: str) -> None:
    """Here and on hosts: R/r1 -> R/mid/x -> R/final, with R/mid writable for all."""
    (tmp_path / "mid").mkdir()
    (tmp_path / "mid").chmod(0o777)
    (tmp_path / "final/sub").mkdir(parents=True, mode=0o700)
    (tmp_path / "mid/x").symlink_to(tmp_path / "final")
    (tmp_path / "r1").symlink_to(tmp_path / "mid/x")
    path = tmp_path / "r1" / below / "file"
    assert str(tmp_path / "mid") in untrusted_above(path)
    with pytest.raises(Failure) as failed:
        root_folder.check_parents(str(path))
    assert failed.value.slug == "root-parent-unsafe"
    (tmp_path / "mid").chmod(0o755)
    assert untrusted_above(path) == ""
    root_folder.check_parents(str(path))
