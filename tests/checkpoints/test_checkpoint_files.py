"""Checkpoints on a disk: what is found, what is finished, what is kept, and what is removed."""

from __future__ import annotations

import json
import os
import zipfile

import pytest

from ipexctl.blobs.tls_keys import make_keys
from ipexctl.common.checkpoint_reports import CopiedPart, Manifest
from ipexctl.remote.blobs import blob_server, blobs
from ipexctl.remote.checkpoints import checkpoint_files as files
from ipexctl.remote.checkpoints import copy_folder, copy_requests
from ipexctl.remote.checkpoints.copy_folder import Changed, CopyFolder, FilesBySha
from ipexctl.remote.failure import Failure

RUN = "20261126-000000-abcdef"


class Call:
    def emit(self, event, body=b""):
        pass


def zipped(path, size=1000):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", os.urandom(size))


def safetensors(path, size=64):
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(size))


def found(folder, *patterns):
    return files.found_in(str(folder), patterns)


def why(folder, name):
    return files.why_checkpoint_unfinished(str(folder / name), found(folder, name)[name])


def test_matches_are_the_outermost_files_and_folders_that_are_not_reached_through_links(tmp_path):
    zipped(tmp_path / "out/checkpoint-1/model.pt")
    zipped(tmp_path / "out/checkpoint-1/checkpoint-x/model.pt")
    zipped(tmp_path / "elsewhere/checkpoint-2/model.pt")
    (tmp_path / "out/checkpoint-3").symlink_to(tmp_path / "elsewhere/checkpoint-2")
    assert set(found(tmp_path, "out/**/checkpoint-*")) == {"out/checkpoint-1"}
    assert set(found(tmp_path, "*/*/model.pt", "out/*")) == {
        "out/checkpoint-1",
        "elsewhere/checkpoint-2/model.pt",
    }
    (tmp_path / "out/checkpoint-1/link").symlink_to("model.pt")
    assert found(tmp_path, "out/*")["out/checkpoint-1"] is None


@pytest.mark.parametrize("name", ["m.pt", "m.ckpt", "optimizer.bin"])
def test_a_file_of_torch_is_finished_when_its_end_is_there(tmp_path, name):
    zipped(tmp_path / name)
    assert why(tmp_path, name) == ""
    data = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(data[: len(data) - 30])
    assert why(tmp_path, name)
    (tmp_path / name).write_bytes(b"")
    assert why(tmp_path, name)


def test_safetensors_are_finished_when_all_tensors_are_there(tmp_path):
    safetensors(tmp_path / "m.safetensors")
    assert why(tmp_path, "m.safetensors") == ""
    data = (tmp_path / "m.safetensors").read_bytes()
    for cut in (4, 12, len(data) - 1):
        (tmp_path / "m.safetensors").write_bytes(data[:cut])
        assert why(tmp_path, "m.safetensors")


def test_trainers_state_has_to_be_readable_and_an_index_names_its_files(tmp_path):
    folder = tmp_path / "checkpoint-1"
    zipped(folder / "model.pt")
    (folder / "trainer_state.json").write_text('{"global_step": ')
    assert why(tmp_path, "checkpoint-1")
    (folder / "trainer_state.json").write_text("{}")
    assert why(tmp_path, "checkpoint-1") == ""
    (folder / "m.index.json").write_text('{"weight_map": {"a": "m1.bin", "b": "m2.bin"}}')
    (folder / ".metadata").write_bytes(b"\x80__0_0.distcp..__1_0.distcp")
    needed = files.list_indexed_files(str(folder), found(tmp_path, "*")["checkpoint-1"])
    assert needed == ["__0_0.distcp", "__1_0.distcp", "m1.bin", "m2.bin"]


@pytest.fixture
def copies(tmp_path):
    root = tmp_path / "root"
    (root / "runs" / RUN / "copies").mkdir(mode=0o700, parents=True)
    root.chmod(0o700)
    made = CopyFolder(str(root / "runs" / RUN / "copies" / "a"))
    made.make()
    return made


def kept(copies, work, name):
    return copies.keep(str(work), files.files_of_checkpoint(found(work, name)))


def published(copies, number, name, sha):
    part = CopiedPart(sha, os.path.getsize(copies.path(sha)), 1)
    copies.publish(Manifest(name, number, 0.0, {"a": part}, number, {"a": ["a"]}))
    return part


def stored(copies):
    return {name for _, _, names in os.walk(os.path.join(copies.folder, "blobs")) for name in names}


def test_unchanged_files_are_stored_once_and_what_nothing_needs_goes(copies, tmp_path):
    work = tmp_path / "work"
    for step in (1, 2, 3):
        zipped(work / f"c-{step}/model.pt")
        (work / f"c-{step}/config.json").write_text("{}")
        published(copies, step, f"c-{step}", kept(copies, work, f"c-{step}"))
    assert len(stored(copies)) == 3 + 3 + 1
    copies.remove_unneeded([])
    assert sorted(copies.read_manifests()) == [2, 3]
    assert len(stored(copies)) == 2 + 2 + 1
    assert all(copies.has_part(m.parts["a"].sha) for m in copies.read_manifests().values())
    zipped(work / "c-4/model.pt")
    sha = kept(copies, work, "c-4")
    copies.remove_unneeded([sha])
    assert copies.has_part(sha)
    copies.remove_unneeded([])
    assert not copies.has_part(sha)


def test_what_the_script_changes_is_not_kept(copies, tmp_path):
    zipped(tmp_path / "work/c-1/model.pt")
    before = found(tmp_path / "work", "c-1")["c-1"]
    zipped(tmp_path / "work/c-1/model.pt", 2000)
    with pytest.raises(Changed):
        copies.keep(str(tmp_path / "work"), files.files_of_checkpoint({"c-1": before}))


def test_a_full_disk_is_left_alone(copies):
    with pytest.raises(Failure) as e:
        copies.need_room(1 << 60)
    assert e.value.slug == "no-space"


def test_only_what_is_not_copied_yet_needs_room(copies, tmp_path, monkeypatch):
    work, asked = tmp_path / "work", []
    monkeypatch.setattr(copies, "need_room", asked.append)
    zipped(work / "c-1/model.pt")
    (work / "c-1/config.json").write_text("{}")
    kept(copies, work, "c-1")
    (work / "c-1/config.json").write_text("{ }")
    kept(copies, work, "c-1")
    assert asked == [(work / "c-1/model.pt").stat().st_size + 2, 3]


def test_a_checkpoint_that_is_in_its_place_takes_no_further_room(copies, tmp_path, monkeypatch):
    def refuse(*_):
        raise Failure("full", slug="no-space")

    work, here = tmp_path / "work", {"run_id": RUN, "holder": "a"}
    zipped(work / "c-1/model.pt")
    sha = kept(copies, work, "c-1")
    monkeypatch.setattr(copy_requests.root_folder, "need_space", refuse)
    lay_out(copies, work, sha, here)
    written = (work / "c-1/model.pt").read_bytes()
    (work / "c-1/model.pt").write_bytes(b"x" * len(written))  # of the same size
    with pytest.raises(Failure):
        lay_out(copies, work, sha, here)


def lay_out(copies, work, sha, giver, keys=None, members=("c-1",)):
    part = copies.part(sha)
    rows = [[below, file, size, 0] for below, file, size in part["files"]]
    root = copies.folder.partition("/runs/")[0]
    asked = {"root": root, "work": str(work), "name": part["name"], "files": rows}
    asked.update(patterns=["out/*", "c-*"], members=members)
    return copy_requests.op_lay_out(Call(), **dict(asked, givers=[giver], keys=keys))


@pytest.mark.parametrize("name", ["out/c-1", "out/last.ckpt"])
def test_a_checkpoint_is_laid_out_with_its_hashes_verified(copies, tmp_path, name):
    zipped(tmp_path / "work" / (name if "." in name else f"{name}/model.pt"))
    sha, new = kept(copies, tmp_path / "work", name), tmp_path / "new"
    (new / "out").mkdir(parents=True)
    if "." not in name:  # sent with the project
        zipped(new / name / "old.pt")
    here = {"run_id": RUN, "holder": "a"}
    lay_out(copies, new, sha, here, members=[name])
    before, after = (
        files.list_checkpoint_files(str(top / name)) for top in (tmp_path / "work", new)
    )
    assert {k: v[0] for k, v in before.items()} == {k: v[0] for k, v in after.items()}
    assert os.listdir(new) == ["out"]
    path = copies.path(copies.part(sha)["files"][0][1])
    with open(path, "r+b") as file:
        file.write(b"xx")
    (new / "out").rename(new / "kept")
    with pytest.raises(Failure) as e:
        lay_out(copies, new, sha, here, members=[name])
    assert e.value.slug == "checkpoint-corrupt"
    assert not (new / name).exists()


def test_a_partner_fetches_what_it_lacks_and_a_checkpoint_is_laid_out_from_there(copies, tmp_path):
    zipped(tmp_path / "work/c-1/model.pt", 5 << 20)
    (tmp_path / "work/c-1/blobs").mkdir()
    (tmp_path / "work/c-1/blobs/x.json").write_text("{}")
    sha = kept(copies, tmp_path / "work", "c-1")
    keys = make_keys()
    server = blob_server.Server(keys, FilesBySha([copies]))
    url = f"https://127.0.0.1:{server.begin()}"
    other = CopyFolder(str(tmp_path / "root/runs" / RUN / "shelf/b"))
    other.make()
    other.fetch(sha, os.path.getsize(copies.path(sha)), keys, url)
    assert other.has_part(sha)
    new = tmp_path / "new"
    new.mkdir()
    lay_out(other, new, sha, {"url": url}, keys)
    assert (new / "c-1/blobs/x.json").read_text() == "{}"
    blobs.try_unlink(copies.path(copies.part(sha)["files"][0][1]))
    with pytest.raises(Failure):
        copy_folder.fetch_blob(str(tmp_path / "x"), "0" * 64, 5, keys, url)
    server.shutdown()


def test_a_host_reports_what_is_intact(copies, tmp_path):
    zipped(tmp_path / "work/c-1/model.pt")
    sha = kept(copies, tmp_path / "work", "c-1")
    published(copies, 1, "c-1", sha)
    asked = {"root": str(tmp_path / "root"), "run_id": RUN}
    (row,) = copy_requests.op_list(Call(), **asked).reports
    assert (row.host, row.held, row.manifests[0].number) == ("a", [sha], 1)
    blobs.try_unlink(copies.path(copies.part(sha)["files"][0][1]))
    assert copy_requests.op_list(Call(), **asked).reports[0].held == []
    assert copy_requests.op_list(Call(), **dict(asked, root=str(tmp_path / "none"))).reports == []
