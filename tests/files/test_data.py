"""Data sets: pushed to a real agent on this machine, and what runs get of them."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from ipexctl.base.host_outcome import HostState
from ipexctl.common.folder_answers import FilesMissing
from ipexctl.data import data, dataset_transfer
from ipexctl.data.data_text import listed_text
from ipexctl.data.rules import dataset_rules as core
from ipexctl.data.rules.dataset_rules import Held
from ipexctl.errors import InputError, RunFailed
from ipexctl.lab import Lab, LabSpec
from ipexctl.machines.agent import Agent
from ipexctl.machines.target import Target
from ipexctl.project import folder_transfer
from ipexctl.project.files.project_files import PACKED, ProjectFile, Tree
from ipexctl.project.folder_transfer import PACK
from ipexctl.run.plan.dataset_variables import data_variables
from ipexctl.terminal.confirm import DECLINED
from ipexctl.terminal.progress import HostProgress
from tests.answering_terminal import answering
from tests.conftest import MakeLab

REPO = Path(__file__).parents[2]


def held(name: str, version: str = "a" * 16, hub: str = "") -> Held:
    path = f"/r/data/{name}/{version}/files"
    return Held(name, version, 1, 2, path, {"": "", "cache": path[:-6], "home": path}[hub])


# --- pure ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", ".x", "a/b", "a b", "-x", "ü", "x" * 65])
def test_odd_names_are_refused(name: str) -> None:
    with pytest.raises(InputError):
        core.checked_name(name)


def test_data_of_a_run_is_named_once_and_each_by_its_own_variable() -> None:
    assert core.checked_names(["b", "a-b", "b"]) == ("b", "a-b")
    with pytest.raises(InputError) as refused:
        core.checked_names(["a-b", "c", "A.b"])
    assert refused.value.slug == "dataset-variables-conflict"
    for name in ("--data a-b", "--data A.b", "IPEXCTL_DATA_A_B"):
        assert name in refused.value.what
    with pytest.raises(InputError) as refused:
        core.checked_names(["a", "a/b"])
    assert refused.value.slug == "dataset-name-invalid"
    assert "'a/b'" in refused.value.what


@pytest.mark.parametrize(
    ("folders", "kind"),
    [
        (("models--gpt2", "models--gpt2/snapshots", "models--gpt2/snapshots/abc"), "cache"),
        (("hub", "hub/datasets--c4/snapshots/abc"), "home"),
        (("models--gpt2", "models--gpt2/blobs"), ""),
        (("train", "snapshots"), ""),
    ],
)
def test_a_hub_cache_is_known_by_its_folders(folders: tuple[str, ...], kind: str) -> None:
    assert core.hf_cache_kind(Tree(folders, ())) == kind


def test_what_ranks_get() -> None:
    found = data_variables([held("mnist"), held("c4-en.v2"), held("hf", hub="cache")])
    assert [(name, value) for name, value, _ in found] == [
        ("IPEXCTL_DATA_MNIST", held("mnist").path),
        ("IPEXCTL_DATA_C4_EN_V2", held("c4-en.v2").path),
        ("IPEXCTL_DATA_HF", held("hf").path),
        ("HF_HOME", f"/r/data/hf/{'a' * 16}"),
        ("HF_HUB_OFFLINE", "1"),
    ]
    assert "--data mnist" in found[0][2] and "a" * 16 in found[0][2]


def test_hosts_that_lack_data_or_have_another_version_are_named() -> None:
    hosts = {"n1": [held("x")], "n2": [held("x", "b" * 16)], "n3": [held("y")], "n4": [held("x")]}
    with pytest.raises(RunFailed) as e:
        core.check_versions(["x"], hosts)
    assert e.value.slug == "dataset-versions-differ"
    assert e.value.hint.startswith("# ipexctl data push DIR --as x ")
    first, second, third = e.value.why.splitlines()
    assert [first, second] == [f"n[1,4]: {'a' * 16}", f"n2: {'b' * 16}"]
    assert third.startswith("n3: ")
    core.check_versions(["x"], {"n1": [held("x")], "n4": [held("x"), held("y")]})


def test_a_folder_of_that_name_is_offered_to_be_copied() -> None:
    with pytest.raises(RunFailed) as e:
        core.check_versions(["y", "x"], {"n1": [held("y")]}, ["x", "y"])
    assert e.value.hint.splitlines()[0] == "ipexctl data push x"


# --- on a host -----------------------------------------------------------------------------------


def push(folder: Path, root: Path, name: str | None = None) -> data.Pushed:
    return data.push_dataset(Target(), folder, name, HostProgress(), str(root))


def made(folder: Path, **files: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def content(path: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()
    }


def used(root: Path) -> int:
    """Bytes on the disk, each file once."""
    found = {p.lstat().st_ino: p.lstat().st_size for p in root.rglob("*") if p.is_file()}
    return sum(found.values())


def test_data_is_on_the_disk_once_read_only_and_not_sent_twice(tmp_path: Path) -> None:
    large = os.urandom(4 * PACKED)
    folder = made(tmp_path / "set", a=b"small", b=b"small", large=large, again=large)
    root = tmp_path / "root"
    first = push(folder, root)
    assert (first.exit_code, first.sent, [r.state for r in first.recaps]) == (
        0, len(large) + 5, [HostState.CHANGED],
    )  # fmt: skip
    here = root / "data/set/current/files"
    assert content(here) == {"a": b"small", "b": b"small", "large": large, "again": large}
    assert {stat.S_IMODE(p.stat().st_mode) for p in here.iterdir()} == {0o444}
    assert used(root) < len(large) + 10_000
    (here / "a").touch()  # a date alone is no change
    again = push(folder, root)
    assert (again.sent, again.recaps[0].state, again.version) == (0, HostState.OK, first.version)


def test_a_new_version_takes_what_the_old_one_has_and_replaces_it(tmp_path: Path) -> None:
    """A large file that was changed is sent as a whole."""
    root, large, changed = tmp_path / "root", os.urandom(2 * PACKED), bytes(2 * PACKED)
    old = push(made(tmp_path / "set", large=large, changed=changed, x=b"1"), root)
    changed = changed[:-1] + b"#"
    new = push(made(tmp_path / "set", changed=changed, x=b"22"), root)
    assert new.sent == len(changed) + 2
    assert sorted(os.listdir(root / "data/set")) == sorted(["current", new.version])
    here = root / "data/set/current/files"
    assert content(here) == {"large": large, "changed": changed, "x": b"22"}
    assert stat.S_IMODE((here / "changed").stat().st_mode) == 0o444
    assert [p for p in (root / "blobs/sha256").rglob("*") if p.is_file()] == []
    assert push(tmp_path / "set", root, "other").sent == 0
    assert old.version != new.version


def test_a_push_from_another_folder_says_what_it_replaces(tmp_path: Path) -> None:
    root, mine, other = tmp_path / "root", tmp_path / "mine/model", tmp_path / "other/model"
    old = push(made(mine, x=b"1"), root)
    assert old.recaps[0].notes == push(made(mine, x=b"2"), root).recaps[0].notes == ()
    (first,) = listed(root)
    assert first.source.endswith(f":{mine}")
    assert f"from {first.source}" in listed_text(data.list_datasets(Target(), str(root)))
    (note,) = push(made(other, x=b"3"), root).recaps[0].notes
    assert first.version in note and first.source in note
    assert push(other, root).recaps[0].notes == ()
    (now,) = listed(root)
    assert now.source.endswith(f":{other}")
    assert now.source in str(now) and now.version in str(now)


def test_a_push_that_was_cut_goes_on_where_it_stopped(tmp_path: Path) -> None:
    root, large = tmp_path / "root", os.urandom(PACK)
    small = {f"f{i:02}": os.urandom(PACKED) for i in range(PACK // PACKED + 2)}  # two packs
    made(tmp_path / "set", large=large, **small)
    with pytest.raises(RuntimeError):
        data.push_dataset(
            Target(), tmp_path / "set", None, HostProgress(step=_cut_after(len(large))), str(root)
        )
    assert not (root / "data/set/current").exists()
    assert push(tmp_path / "set", root).sent <= len(small) * PACKED  # and so nothing of the large
    assert content(root / "data/set/current/files") == {"large": large, **small}


def _cut_after(size: int):
    def step(step) -> None:
        if step.host and step.done > size:
            raise RuntimeError("cut")

    return step


def test_a_hub_cache_keeps_its_links_and_leaves_its_token_here(tmp_path: Path) -> None:
    hub = tmp_path / "hf/hub/models--gpt2"
    made(hub / "blobs", abc=b"weights")
    made(tmp_path / "hf", token=b"hf_secret")
    (hub / "snapshots/rev").mkdir(parents=True)
    (hub / "snapshots/rev/model.bin").symlink_to("../../blobs/abc")
    said: list[str] = []
    root = tmp_path / "root"
    for folder in ("hf", "hf/hub"):
        pushed = data.push_dataset(
            Target(), tmp_path / folder, None, HostProgress(say=said.append), str(root)
        )
        assert pushed.exit_code == 0
    assert [note.partition(": ")[2] for note in said] == ["token"]
    ((_, found),) = data.list_datasets(Target(), str(root)).hosts
    homes = [Path(one.hub) for one in found]
    assert [len(found), *(h.is_dir() for h in homes)] == [2, True, True]
    for home in homes:
        model = home / "hub/models--gpt2/snapshots/rev/model.bin"
        assert (model.is_symlink(), model.read_bytes()) == (True, b"weights")


def remove(root: Path, name: str = "set") -> tuple[int, str]:
    done = data.remove_dataset(Target(), name, lambda going: True, str(root))
    return done.exit_code, done.recaps[0].detail


def stays(root: Path) -> str:
    """Why it is not removed."""
    code, detail = remove(root)
    assert code == 1
    return detail


def listed(root: Path) -> list[Held]:
    ((_, found),) = data.list_datasets(Target(), str(root)).hosts
    return list(found)


def test_what_a_run_uses_stays_and_all_else_of_it(agent: Agent, tmp_path: Path) -> None:
    root = tmp_path / "root"
    first = push(made(tmp_path / "set", x=b"1"), root)
    (one,) = data.use_datasets(agent, str(root), ["set", "nothing"])
    assert "a run" in stays(root)
    second = push(made(tmp_path / "set", x=b"2"), root)
    assert "a run" in stays(root)  # an older version
    assert [(d.version, d.old) for d in listed(root)] == [(second.version, 1)]
    assert content(root / "data/set/current/files") == {"x": b"2"}
    assert content(Path(one.path)) == {"x": b"1"}
    assert push(made(tmp_path / "set", x=b"1"), root).version == first.version  # back to it
    assert content(root / "data/set/current/files") == {"x": b"1"}
    agent.close()
    assert agent.channel.exit_status(10) is not None
    assert remove(root) == (0, "1 byte removed")
    assert not (root / "data/set").exists()
    with pytest.raises(InputError) as refused:
        remove(root)
    assert refused.value.slug == "dataset-missing"


def test_what_is_not_whole_is_listed_and_removed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    push(made(tmp_path / "set", x=b"1"), root)
    (root / "data/set/current").unlink()
    (root / "data/other/.0123456789abcdef/files").mkdir(parents=True)
    (root / "data/other/.0123456789abcdef/files/part").write_bytes(b"123")
    assert [(d.name, d.version, d.bytes, d.old, d.parts) for d in listed(root)] == [
        ("other", "", 3, 0, 1), ("set", "", 1, 1, 0),
    ]  # fmt: skip
    other, whole = listed_text(data.list_datasets(Target(), str(root))).splitlines()
    assert [line.split()[::len(line.split()) - 1] for line in (other, whole)] == [
        ["other", "localhost"], ["set", "localhost"],
    ]  # fmt: skip
    assert "incomplete" in other and "3 bytes" in other and "1 push " in other
    assert "incomplete" in whole and "1 byte," in whole and "1 older " in whole
    assert (remove(root), remove(root, "other")[0]) == ((0, "1 byte removed"), 0)
    assert os.listdir(root / "data") == [".lock"]


def test_a_push_removes_what_cut_ones_have_left(agent: Agent, tmp_path: Path) -> None:
    root, key = tmp_path / "root", "a" * 64
    tree = Tree((), (ProjectFile("x", 1, "b" * 64, False),))
    asked = {"root": str(root), "name": "set", "hub": "", "key": tree.key}
    number = agent.start("data.datasets.make", asked, zlib.compress(tree.manifest))
    assert agent.wait(number).done.read(FilesMissing).bits == "01"
    (cut := root / "data/set" / f".{key[:16]}").mkdir()
    assert "pushed" in stays(root)
    version = push(made(tmp_path / "set", x=b"1"), root).version
    assert (cut.exists(), [d.parts for d in listed(root)]) == (False, [1])
    agent.close()
    assert agent.channel.exit_status(10) is not None
    assert push(made(tmp_path / "set", x=b"2"), root).exit_code == 0
    assert [d.parts for d in listed(root)] == [0]
    (broken := root / "data/set" / version).mkdir()  # a removal that was cut
    (broken / "files").mkdir()
    assert push(made(tmp_path / "set", x=b"1"), root).version == version


def overwritten(path: Path, content: bytes) -> None:
    path.chmod(0o644)
    path.write_bytes(content)


def test_what_was_changed_on_the_host_is_mended_and_not_passed_on(tmp_path: Path) -> None:
    root, large = tmp_path / "root", os.urandom(2 * PACKED)
    all_of_it = {"a": b"small", "b": b"small", "gone": b"12", "large": large}
    folder = made(tmp_path / "set", **all_of_it)
    (folder / "empty").mkdir()
    (folder / "link").symlink_to("a")
    push(folder, root)
    here = root / "data/set/current/files"
    overwritten(here / "a", b"SMALL")  # and so b, as they are one
    overwritten(here / "large", bytes(2 * PACKED))
    os.utime(here / "large", (0, 0))
    other = push(folder, root, "other")
    assert (other.sent, content(root / "data/other/current/files")) == (
        5 + len(large), {**all_of_it, "link": b"small"},
    )  # fmt: skip
    (here / "gone").unlink()
    (here / "link").unlink()
    (here / "empty").rmdir()
    mended = push(folder, root)
    assert (mended.sent, mended.recaps[0].state) == (0, HostState.CHANGED)
    assert mended.recaps[0].detail.startswith("5 files ")
    assert content(here) == {**all_of_it, "link": b"small"}
    assert ((here / "link").is_symlink(), (here / "empty").is_dir()) == (True, True)
    assert (here / "large").stat().st_ino == (root / "data/other/current/files/large").stat().st_ino
    assert sorted(os.listdir(root / "data/set")) == sorted(["current", mended.version])
    (root / "data/other/current/files/gone").unlink()
    (here / "gone").unlink()
    assert (push(folder, root).sent, content(here)["gone"]) == (2, b"12")
    assert push(folder, root).recaps[0].state == HostState.OK


def test_each_file_keeps_its_own_mode(tmp_path: Path) -> None:
    root, large = tmp_path / "root", os.urandom(2 * PACKED)
    tools = made(tmp_path / "tools", tool=b"#!", large=large, same=b"#!", largest=large)
    for name in ("tool", "large"):
        (tools / name).chmod(0o755)
    assert push(tools, root).sent == 2 + len(large)
    assert push(made(tmp_path / "plain", tool=b"#!", large=large), root).sent == 0

    def modes(name: str) -> dict[str, int]:
        files = root / "data" / name / "current/files"
        return {p.name: stat.S_IMODE(p.stat().st_mode) for p in files.iterdir()}

    wanted = {"tool": 0o555, "large": 0o555, "same": 0o444, "largest": 0o444}
    assert (modes("tools"), modes("plain")) == (wanted, {"tool": 0o444, "large": 0o444})
    (root / "data/tools/current/files/same").chmod(0o777)
    assert push(tools, root).exit_code == push(tmp_path / "plain", root).exit_code == 0
    assert (modes("tools"), modes("plain")) == (wanted, {"tool": 0o444, "large": 0o444})


def test_the_commands_say_what_they_do(tmp_path: Path) -> None:
    root = str(tmp_path / "root")
    made(tmp_path / "set", x=b"123")
    (tmp_path / "hosts").write_text("here ansible_connection=local\n")

    def run(*words: str, stdin: int = subprocess.DEVNULL, code: int = 0) -> str:
        argv = [sys.executable, "-m", "ipexctl", "data", *words, "-f", "hosts", "--root", root]
        env = {**os.environ, "PYTHONPATH": str(REPO)}
        done = subprocess.run(
            argv, capture_output=True, text=True, cwd=tmp_path, env=env, stdin=stdin
        )
        assert done.returncode == code, done.stderr
        return done.stdout

    push = f"ipexctl data push -f hosts --root {root} DIR puts some there"
    none = run("ls")
    assert push in none and len(none.splitlines()) == 1
    refused = json.loads(run("push", "set", "--as", "", "--json", code=2))
    assert refused["errors"][0]["slug"] == "dataset-name-invalid"
    told = f"next: ipexctl run -f hosts --root {root} --data small SCRIPT "
    assert told in run("push", "set", "--as", "small")
    assert run("ls").split()[0] == "small"
    for typed in (b"\n", b"\x04"):
        with answering(typed) as terminal:
            said = run("rm", "small", stdin=terminal.fd, code=1)
        assert (said, run("ls").split()[0]) == (f"{DECLINED}\n", "small")
    would = run("rm", "small", "--check")
    assert (would.splitlines()[0], f"{root}/data/small" in would) == (
        "would be removed:", True,
    )  # fmt: skip
    assert "removed" in run("rm", "small", "-y")


# --- new versions ---------------------------------------------------------------------------------


def test_small_files_come_in_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_transfer, "PACK", 100_000)
    monkeypatch.setattr(dataset_transfer, "ROUND", 250_000)
    root, folder = tmp_path / "root", made(tmp_path / "set", text=b"compresses " * 20_000)
    contents = {f"f{i}": os.urandom(50_000) for i in range(20)}
    made(folder, empty=b"", **contents)
    pushed = push(folder, root)
    assert pushed.exit_code == 0, pushed.recaps
    assert 20 * 50_000 <= pushed.sent < 20 * 50_000 + 10_000
    here = root / "data/set/current/files"
    assert {p.name: p.read_bytes() for p in here.iterdir()} == {
        **contents, "empty": b"", "text": b"compresses " * 20_000,
    }  # fmt: skip


def test_nothing_is_left_here_of_a_push(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    push(made(tmp_path / "set", a=b"1"), tmp_path / "root")
    assert list((tmp_path / "cache/ipexctl/blobs").iterdir()) == []


# --- on practice hosts ---------------------------------------------------------------------------


def carried(lab: Lab) -> int:
    """Bytes that this machine has sent to the hosts."""
    return int(Path(f"/sys/class/net/{lab.link}/statistics/tx_bytes").read_text())


@pytest.mark.lab
def test_to_many_hosts_data_travels_once_and_of_a_change_only_its_files(
    full_rung: None, make_lab: MakeLab, tmp_path: Path
) -> None:
    lab = make_lab(LabSpec.plain(4, name="versions"))
    target = Target(hostfile=lab.hostfile, ssh_config=lab.ssh_config)
    folder = tmp_path / "set"
    large, size = os.urandom(60_000_000), 60_000_000 + 200 * 100_000
    made(folder, large=large, **{f"small{i}": os.urandom(100_000) for i in range(200)})

    def pushed() -> tuple[data.Pushed, int]:
        before = carried(lab)
        done = data.push_dataset(target, folder, None, HostProgress())
        assert done.exit_code == 0, done.recaps
        return done, carried(lab) - before

    first, wire = pushed()
    assert (first.sent, first.passed) == (size, 3 * size)
    assert size < wire < 1.2 * size
    made(folder, large=large[:30_000_000] + b"#" + large[30_000_001:])
    changed, wire = pushed()
    assert (changed.sent, changed.passed) == (60_000_000, 3 * 60_000_000)
    assert 60_000_000 < wire < 1.2 * 60_000_000
    (sums,) = {
        lab.run_in(h, ["sh", "-c", "cat ~trainer/.ipexctl/data/set/current/files/* | sha256sum"])
        .stdout
        for h in lab.hosts
    }  # fmt: skip
    ours = b"".join(p.read_bytes() for p in sorted(folder.iterdir()))
    assert sums.split()[0] == hashlib.sha256(ours).hexdigest()
    made(folder, **{f"more{i}": os.urandom(100_000) for i in range(120)})
    more, wire = pushed()
    assert (more.sent, more.passed) == (12_000_000, 36_000_000)
