"""Datasets under ROOT/data/NAME/VERSION: read by many runs, changed by none.

    VERSION/files    as they were pushed, 0444
    VERSION/hub      a link to it, where it is a hub cache: VERSION is then an HF_HOME
    VERSION/tree     the list of its files, written last
    VERSION/lock     runs hold it shared; only a version that no other process locks is removed
    .VERSION         one that is being built
    current          a link to the version that runs get

A version is built beside the others and gets its name at the end, so a push that was cut goes on
where it stopped. What an older version or another dataset has is linked, not sent: each content is
on the disk once. A run holds a lock on its version; what is in use is not removed. Modules:
dataset_versions.py looks and removes, dataset_build.py builds and repairs.
"""

import os

from ipexctl.common.folder_answers import (
    DatasetBusy,
    DatasetRemoved,
    DatasetSame,
    DatasetsHeld,
    FolderAnswer,
    ListUnknown,
)
from ipexctl.remote import root_folder
from ipexctl.remote.blobs import blobs
from ipexctl.remote.data import dataset_build, dataset_versions
from ipexctl.remote.heartbeat import Heartbeat
from ipexctl.remote.project import synced_folders

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from ipexctl.remote.blobs.packs import Pack
    from ipexctl.remote.main import Call

SHORT = dataset_build.SHORT
held_locks = []  # type: list[int]  # the locks of the versions that the run of this agent uses


def op_make(
    call: "Call",
    root: str,
    name: str,
    key: str,
    hub: "str | bool" = False,
    source: "str | None" = None,
    wait: bool = True,
) -> FolderAnswer:
    """Make this version of the dataset. The body is the list of files, or nothing if it should be
    known here. `source`: where it is pushed from, in words. Without `wait` the answer is
    DatasetBusy if another push makes it.

    What is missing comes as blobs and by op_take, then this is asked again.
    """
    root = root_folder.prepare_root(root)
    with Heartbeat(call):
        return make_dataset(call, root, name, key, hub, source, wait)


def make_dataset(
    call: "Call",
    root: str,
    name: str,
    key: str,
    hub: "str | bool",
    source: "str | None",
    wait: bool,
) -> FolderAnswer:
    """Place what this host has; complete the version, or report which files are missing."""
    top = dataset_versions.dataset_folder(root, name)
    is_begun = (top, key) in dataset_build.parts
    if not is_begun and dataset_versions.is_intact(top, key[:SHORT]):
        return dataset_build.unchanged(top, key[:SHORT])
    tree = synced_folders.read_file_list(root, key, call.body)
    if tree is None:
        return ListUnknown()
    part = dataset_build.claim_part(call, root, top, key, tree, wait)
    if isinstance(part, str):  # BUSY
        return DatasetBusy()
    if part is None:
        return dataset_build.unchanged(top, key[:SHORT])
    missing = part.place_present_files()
    if not missing:
        return part.complete_version(hub, source)
    return synced_folders.missing_of(missing, len(tree["files"]))


def op_take(
    call: "Call", root: str, name: str, key: str, packs: "list[Pack]", **make: object
) -> None:
    """Put the files of packs that have come as blobs in their places, and remove these blobs."""
    root = root_folder.prepare_root(root)
    part = dataset_build.parts[dataset_versions.dataset_folder(root, name), key]
    with Heartbeat(call):
        for pack in packs:
            part.unpack_pack(pack)
    blobs.remove_blobs(root, [pack[0] for pack in packs])


def op_drop(call: "Call", root: str, name: str, key: str, **make: object) -> None:
    """Give up what op_make began: it will not be completed. A process that waits takes over."""
    part = dataset_build.parts.get(
        (dataset_versions.dataset_folder(root_folder.prepare_root(root), name), key)
    )
    if part is not None:
        part.close()


def op_look(call: "Call", root: str, name: str, key: str) -> DatasetSame:
    """Say whether a push would change nothing. Creates nothing."""
    if root_folder.is_absent(root):
        return DatasetSame(False)
    root = root_folder.prepare_root(root)
    top = dataset_versions.dataset_folder(root, name, make=False)
    with Heartbeat(call):
        return DatasetSame(dataset_versions.is_intact(top, key[:SHORT]))


def op_list(call: "Call", root: str) -> DatasetsHeld:
    """List all datasets, including incomplete ones. Creates nothing, not even ROOT."""
    if root_folder.is_absent(root):
        return DatasetsHeld([])
    root = root_folder.prepare_root(root)
    tops = [os.path.join(root, "data", name) for name in dataset_versions.dataset_names(root)]
    return DatasetsHeld([dataset_versions.dataset_row(top) for top in tops])


def op_use(call: "Call", root: str, names: "list[str]") -> DatasetsHeld:
    """Lock those that are here until this agent ends. Several caches of the Hugging Face Hub are
    joined."""
    root = root_folder.prepare_root(root)
    rows = []
    for name in names:
        top = dataset_versions.dataset_folder(root, name, make=False)
        version, lock = dataset_versions.lock_current(top)
        if lock is not None:
            held_locks.append(lock)
            rows.append(dataset_versions.version_row(top, version))
    hf_homes = [row.hub for row in rows if row.hub]
    if len(hf_homes) > 1:
        home = dataset_versions.join_hf_homes(root, hf_homes)
        rows = [row.replace(hub=home) if row.hub else row for row in rows]
    return DatasetsHeld(rows)


def op_remove(call: "Call", root: str, name: str) -> DatasetRemoved:
    """Remove all versions or nothing."""
    root = root_folder.prepare_root(root)
    top = dataset_versions.dataset_folder(root, name, make=False)
    if not os.path.isdir(top):
        return DatasetRemoved()
    with open(os.path.join(root, "data", ".lock"), "w") as lock:
        blobs.wait_for_lock(call, lock.fileno())  # for another host with the same home
        if not os.path.isdir(top):
            return DatasetRemoved()
        size = dataset_versions.disk_usage(top)[1]
        busy = dataset_versions.retire_all(top)
        if busy:
            pushed = sum(name.startswith(".") for name in busy)
            return DatasetRemoved(used=len(busy) - pushed, pushed=pushed)
        dataset_versions.remove_folder(top)
        dataset_versions.remove_broken_hf_homes(root)
    return DatasetRemoved(size)
