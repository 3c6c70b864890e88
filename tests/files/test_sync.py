"""Which files of a folder go, what is read of them, and what a real agent makes of it."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from ipexctl.data.data import WAY_OUT
from ipexctl.errors import HostFailed, InputError
from ipexctl.inventory.inventory import Host
from ipexctl.local.file_hashes import Hashes
from ipexctl.machines.agent import Agent
from ipexctl.machines.agent_start import start_host_agent
from ipexctl.machines.wire.transport import Channel, LocalTransport
from ipexctl.project import send_project
from ipexctl.project.files.project_files import MAX_FILES, PACKED, ProjectFile, Tree, link_stays
from ipexctl.project.folder_transfer import TreeContents, send_folder
from ipexctl.project.project_folder import ProjectReader, Walk
from ipexctl.project.send_agreed import answer_no, answer_yes
from ipexctl.project.send_project import Project, project_of, read_project
from ipexctl.remote.failure import Failure
from ipexctl.remote.project import synced_folders

NOBODY = {"XDG_CACHE_HOME": "/dev/null/none", "XDG_CONFIG_HOME": "/dev/null/none"}


def fill(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def taken(folder: Path, **more) -> send_project.Snapshot:
    return read_project(Project(folder, **more), answer_no, NOBODY)


def sent(folder: Path) -> list[str]:
    return [f.path for f in taken(folder).bundle.tree.files]


# --- which files ---------------------------------------------------------------------------------


IGNORING = {
    "secrets and caches never go": (
        {
            ".git/config": "", ".env": "", "conf/.env.local": "", "id_rsa": "", "k/id_work.pub": "",
            "server.pem": "", "a/__pycache__/x.pyc": "", ".venv/x": "", ".ipexctl/runs/x": "",
            ".ssh2/x": "", "id_map.py": "", "train.py": "",
        },
        [".ssh2/x", "id_map.py", "train.py"],
    ),
    "an environment is known by what is in it": (
        {"env/pyvenv.cfg": "", "env/bin/x": "", "venv/model.py": "", "conda/conda-meta/x": ""},
        ["venv/model.py"],
    ),
    ".gitignore counts, in nested folders too, and the nearer one wins": (
        {
            ".gitignore": "*.pt\n/out/\n# a comment\n", "a.pt": "", "out/x": "", "sub/out/x": "",
            "sub/.gitignore": "!keep.pt\n/only\n", "sub/keep.pt": "", "sub/other.pt": "",
            "sub/only": "", "only": "",
        },
        [".gitignore", "only", "sub/.gitignore", "sub/keep.pt", "sub/out/x"],
    ),
    ".ipexctlignore comes after it, and brings back": (
        {
            ".gitignore": "*.pt\ndata/\nlogs/\n", "a.pt": "", "notes.md": "", "logs/x": "",
            ".ipexctlignore": "!a.pt\n*.md\n!data/small/\n", "data/small/y": "", "data/large": "",
        },
        [".gitignore", ".ipexctlignore", "a.pt", "data/small/y"],
    ),
    "but nothing brings secrets back": (
        {".ipexctlignore": "!.env\n!id_rsa\n!.git/\n", ".env": "", "id_rsa": "", ".git/x": ""},
        [".ipexctlignore"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("files", "expected"), IGNORING.values(), ids=IGNORING)
def test_what_goes_and_what_stays(tmp_path: Path, files: dict[str, str], expected) -> None:
    assert sent(fill(tmp_path, files)) == expected


def test_what_git_leaves_out_for_this_user_and_this_clone_is_left_out(tmp_path: Path) -> None:
    fill(tmp_path, {".git/info/exclude": "local\n", "local": "", "mine.swp": "", "x": ""})
    config = fill(tmp_path / "config", {"git/ignore": "*.swp\n/config/\n"})
    snapshot = read_project(
        Project(tmp_path, git=True), answer_no, {**NOBODY, "XDG_CONFIG_HOME": str(config)}
    )
    assert [f.path for f in snapshot.bundle.tree.files] == ["x"]


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


def test_a_tree_holds_files_modes_inner_links_and_empty_folders(tmp_path: Path) -> None:
    folder = fill(tmp_path / "p", {"pkg/go.sh": "#!/bin/sh\n", "train.py": "print(1)\n"})
    (folder / "pkg" / "go.sh").chmod(0o755)
    (folder / "out" / "deep").mkdir(parents=True)
    (folder / "inner").symlink_to("pkg/go.sh")
    (folder / "absolute").symlink_to(folder / "pkg" / "go.sh")
    (folder / "pkg" / "self").symlink_to("..")
    (folder / "outer").symlink_to("/etc/passwd")
    (folder / "dot").symlink_to(".")
    (folder / "sly").symlink_to("dot/../../x")  # its text stays inside, its end does not
    os.mkfifo(folder / "pipe")
    fill(folder, {".env": "TOKEN=1"})
    snapshot = taken(folder)
    tree = snapshot.bundle.tree
    assert tree.folders == ("out", "out/deep", "pkg")
    assert [(f.path, f.size, f.executable) for f in tree.files] == [
        ("pkg/go.sh", 10, True),
        ("train.py", 9, False),
    ]
    assert tree.links == (("absolute", "pkg/go.sh"), ("inner", "pkg/go.sh"))
    assert [note.partition(": ")[2] for note in snapshot.notes] == [
        "dot, outer, pkg/self and 1 more",
        "pipe",
        ".env",
    ]


# --- which folder --------------------------------------------------------------------------------


def test_the_git_root_goes_and_ranks_start_where_the_command_was_typed(tmp_path: Path) -> None:
    root = fill(tmp_path / "repo", {".git/HEAD": "", "lib/x.py": "", "jobs/a/train.py": ""})
    script = root / "jobs" / "a"
    starts = {root: "", root / "lib": "lib", script: "jobs/a", tmp_path: "jobs/a"}
    assert {cwd: project_of(script, cwd) for cwd in starts} == {
        cwd: Project(root, start, git=True) for cwd, start in starts.items()
    }


def test_without_git_the_scripts_folder_goes(tmp_path: Path) -> None:
    script = fill(tmp_path / "p", {"train.py": "", "sub/x": ""})
    assert project_of(script, script / "sub") == Project(script, "sub")
    assert project_of(script, tmp_path) == Project(script)


def test_a_repository_of_the_whole_home_is_not_sent(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    script = fill(tmp_path, {".git/HEAD": "", "p/train.py": ""}) / "p"
    why = (
        f"{tmp_path} is not sent as a whole, because it is your home folder; only {script} is sent"
    )
    assert project_of(script, script) == Project(script, notes=(why,))


@pytest.mark.parametrize(
    ("below", "why"),
    [
        (".", "it is your home folder"),
        ("..", "your home folder is in it"),
        ("keys", "there is a .ssh folder in it"),
    ],
)
def test_folders_that_nobody_means_to_send_are_refused(tmp_path, monkeypatch, below, why) -> None:
    home = fill(tmp_path / "home", {"keys/.ssh/x": ""})
    monkeypatch.setenv("HOME", str(home))
    folder = (home / below).resolve()
    with pytest.raises(InputError) as e:
        project_of(folder, folder)
    assert e.value.slug == "folder-refused"
    assert e.value.what.startswith(f"{folder} ") and why in e.value.what


# --- how much ------------------------------------------------------------------------------------


def large(folder: Path) -> Path:
    fill(folder, {"train.py": ""})
    (folder / "data").mkdir()
    with open(folder / "data" / "model.bin", "wb") as file:
        file.truncate(200_000_000)
    return folder


def test_a_large_folder_without_git_asks_first_and_names_what_makes_it_large(tmp_path) -> None:
    asked = []
    with pytest.raises(InputError) as e:
        read_project(Project(large(tmp_path)), lambda text: bool(asked.append(text)), NOBODY)
    assert (e.value.slug, e.value.exit_code) == ("large-folder-not-confirmed", 2)
    for value in (f"{tmp_path} ", "2 files, 200.0 MB", "data/ (200.0 MB)"):
        assert value in e.value.what
    assert len(asked) == 1 and asked[0].startswith(e.value.what)
    assert ".ipexctlignore" in e.value.hint and "-y" in e.value.hint
    for project, confirm in (
        (Project(tmp_path, git=True), answer_no),
        (Project(tmp_path), answer_yes),
    ):
        notes: list[str] = []
        snapshot = read_project(project, confirm, NOBODY, notes.append)
        assert (snapshot.bundle.tree.bytes, notes) == (
            200_000_000,
            [f"a large folder: {e.value.what}"],
        )


def test_too_many_files_without_git_are_refused_before_any_is_read(tmp_path: Path) -> None:
    for i in range(MAX_FILES + 1):
        os.mknod(tmp_path / f"f{i}")
        (tmp_path / f"f{i}").chmod(0)
    with pytest.raises(InputError) as refused:
        read_project(Project(tmp_path), answer_no, NOBODY)
    assert refused.value.slug == "large-folder-not-confirmed"
    assert "5,001" in refused.value.what


# --- reading -------------------------------------------------------------------------------------


@pytest.mark.parametrize("everything", [False, True])  # of a project, of a dataset
def test_what_cannot_be_read_is_refused_by_name(tmp_path: Path, everything: bool) -> None:
    fill(tmp_path, {"a": "1", "b": "2"})
    found = Walk(tmp_path, everything=everything).run(send_project.Ignore())
    (tmp_path / "a").unlink()
    with pytest.raises(InputError) as e:
        ProjectReader(tmp_path, Hashes(tmp_path), *([WAY_OUT] if everything else [])).tree(found)
    assert (e.value.slug, e.value.why.partition(":")[0]) == ("folder-unreadable", "a")
    assert (e.value.hint == WAY_OUT) is everything
    assert (".ipexctlignore" in e.value.hint) is not everything


def test_of_a_file_that_grows_meanwhile_goes_what_was_there_first(tmp_path: Path) -> None:
    fill(tmp_path, {"run.log": "one\n"})
    with open(tmp_path / "big.log", "wb") as file:
        file.truncate(PACKED + 1)
    found = Walk(tmp_path).run(send_project.Ignore())
    for name in ("run.log", "big.log"):
        with open(tmp_path / name, "ab") as file:
            file.write(b"two\n")
    reader = ProjectReader(tmp_path, Hashes(tmp_path))
    big, log = reader.tree(found).files
    assert (big.size, log.size) == (PACKED + 1, 4)
    assert reader.content(log) == b"one\n"


def test_hashes_are_kept_until_a_file_is_touched(tmp_path: Path) -> None:
    folder = fill(tmp_path / "p", {"a": "1", "b": "2"})
    old = [(1, 5 * 10**9, 5 * 10**9, 7), (1, 5 * 10**9, 6 * 10**9, 7)]
    first = Hashes(folder)
    first.add("a", old[0], "sha")
    first.add("young", (1, 2**62, 2**62, 7), "sha")  # it may change again in the same tick
    first.save()
    again = Hashes(folder)
    stamps = [("a", old[0]), ("a", old[1]), ("young", old[0])]
    assert [again.known_hash(*stamp) for stamp in stamps] == ["sha", "", ""]
    first.memory.path.write_text("[nonsense")
    assert Hashes(folder).known_hash("a", old[0]) == ""
    found = Walk(folder).run(send_project.Ignore())
    assert len(ProjectReader(folder, Hashes(folder)).tree(found).files) == 2


# --- on a host -----------------------------------------------------------------------------------


class Limited(LocalTransport):
    """Its processes write 4096 bytes into a file, and no more."""

    def open(self, host: Host, command: str, timeout: float) -> Channel:
        return super().open(host, f"ulimit -f 8; {command}", timeout)


def seen(work: Path) -> dict[bytes, object]:
    found: dict[bytes, object] = {}
    for top, folders, files in os.walk(os.fsencode(work)):
        for name in (*folders, *files):
            path = os.path.join(top, name)
            kind = os.lstat(path).st_mode
            key = os.path.relpath(path, os.fsencode(work))
            if stat.S_ISLNK(kind):
                found[key] = os.readlink(path)
            elif stat.S_ISREG(kind):
                found[key] = (stat.S_IMODE(kind), Path(os.fsdecode(path)).read_bytes())
            else:
                found[key] = "folder"
    return found


def test_a_snapshot_is_on_the_host_as_it_is_here(agent: Agent, tmp_path: Path) -> None:
    folder = fill(tmp_path / "p", {"a/b/c.py": "x\n", "run.sh": "", "same.py": "x\n"})
    (folder / "run.sh").chmod(0o755)
    (folder / "empty").mkdir()
    (folder / "link").symlink_to("a/b")
    large = os.urandom(PACKED + 1)
    (folder / "large").write_bytes(large)
    odd = [b"new\nline", b"\xff\xfe", "ümläut".encode(), b"-rf *", b"a\\b", b'"']
    for name in odd:
        with open(os.path.join(os.fsencode(folder), name), "wb") as file:
            file.write(b"odd")
    snapshot = taken(folder, cwd="a/b")
    there = snapshot.bring(agent, str(tmp_path / "root"), "20261120-000000-aaaaaa")
    cwd = f"{tmp_path}/root/runs/20261120-000000-aaaaaa/work/a/b"
    assert there == send_project.Sent(cwd, PACKED + 6, there.mark)
    assert seen(tmp_path / "root/runs/20261120-000000-aaaaaa/work") == {
        **dict.fromkeys(odd, (384, b"odd")),
        b"a": "folder", b"a/b": "folder", b"empty": "folder", b"link": b"a/b",
        b"a/b/c.py": (0o600, b"x\n"), b"same.py": (0o600, b"x\n"), b"run.sh": (0o700, b""),
        b"large": (0o600, large),
    }  # fmt: skip


def test_what_a_host_has_does_not_travel_and_runs_do_not_share_files(agent, tmp_path) -> None:
    large = "x" * (PACKED + 1)
    folder = fill(tmp_path / "p", {"a.py": "1234", "b.py": "12345678", "large": large})
    root = tmp_path / "root"
    assert taken(folder).bring(agent, str(root), "run-1").bytes == 12 + len(large)
    for name in ("a.py", "large"):
        (root / "runs/run-1/work" / name).write_text("changed by the run")
    fill(folder, {"b.py": "new"})
    assert taken(folder).bring(agent, str(root), "run-2").bytes == 3
    assert taken(folder).bring(agent, str(root), "run-3").bytes == 0
    assert seen(root / "runs/run-3/work") == {
        b"a.py": (0o600, b"1234"), b"b.py": (0o600, b"new"), b"large": (0o600, large.encode()),
    }  # fmt: skip
    assert (root / "runs/run-3/work/large").stat().st_nlink == 1
    assert (root / "runs/run-1/work/b.py").read_text() == "12345678"


def test_a_file_of_which_the_disk_takes_only_a_part_is_an_error(agent, tmp_path) -> None:
    folder, root = fill(tmp_path / "p", {"a.py": "x" * 5000}), tmp_path / "root"
    taken(folder).bring(agent, str(root), "run-1")
    limited = start_host_agent(Limited(), Host("here", local=True))
    with pytest.raises(HostFailed) as refused:
        taken(folder).bring(limited, str(root), "run-2")
    assert refused.value.slug == "root-not-writable"
    assert "File too large" in refused.value.what
    limited.close()


EMPTY = hashlib.sha256(b"").hexdigest()


@pytest.mark.parametrize(
    "tree",
    [
        Tree((), (ProjectFile("../x", 0, EMPTY),)),
        Tree((), (ProjectFile("/etc/x", 0, EMPTY),)),
        Tree(("a/../../b",), ()),
        Tree((), (), (("out", "../../../.."),)),
        Tree((), (), (("dot", "."), ("dot/../x", "."))),
    ],
)
def test_no_path_of_a_manifest_leaves_the_runs_folder(agent, tmp_path, tree) -> None:
    bundle = TreeContents(tree, SimpleNamespace(content=lambda file: b""))
    with pytest.raises(HostFailed) as refused:
        send_folder(agent, bundle, {"root": str(tmp_path / "root"), "run_id": "run-1", "cwd": ""})
    assert refused.value.slug == "path-leads-out"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["root"]


def test_without_sync_the_folder_is_looked_for_on_the_host(agent, tmp_path, monkeypatch) -> None:
    home = fill(tmp_path / "here", {"p/train.py": ""})
    monkeypatch.setenv("HOME", str(home))
    assert send_project.InPlace(home / "p", "train.py").bring(agent, "", "").cwd == str(home / "p")
    with pytest.raises(HostFailed) as refused:
        send_project.InPlace(home / "p", "other.py").bring(agent, "", "")
    assert refused.value.slug == "script-not-on-host"
    assert "other.py" in refused.value.what


# --- what a disk of a host has damaged -----------------------------------------------------------


def test_what_was_damaged_on_a_host_is_sent_again(agent: Agent, tmp_path: Path) -> None:
    folder, root = fill(tmp_path / "p", {"a.py": "1234"}), tmp_path / "root"
    taken(folder).bring(agent, str(root), "run-1")
    (pack,) = root.glob("blobs/packs/*.pack")
    data = bytearray(pack.read_bytes())
    data[-1] ^= 1
    pack.write_bytes(data)
    with pytest.raises(HostFailed) as e:
        taken(folder).bring(agent, str(root), "run-2")
    assert e.value.slug == "damaged"
    taken(folder).bring(agent, str(root), "run-3")
    assert (root / "runs/run-3/work/a.py").read_text() == "1234"
    pack.write_bytes(b"")
    assert taken(folder).bring(agent, str(root), "run-4").bytes == 0


def overwritten(path: Path, data: bytes) -> None:
    """As long as before: only its hash tells."""
    path.chmod(0o600)
    with path.open("r+b") as file:
        file.write(data)


def test_a_large_file_that_was_damaged_on_a_host_is_sent_again(agent, tmp_path) -> None:
    folder, root, large = fill(tmp_path / "p", {}), tmp_path / "root", os.urandom(PACKED + 1)
    folder.mkdir()
    (folder / "large").write_bytes(large)
    taken(folder).bring(agent, str(root), "run-1")
    (blob,) = root.glob("blobs/sha256/*/" + hashlib.sha256(large).hexdigest())
    overwritten(blob, b"\0\0\0\0\0\0\0\0")
    with pytest.raises(HostFailed) as e:
        taken(folder).bring(agent, str(root), "run-2")
    assert (e.value.slug, blob.exists()) == ("damaged", False)
    assert not (root / "runs/run-2/work").exists()
    taken(folder).bring(agent, str(root), "run-3")
    assert (root / "runs/run-3/work/large").read_bytes() == large


def test_a_large_file_is_hashed_too_where_the_filesystem_clones_it(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(
        synced_folders, "clone_blocks", lambda source, fd: os.write(fd, source.read()) > 0
    )
    blob, copy = tmp_path / "blob", tmp_path / "copy"
    blob.write_bytes(b"good")
    sha = hashlib.sha256(b"good").hexdigest()
    with copy.open("wb") as file:
        synced_folders.copy_blob(str(blob), file.fileno(), sha)
    assert copy.read_bytes() == b"good"
    overwritten(blob, b"evil")
    with copy.open("wb") as file, pytest.raises(Failure) as refused:
        synced_folders.copy_blob(str(blob), file.fileno(), sha)
    assert refused.value.slug == "damaged"
    assert str(blob) in refused.value.what
    assert not blob.exists()
