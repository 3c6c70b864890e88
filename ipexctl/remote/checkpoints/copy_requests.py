"""Answer requests about the copies of checkpoints on a host: list, send and use them."""

import os
import shutil
import time

from ipexctl.common.checkpoint_reports import CopiesReport, Unpublished
from ipexctl.common.files import hash_of, rename_synced, sync_disk
from ipexctl.common.tolerant_reads import names_in
from ipexctl.remote import root_folder
from ipexctl.remote.blobs import blob_server, blobs
from ipexctl.remote.checkpoints import checkpoint_files, checkpoint_rules
from ipexctl.remote.checkpoints.copy_folder import CopyFolder, fetch_blob
from ipexctl.remote.failure import Failure
from ipexctl.remote.run_files import run_folders

CHUNK = 1 << 20
FRESH = ".resumed-"  # begins the name of a folder in which a checkpoint is laid out


def op_list(call, root, run_id):
    """{root, run_id} -> {shelves: [CopiesReport, ...]}: several where hosts share a home."""
    if root_folder.is_absent(root):
        return {"shelves": []}
    top = os.path.join(run_folders.folder_of(root, run_id), "shelf")
    reports = [
        report_checkpoint_copies(name, CopyFolder(os.path.join(top, name)))
        for name in sorted(names_in(top))
    ]
    return {"shelves": [report.document() for report in reports]}


def report_checkpoint_copies(name, copies) -> CopiesReport:
    """Report the complete and the pending checkpoints of a copy folder."""
    pending = os.path.join(copies.folder, "pending.json")
    now = time.time()
    try:
        manifests = list(copies.read_manifests().values())
        rows = checkpoint_files.read_json(pending) if os.path.exists(pending) else []
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise Failure("cannot read %s" % copies.folder, str(e), slug="shelf-unreadable") from None
    shas = {part.sha for manifest in manifests for part in manifest.parts.values()}
    return CopiesReport(
        host=name,
        manifests=manifests,
        held=sorted(sha for sha in shas if copies.has_part(sha)),
        pending=[
            Unpublished(name, step, size, max(0.0, now - written), why)
            for name, step, size, written, why in rows
        ],
    )


def find_copy_folder(root, run_id, shelf):
    top = os.path.join(run_folders.folder_of(root, run_id), "shelf")
    return CopyFolder(run_folders.path_in_run_folder(top, shelf))


def op_part(call, root, run_id, shelf, part):
    """{root, run_id, shelf, part} -> {name, files: [[path below it, sha256, size], ...]}"""
    document = find_copy_folder(root, run_id, shelf).part(part)
    if document is None:
        raise Failure("a part of the checkpoint is gone", slug="checkpoint-gone")
    return document


def op_read(call, root, run_id, shelf, sha256):
    """{root, run_id, shelf, sha256} -> the bytes of a file, in frames."""
    try:
        with open(find_copy_folder(root, run_id, shelf).path(sha256), "rb") as file:
            for chunk in iter(lambda: file.read(CHUNK), b""):
                call.emit({"event": "piece"}, chunk)
    except OSError as e:
        raise Failure("cannot read the checkpoint", e.strerror, slug="checkpoint-gone") from None


def op_serve(call, root, run_id, shelf, wanted, keys):
    """{root, run_id, shelf, wanted: [sha256, ...], keys} -> {port}, until the agent ends."""
    copies = find_copy_folder(root, run_id, shelf)
    paths = {sha: copies.path(sha) for sha in wanted}
    return {"port": blob_server.Server(keys, paths).begin()}


def op_lay_out(call, root, work, name, patterns, files, keys, givers):
    """{root, work, name, patterns, files: [[path below it, sha256, size, giver], ...], keys,
    givers: [{run_id, shelf} here, or {url}, ...]} -> {}: put a checkpoint where the ranks start.

    It has its name once all of its files are there, verified and on the disk. What is in its place
    already, as on the host that wrote it, takes no further space. `patterns`: of the checkpoints of
    this run; without any, nothing that was sent with the project is replaced.
    """
    top = os.path.realpath(work)
    target = run_folders.path_in_run_folder(top, name)
    if not any(checkpoint_rules.matches_checkpoint_glob(name, glob) for glob in patterns or ["**"]):
        why = "--checkpoints does not match it" if patterns else "a part of it is hidden"
        raise not_a_checkpoint(name, why)
    parent = os.path.dirname(target)
    os.makedirs(parent, exist_ok=True)
    if os.path.realpath(parent) != parent:
        raise Failure("%s is reached through a link" % target, slug="checkpoint-not-laid-out")
    if is_laid_out(call, target, files):
        return {}
    if os.path.lexists(target) and not patterns:
        raise not_a_checkpoint(name, "it would replace what was sent with the project")
    fresh = os.path.join(top, FRESH + os.urandom(8).hex())
    size = sum(size for _, _, size, _ in files)
    root_folder.need_space(top, size, len(files))
    os.mkdir(fresh, 0o700)
    try:
        laid = os.path.join(fresh, "laid")
        for below, sha, length, number in files:
            path, giver = (
                run_folders.path_in_run_folder(laid, below) if below else laid,
                givers[number],
            )
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if "url" in giver:
                fetch_blob(fresh, sha, length, keys, giver["url"], call)
                os.rename(blobs.path_of(fresh, sha), path)
            else:
                copy_kept(call, find_copy_folder(root, **giver).path(sha), sha, path)
        sync_disk(fresh)
        if os.path.lexists(target):  # sent with the project, or of an earlier attempt
            os.rename(target, os.path.join(fresh, "before"))
        rename_synced(laid, target)
    except OSError as e:
        raise root_folder.write_failure(e, top, size) from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return {}


def not_a_checkpoint(name, why):
    what = "%s is not laid out as a checkpoint" % name
    return Failure(what, why, "--checkpoints GLOB   # one that matches it", slug="checkpoint-name")


def is_laid_out(call, target, files):
    present = checkpoint_files.list_checkpoint_files(target) or {}
    if {below: info[0] for below, info in present.items()} != {row[0]: row[2] for row in files}:
        return False
    places = (
        (checkpoint_files.checkpoint_file_path(target, below), sha) for below, sha, _, _ in files
    )
    return all(read_through(call, path) == sha for path, sha in places)


def copy_kept(call, source, sha, path):
    """Copy a file of a checkpoint that this host holds, and verify its hash."""
    with open(path, "wb") as copy:
        digest = read_through(call, source, copy.write)
    if digest != sha:
        raise Failure("a file of the checkpoint is corrupt: %s" % source, slug="checkpoint-corrupt")


def read_through(call, path, write=len):
    """Return the file's sha256; `write` gets its bytes."""

    def take(piece):
        write(piece)
        call.emit({"event": "alive"})

    with open(path, "rb") as file:
        return hash_of(file, take).hexdigest()
