"""Keep the root small: rules for what is removed of runs and projects.

Ended runs that are not among the newest lose the files that equal the project's: these can be
sent again. Files that ranks wrote or changed, and the logs, are removed with the run, when many
newer ones exist and it ended long ago.
Projects lose blobs and packs that only the least recently used versions need, until the rest is
within the limit. What an environment needs, and whatever is in use, stays.
"""

import glob
import os
import shutil
import stat
import time

from ipexctl.common.files import read_json
from ipexctl.common.removal_answers import HostPruned, KindPruned, RunRemoved
from ipexctl.common.tolerant_reads import changed_at
from ipexctl.remote import disk_use, root_folder, scratch_folder
from ipexctl.remote.blobs import blobs, packs
from ipexctl.remote.data import dataset_versions
from ipexctl.remote.failure import Failure
from ipexctl.remote.heartbeat import Heartbeat
from ipexctl.remote.install import needed_blobs
from ipexctl.remote.project import ended_copy, synced_folders
from ipexctl.remote.run_files import queued_runs, run_about, run_folders

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Container, Iterable, Iterator
    from typing import Any

    from ipexctl.remote.main import Call

    Limits = dict[str, Any]
    Tree = dict[str, Any]

KINDS = ("runs", "copies", "blobs")
MOST_NAMED = 1000  # removed runs that are named: a message has a limit
MB = 1000 * 1000
PROGRAMS = ("bootstrap", "hosts")
UNNAMED = 7 * 86400  # seconds that a blob is kept that no project and no environment names
GONE = ".removed-"  # prefix of the name of a run's folder while it is removed
ENDING = 20.0  # seconds: keepers of an ended run stay until all its hosts know of the end


def op_prune(call: "Call", root: str, limits: "Limits", check: bool) -> HostPruned:
    """Remove what exceeds the limits; with `check` only look."""
    if root_folder.is_absent(root):
        return HostPruned()
    pruning = Pruning(root_folder.prepare_root(root), limits, check is True)
    with Heartbeat(call):
        if not pruning.check:
            run_folders.sweep_run_folders(pruning.root)
            scratch_folder.sweep_scratch_folders()
        pruning.prune_runs()
        pruning.prune_blobs()
    found = [KindPruned(kind, *pruning.found[kind]) for kind in KINDS if pruning.found[kind][0]]
    return HostPruned(found, pruning.runs[:MOST_NAMED])


def op_remove_run(call: "Call", root: str, run_id: str) -> RunRemoved:
    """Remove the folder of a run. Raises Failure while the run is active.

    Hosts that share the folder all do this: the first one removes it, and the others have nothing
    to remove.
    """
    run = run_folders.checked_id(run_id)
    root = root_folder.check_existing_root(root)
    folder, removed = (os.path.join(root, "runs", name) for name in (run, GONE + run))
    lock, end = None, time.monotonic() + ENDING
    while lock is None:
        if not os.path.isdir(folder) or os.path.islink(folder):
            return RunRemoved(False)
        lock = None if run in run_folders.list_active_runs(root) else run_folders.lock_run(folder)
        if lock is None and time.monotonic() > end:
            raise Failure(
                "the run %s is still active" % run, hint="ipexctl stop %s" % run, slug="run-active"
            )
        time.sleep(0.0 if lock else 0.1)
    try:
        os.rename(folder, removed)
    except FileNotFoundError:
        return RunRemoved(False)
    finally:
        os.close(lock)
    shutil.rmtree(removed, ignore_errors=True)
    if os.path.lexists(removed):
        raise Failure(
            "cannot remove all of %s" % removed,
            "files of another user may be in it",
            slug="not-removed",
        )
    return RunRemoved(True)


class Pruning:
    def __init__(self, root: str, limits: "Limits", check: bool) -> None:
        self.root, self.limits, self.check = root, limits, check
        self.found = {kind: [0, 0] for kind in KINDS}
        self.runs = []  # type: list[tuple[str, str]]  # that are removed: id and name
        self.active = {*run_folders.list_active_runs(root), *queued_runs.list_queued_runs(root)}

    def count(self, kind: str, size: int) -> None:
        self.found[kind][0] += 1
        self.found[kind][1] += size

    # --- runs ---

    def prune_runs(self) -> None:
        """Remove old runs, and unchanged project files of runs that are not among the newest."""
        leftovers = glob.glob(os.path.join(self.root, "runs", GONE + "*"))  # of killed processes
        for folder in [] if self.check else leftovers:
            shutil.rmtree(folder, ignore_errors=True)
        newest_first = run_folders.run_ids(self.root)[::-1]
        removed = self.list_removed_runs(newest_first)
        for i, name in enumerate(newest_first):
            folder = os.path.join(self.root, "runs", name)
            if name in self.active:
                continue
            if name in removed:
                self.remove_run(folder)
            elif i >= self.limits["copies"]:
                self.remove_project_copy(folder)

    def list_removed_runs(self, newest_first: "list[str]") -> "set[str]":
        """Return runs beyond the limits. Several people may share this account: each has a count of
        their own, and nobody's limits are stricter for the runs of others."""
        strictest = min(
            [n for n in (self.limits["runs"], self.limits["others"]["runs"]) if n] or [0]
        )
        if not strictest or len(newest_first) <= strictest:
            return set()
        removed = set()  # type: set[str]
        counts = {}  # type: dict[str, int]
        for name in newest_first:
            folder = os.path.join(self.root, "runs", name)
            owner = run_about.read_about(folder).by
            limits = self.limits if owner in ("", self.limits["by"]) else self.limits["others"]
            place = counts[owner] = counts.get(owner, 0) + 1
            oldest = time.time() - limits["days"] * 86400
            is_beyond = limits["runs"] and place > limits["runs"]
            if is_beyond and run_folders.last_written(folder) <= oldest:
                removed.add(name)
        return removed

    def remove_run(self, folder: str) -> None:
        """Remove the folder of a run unless it is active."""
        lock = run_folders.lock_run(folder)
        if lock is None:
            return
        try:
            name = run_about.read_about(folder).name[:64]
            self.runs.append((os.path.basename(folder), name))
            self.count("runs", disk_use.size_of(folder))
            if not self.check:
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)

    def remove_project_copy(self, folder: str) -> None:
        """Remove the files of a run that are still as they were sent."""
        tree = read_json(os.path.join(folder, "tree"))  # None if it was removed before
        lock = run_folders.lock_run(folder) if tree else None
        if tree is None or lock is None:
            return
        try:
            work = os.fsencode(os.path.realpath(os.path.join(folder, "work")))
            size = self.remove_equal_files(work, tree)
            if size:
                self.count("copies", size)
            if not self.check:
                remove_skeleton(work, tree)
                for name in (*PROGRAMS, "tree", ended_copy.PLACED):
                    blobs.try_unlink(os.path.join(folder, name))
        finally:
            os.close(lock)

    def remove_equal_files(self, work: bytes, tree: "Tree") -> int:
        """Remove the files that are as they were sent. Return their bytes."""
        total, folders = 0, ended_copy.RealFolders(work)
        for name, sha, size, _ in tree["files"]:
            path = synced_folders.checked_path_below(work, name)
            try:
                info = os.lstat(path)
                if not stat.S_ISREG(info.st_mode) or info.st_size != size:
                    continue
                if not folders.is_real(path) or not blobs.has_content(path, sha):
                    continue
                if not self.check:
                    os.unlink(path)
            except OSError:
                continue
            total += info.st_blocks * 512
        return total

    # --- blobs, packs and lists of files ---

    def prune_blobs(self) -> None:
        """Remove blobs, packs and lists of files that neither projects nor environments need."""
        if self.is_push_underway():
            return
        trees, removed = self.split_trees()
        kept_shas = {sha for tree in trees for sha in sizes_by_sha(tree)}
        removed_shas = {sha for _, tree in removed for sha in sizes_by_sha(tree)} - kept_shas
        needed = needed_blobs.needed_blobs(self.root)
        old = time.time() - UNNAMED
        idle = []
        for path, size, modified in needed_blobs.kept_blobs(self.root):
            sha = os.path.basename(path)
            is_unnamed = sha not in kept_shas and modified < old
            if sha not in needed and (sha in removed_shas or is_unnamed):
                idle.append((path, size))
        idle += self.list_unneeded_packs(kept_shas)
        if self.check:
            self.count_all(idle)
            return
        with blobs.lock_for_removal(self.root) as is_free:  # if not, the next prune removes them
            for path in [path for path, _ in idle + removed] if is_free else ():
                blobs.try_unlink(path)
        if is_free:
            self.count_all(idle)

    def count_all(self, idle: "Iterable[tuple[str, int]]") -> None:
        for _, size in idle:
            self.count("blobs", size)

    def is_push_underway(self) -> bool:
        """Return whether a push needs files that are here, but has not taken them yet."""
        data = os.path.join(self.root, "data")
        tops = [os.path.join(data, name) for name in dataset_versions.dataset_names(self.root)]
        rooms = [(top, room) for top in tops for room in dataset_versions.version_folders(top)]
        locks = [os.path.join(top, room, "lock") for top, room in rooms if room.startswith(".")]
        return any(map(run_folders.is_locked, locks))

    def split_trees(self) -> "tuple[list[Tree], list[tuple[str, Tree]]]":
        """Return (trees to keep, (path, tree) of those to remove)."""
        kept_trees, removed, size = [], [], 0  # type: list[Tree], list[tuple[str, Tree]], int
        present = set(packs.Packs(self.root).where)
        present.update(os.path.basename(path) for path, _, _ in needed_blobs.kept_blobs(self.root))
        for path, tree in trees_of(self.root):
            new_sizes = {sha: n for sha, n in sizes_by_sha(tree).items() if sha in present}
            size += sum(new_sizes.values())
            if kept_trees and size > self.limits["project_mb"] * MB:
                removed.append((path, tree))
                size -= sum(new_sizes.values())
            else:
                kept_trees.append(tree)
                present.difference_update(new_sizes)
        return kept_trees, removed

    def list_unneeded_packs(self, shas: "Container[str]") -> "list[tuple[str, int]]":
        """Return (path, bytes) of the packs that hold no file of the kept trees."""
        stored = packs.Packs(self.root)
        used = {path for sha, (path, _, _) in stored.where.items() if sha in shas}
        return [(path, size) for path, size in sorted(stored.sizes.items()) if path not in used]


def remove_skeleton(work: bytes, tree: "Tree") -> None:
    """Remove links that are as they were sent, and folders that are empty now."""
    folders = ended_copy.RealFolders(work)
    for name, target in tree["links"]:
        path = synced_folders.checked_path_below(work, name)
        if folders.is_real(path) and dataset_versions.is_link(path, target):
            blobs.try_unlink(path)
    for name in sorted(tree["folders"], reverse=True):
        path = synced_folders.checked_path_below(work, name)
        try:
            if folders.is_real(path):
                os.rmdir(path)
        except OSError:
            continue


def trees_of(root: str) -> "Iterator[tuple[str, Tree]]":
    """Yield (path, tree) of each folder that was sent, the most recently used one first."""
    top = os.path.join(root, "blobs", "trees")
    paths = glob.glob(os.path.join(glob.escape(top), "*"))
    for path in sorted(paths, key=changed_at, reverse=True):
        tree = read_json(path) if blobs.SHA.match(os.path.basename(path)) else None
        if tree:
            yield path, tree


def sizes_by_sha(tree: "Tree") -> "dict[str, int]":
    return {sha: size for _, sha, size, _ in tree["files"]}
