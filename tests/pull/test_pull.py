"""data pull from a server with the hub's API to this machine, by a real agent."""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ipexctl.base.host_outcome import HostState
from ipexctl.data import data
from ipexctl.data.hf_client import HfClient
from ipexctl.data.pull import Pull, Pulled, pull_dataset
from ipexctl.data.rules.pulled_tree import HfSource
from ipexctl.machines.agent import Agent
from ipexctl.machines.target import Target
from ipexctl.run.plan.dataset_variables import data_variables
from ipexctl.terminal.progress import HostProgress
from tests.cli import ipexctl
from tests.pull.hub_server import TOKEN, Hub, served
from tests.refused import refused

pytest.importorskip("huggingface_hub")
LARGE = os.urandom(3 << 20)
FILES: dict[str, bytes | Path] = {"config.json": b"{}", "sub/model.bin": LARGE}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with served(Hub()) as hub:
        hub.add("models", "acme/tiny").files = dict(FILES)
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield hub


def pulled(root: Path, source: str = "hf:acme/tiny", step=lambda step: None, **more) -> Pulled:
    asked = Pull(source, agreed=lambda plan: True, **more)
    return pull_dataset(Target(), asked, HostProgress(step=step), str(root / "root"))


def files_of(hub: Hub) -> list[str]:
    return sorted(s.rpartition("/resolve/")[2][41:] for s in hub.seen if "/resolve/" in s)


def test_a_repository_is_fetched_once_and_found_in_a_hub_cache(hub: Hub, tmp_path: Path) -> None:
    done = pulled(tmp_path)
    assert (done.exit_code, done.fetched) == (0, len(LARGE) + 2)
    commit = hub.repos["models", "acme/tiny"].commit
    repository = "models--acme--tiny"
    for hub_cache in (tmp_path / "root/data/tiny/current/hub", tmp_path / "cache"):
        snapshot = hub_cache / repository / "snapshots" / commit
        assert (snapshot / "sub/model.bin").read_bytes() == LARGE
        assert (snapshot / "config.json").is_symlink()
        assert (hub_cache / repository / "refs/main").read_text() == commit
    again = pulled(tmp_path)
    assert (again.fetched, again.recaps[0].state) == (0, HostState.OK)
    assert files_of(hub) == ["config.json", "sub/model.bin"]


def test_of_many_files_those_that_were_chosen_come(hub: Hub, tmp_path: Path) -> None:
    done = pulled(tmp_path, include=("*.json",))
    assert (done.plan.files, files_of(hub)) == (1, ["config.json"])
    with refused("source-empty"):
        pulled(tmp_path, include=("*.none",))


def test_the_token_goes_to_the_hub_alone(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.repos["models", "acme/tiny"].gated = True
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with served(Hub(repos=hub.repos)) as other:
        hub.elsewhere = other.url
        said: list[str] = []
        assert pulled(tmp_path, step=lambda step: said.append(str(step))).exit_code == 0
        assert {word.partition(": ")[2] for word in other.tokens} == {""}
    assert f"{hub.url[7:]}: Bearer {TOKEN}" in hub.tokens
    kept = [p for p in tmp_path.rglob("*") if p.is_file() and TOKEN.encode() in p.read_bytes()]
    assert (kept, TOKEN in "".join(said)) == ([], False)


def test_a_fetch_that_was_cut_goes_on_where_it_stopped(hub: Hub, tmp_path: Path) -> None:
    hub.cut["sub/model.bin"] = 1 << 20

    def stop(step) -> None:
        if step.done >= 1 << 20:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        pulled(tmp_path, step=stop)
    done = pulled(tmp_path)
    assert done.exit_code == 0
    assert hub.sent["sub/model.bin"] == len(LARGE)
    assert done.fetched <= 2 + len(LARGE) - (1 << 20)


def test_a_connection_that_breaks_is_resumed(hub: Hub, tmp_path: Path) -> None:
    hub.cut["sub/model.bin"] = 1 << 20
    assert pulled(tmp_path).exit_code == 0
    assert hub.sent["sub/model.bin"] == len(LARGE)


@pytest.mark.parametrize("name", ["sub/model.bin", "config.json"])  # sha256, Git's SHA-1
def test_wrong_bytes_are_fetched_again_once(hub: Hub, tmp_path: Path, name: str) -> None:
    hub.wrong[name] = 1
    assert pulled(tmp_path).exit_code == 0
    assert files_of(hub).count(name) == 2
    damaged = next((tmp_path / "cache").rglob(f"snapshots/*/{name}")).resolve()
    damaged.write_bytes(b"x" * damaged.stat().st_size)
    hub.wrong[name] = 2
    with refused("fetch-damaged", name):
        pulled(tmp_path)
    assert not [*(tmp_path / "cache").rglob("*-part")]
    hub.wrong[name] = 0
    assert pulled(tmp_path).recaps[0].state == HostState.OK


def test_too_many_requests_are_waited_for_and_not_for_ever(hub: Hub) -> None:
    waits: list[float] = []
    client = HfClient(HostProgress(), waits.append)
    found = client.look(HfSource("models", "acme/tiny"))
    for after, waited in (("7", 7.0), ("9000", 330.0)):
        hub.busy, hub.after, out = 1, after, io.BytesIO()
        client.bring(out, found.files[0], lambda n: None)
        assert (waits[-1], out.getvalue()) == (waited, b"{}")
    hub.busy = 99
    with refused("pull-failed", "429"):
        client.look(HfSource("models", "acme/tiny"))
    with refused("pull-failed", "429"):
        client.bring(io.BytesIO(), found.files[0], lambda n: None)
    assert len(waits) < 10


def test_what_the_hub_refuses_is_said_with_what_to_do(hub: Hub, tmp_path: Path) -> None:
    hub.repos["models", "acme/tiny"].gated = True
    with refused("hub-refused", "hf auth login", "/acme/tiny", "401"):
        pulled(tmp_path)
    hub.repos["models", "acme/tiny"].private = True
    with refused("repository-not-found", "acme/tiny", "hf auth login"):
        pulled(tmp_path)
    assert not (tmp_path / "root").exists()


def test_a_name_of_a_model_and_a_dataset_is_not_guessed(hub: Hub, tmp_path: Path) -> None:
    hub.add("datasets", "acme/tiny").files = {"rows.csv": b"a\n1\n"}
    with refused("repository-ambiguous", "hf:models/acme/tiny"):
        pulled(tmp_path)
    done = pulled(tmp_path, "hf:datasets/acme/tiny", name="rows")
    assert done.plan.source.startswith("hf:datasets/acme/tiny@")
    assert (tmp_path / "root/data/rows/current/files/datasets--acme--tiny").is_dir()


def test_without_the_library_its_command_is_said(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with refused("hub-library-missing", "ipexctl[hub]"):
        pulled(tmp_path)


def test_a_run_of_two_repositories_finds_both_in_one_cache(
    hub: Hub, tmp_path: Path, agent: Agent
) -> None:
    hub.add("datasets", "acme/rows").files = {"rows.csv": b"a\n1\n"}
    for source in ("hf:acme/tiny", "hf:acme/rows"):
        pulled(tmp_path, source)
    root = tmp_path / "root"
    held = data.use_datasets(agent, str(root), ["tiny", "rows"])
    found = {name: value for name, value, _ in data_variables(held)}
    assert found["HF_HUB_OFFLINE"] == "1"
    names = sorted(os.listdir(Path(found["HF_HOME"], "hub")))
    assert names == ["datasets--acme--rows", "models--acme--tiny"]
    (alone,) = data.use_datasets(agent, str(root), ["rows"])
    assert alone.hub == str(Path(alone.path).parent)
    agent.close()
    assert agent.channel.exit_status(10) is not None
    data.remove_dataset(Target(), "rows", lambda going: True, str(root))
    assert os.listdir(root / "data/.hubs") == []


def test_a_file_at_an_address_is_fetched_once_and_checked(hub: Hub, tmp_path: Path) -> None:
    address = f"{hub.url}/plain/sub/model.bin"
    right = hashlib.sha256(LARGE).hexdigest()
    for fetched in (len(LARGE), 0):
        done = pulled(tmp_path, f"{address}#sha256={right}")
        assert (done.exit_code, done.fetched) == (0, fetched)
    assert (tmp_path / "root/data/model.bin/current/files/model.bin").read_bytes() == LARGE
    with refused("fetch-damaged", "model.bin"):
        pulled(tmp_path, f"{address}#sha256={'0' * 64}")
    assert pulled(tmp_path, f"{address}#sha256={right}").fetched == 0  # the good one stayed
    with refused("pull-failed", "404") as e:
        pulled(tmp_path, f"{hub.url}/nothing")
    assert f"{hub.url}/nothing" in e.value.hint and "again" not in e.value.hint


def test_an_archive_is_unpacked_once_and_its_files_are_the_dataset(
    hub: Hub, tmp_path: Path
) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr("train/a.txt", b"a")
        zipped.writestr("id_rsa", b"secret")
    files = hub.repos["models", "acme/tiny"].files
    files |= {"set.zip": archive.getvalue(), "bad.tar": b"<html>"}
    address, digest = f"{hub.url}/plain/set.zip", hashlib.sha256(archive.getvalue()).hexdigest()
    done = pulled(tmp_path, f"{address}#sha256={digest}", unpack=True)
    assert (done.exit_code, done.plan.name, done.plan.source) == (0, "set", f"{address} (unpacked)")
    held = tmp_path / "root/data/set/current/files"
    assert [str(p.relative_to(held)) for p in sorted(held.rglob("*"))] == ["train", "train/a.txt"]
    (unpacked,) = (tmp_path / "xdg").rglob("unpacked-*")
    before = unpacked.stat()
    again = pulled(tmp_path, address, unpack=True)
    assert (again.fetched, again.recaps[0].state, unpacked.stat()) == (0, HostState.OK, before)
    with refused("fetch-damaged", "set.zip"):
        pulled(tmp_path, f"{address}#sha256={'0' * 64}", unpack=True)
    with refused("archive-invalid", "bad.tar"):
        pulled(tmp_path, f"{hub.url}/plain/bad.tar", unpack=True)
    with refused("source-not-archive", "config.json"):
        pulled(tmp_path, f"{hub.url}/plain/config.json", unpack=True)
    assert files_of(hub) == [] and os.listdir(tmp_path / "root/data") == ["set"]


def test_archives_of_a_repository_become_a_plain_folder(hub: Hub, tmp_path: Path) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr("a.txt", b"a")
    hub.repos["models", "acme/tiny"].files["data/set.zip"] = archive.getvalue()
    done = pulled(tmp_path, unpack=True, leave_out=("sub/",))
    held = tmp_path / "root/data/tiny/current/files"
    assert (done.plan.repository, sorted(os.listdir(held))) == ("", ["config.json", "data"])
    assert os.listdir(held / "data") == ["a.txt"]
    assert not (held.parent / "hub").exists()


def test_other_addresses_are_read_through_fsspec(hub: Hub, tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.pipe({"/bucket/set/a": b"1", "/bucket/set/d/b": LARGE})
    done = pulled(tmp_path, "memory://bucket/set", name="set")
    assert (done.exit_code, done.fetched) == (0, 1 + len(LARGE))
    files = tmp_path / "root/data/set/current/files"
    assert ((files / "a").read_bytes(), (files / "d/b").read_bytes()) == (b"1", LARGE)
    with refused("filesystem-missing"):
        pulled(tmp_path, "nothing-like-it://x/y")
    with refused("pull-failed", "127.0.0.1"):
        pulled(tmp_path, "ftp://127.0.0.1:1/set")


def test_the_plan_is_shown_before_anything_is_fetched(hub: Hub, tmp_path: Path) -> None:
    words = ("data", "pull", "hf:acme/tiny", "--root", str(tmp_path / "root"))
    shown = ipexctl(*words, "--check", "--json")
    said = json.loads(shown.stdout)
    assert (said["done"], said["plan"]["files"], said["plan"]["bytes_to_fetch"]) == (
        False, 2, len(LARGE) + 2,
    )  # fmt: skip
    asked = ipexctl(*words)
    assert (asked.returncode, asked.slug) == (2, "no-terminal")
    assert "2 files, 3.1 MB" in asked.stderr
    assert files_of(hub) == []
    done = ipexctl(*words, "--yes")
    assert done.returncode == 0
    assert "--data tiny" in done.stdout and "'acme/tiny'" in done.stdout
