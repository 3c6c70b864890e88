"""Sources, and the folder that hosts get: decided without a network."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace

import pytest

from ipexctl.common.folder_answers import DatasetRow
from ipexctl.data.rules import dataset_rules
from ipexctl.data.rules.pulled_tree import (
    Content,
    HfSource,
    RemoteFile,
    Repository,
    UrlSource,
    checked_repository,
    choose_remote_files,
    hf_tree,
    read_source,
)
from ipexctl.errors import HostFailed
from ipexctl.in_ranks import offline_datasets
from tests.refused import refused

SHA = "a" * 64
COMMIT = "c" * 40


@pytest.mark.parametrize(
    ("text", "source", "name"),
    [
        ("hf:acme/tiny", HfSource("", "acme/tiny"), "tiny"),
        ("hf:gpt2", HfSource("", "gpt2"), "gpt2"),
        ("hf:models/acme/tiny@v1.0", HfSource("models", "acme/tiny", "v1.0"), "tiny"),
        ("hf://datasets/acme/rows", HfSource("datasets", "acme/rows"), "rows"),
        ("hf:acme/x@refs/pr/1", HfSource("", "acme/x", "refs/pr/1"), "x"),
        ("https://a.org/x.tar?k=v", UrlSource("https://a.org/x.tar?k=v"), "x.tar"),
        (f"s3://b/set#sha256={SHA}", UrlSource("s3://b/set", SHA), "set"),
    ],
)
def test_a_source_is_a_repository_or_an_address(text: str, source: object, name: str) -> None:
    found = read_source(text)
    assert (found, found.name) == (source, name)


@pytest.mark.parametrize(
    "text", ["", "acme/tiny", "hf:", "hf:a/b/c", "hf:a/../b", "hf:-x/y", "https://", "s3://b#x=1"]
)
def test_what_is_no_source_is_refused(text: str) -> None:
    with refused("source-invalid", repr(text)):
        read_source(text)


def repository(*files: str, revision: str = "main", content: str = SHA) -> Repository:
    found = tuple(RemoteFile(path, f"u/{path}", content, 3, content) for path in files)
    return Repository("models", "acme/tiny", revision, COMMIT, found)


def test_hosts_get_a_hub_cache_in_which_main_is_what_was_pulled() -> None:
    found = repository("config.json", "sub/x.bin", revision="v1")
    tree = hf_tree(found, {SHA: Content(SHA, 3)})
    top = "models--acme--tiny"
    assert [f.path for f in tree.files] == [
        f"{top}/blobs/{SHA}", f"{top}/refs/main", f"{top}/refs/v1",
    ]  # fmt: skip
    assert tree.files[1].sha256 == hashlib.sha256(COMMIT.encode()).hexdigest()
    assert dict(tree.links) == {
        f"{top}/snapshots/{COMMIT}/config.json": f"../../blobs/{SHA}",
        f"{top}/snapshots/{COMMIT}/sub/x.bin": f"../../../blobs/{SHA}",
    }
    assert f"{top}/snapshots/{COMMIT}/sub" in tree.folders
    assert dataset_rules.hf_cache_kind(tree) == "cache"


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", "", ".", "a//b", "x\0"])
def test_a_hub_that_names_files_elsewhere_is_refused(path: str) -> None:
    with refused("hub-answer-invalid"):
        checked_repository(repository(path))


def test_a_hub_that_names_odd_contents_is_refused() -> None:
    with refused("hub-answer-invalid"):
        checked_repository(repository("x", content="../x"))


@pytest.mark.parametrize(
    ("include", "leave_out", "left"),
    [
        ([], [], ["a.bin", "d/b.bin", "d/c.txt"]),
        (["*.bin"], [], ["a.bin", "d/b.bin"]),
        (["d/"], ["*.txt"], ["d/b.bin"]),
        ([], ["*"], []),
    ],
)
def test_patterns_choose_files(include: list[str], leave_out: list[str], left: list[str]) -> None:
    files = repository("a.bin", "d/b.bin", "d/c.txt").files
    assert [f.path for f in choose_remote_files(files, include, leave_out)] == left


def test_a_joined_cache_is_beside_the_datasets_and_nowhere_else() -> None:
    path = "/r/data/a/" + "0" * 16 + "/files"
    row = DatasetRow("a", "0" * 16, 1, 1, path, "", "")
    home = "/r/data/.hubs/" + "1" * 16
    assert dataset_rules.read_held("h", row.replace(hub=home)).hub == home
    for odd in ("/etc", "/r/data/.hubs/../x", home + "/y"):
        with pytest.raises(HostFailed):
            dataset_rules.read_held("h", row.replace(hub=odd))


@pytest.mark.parametrize("offline", [True, False])
def test_load_dataset_gets_the_folder_of_the_cache(
    offline: bool, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "datasets--acme--rows"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs/main").write_text(COMMIT)
    (folder / "snapshots" / COMMIT).mkdir(parents=True)
    hub = SimpleNamespace(constants=SimpleNamespace(HF_HUB_CACHE=str(tmp_path)))
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", hub)
    module = SimpleNamespace(
        config=SimpleNamespace(HF_HUB_OFFLINE=offline),
        dataset_module_factory=lambda path, revision=None, **more: path,
    )
    offline_datasets.look_in_cache(module)
    cached = str(folder / "snapshots" / COMMIT)
    ask = module.dataset_module_factory
    assert ask("acme/rows") == (cached if offline else "acme/rows")
    assert ask("acme/rows", revision=COMMIT) == (cached if offline else "acme/rows")
    assert [ask("acme/other"), ask("csv"), ask(str(tmp_path))] == [
        "acme/other", "csv", str(tmp_path),
    ]  # fmt: skip
