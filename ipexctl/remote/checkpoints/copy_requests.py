"""Answer requests about the copies of checkpoints on a host: list, send and use them."""

import os
import shutil
import time

from ipexctl.common.checkpoint_reports import (
    CopiesReport,
    CopiesReports,
    PartFiles,
    Unpublished,
)
from ipexctl.common.files import hash_of, rename_synced, sync_disk
from ipexctl.common.port_answers import PortOpened
from ipexctl.common.tolerant_reads import names_in
from ipexctl.remote import root_folder
from ipexctl.remote.blobs import blob_server, blobs
from ipexctl.remote.checkpoints import checkpoint_files, checkpoint_rules
from ipexctl.remote.checkpoints.copy_folder import CopyFolder, fetch_blob, place_below
from ipexctl.remote.failure import Failure
from ipexctl.remote.run_files import run_folders

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable, Sequence

    from ipexctl.remote.checkpoints.copy_folder import Row
    from ipexctl.remote.main import Call, Emitter

    Giver = dict[str, str]  # run_id and holder here, or url

CHUNK = 1 << 20
FRESH = ".resumed-"  # begins the name of a folder in which a checkpoint is laid out


def op_list(call: "Call", root: str, run_id: str) -> CopiesReports:
    """Report the copies of checkpoints of a run here."""
    if root_folder.is_absent(root):
        return CopiesReports([])
    top = os.path.join(run_folders.folder_of(root, run_id), run_folders.COPIES)
    return CopiesReports(
        [
            report_checkpoint_copies(name, CopyFolder(os.path.join(top, name)))
            for name in sorted(names_in(top))
        ]
    )


def report_checkpoint_copies(name: str, copies: "CopyFolder") -> CopiesReport:
    """Report the complete and the pending checkpoints of a copy folder."""
    pending = os.path.join(copies.folder, "pending.json")
    now = time.time()
    try:
        manifests = list(copies.read_manifests().values())
        rows = checkpoint_files.read_json(pending) if os.path.exists(pending) else []
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise Failure("cannot read %s" % copies.folder, str(e), slug="copies-unreadable") from None
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


def find_copy_folder(root: str, run_id: str, holder: str) -> "CopyFolder":
    top = os.path.join(run_folders.folder_of(root, run_id), run_folders.COPIES)
    return CopyFolder(run_folders.path_in_run_folder(top, holder))


def op_part(call: "Call", root: str, run_id: str, holder: str, part: str) -> PartFiles:
    """Return the files of a part. `holder`: the host whose copies are meant, of a shared home."""
    document = find_copy_folder(root, run_id, holder).part(part)
    if document is None:
        raise Failure("a part of the checkpoint is gone", slug="checkpoint-gone")
    return PartFiles.read(document)


def op_read(call: "Call", root: str, run_id: str, holder: str, sha256: str) -> None:
    """Send the bytes of a file, in frames."""
    try:
        with open(find_copy_folder(root, run_id, holder).path(sha256), "rb") as file:
            for chunk in iter(lambda: file.read(CHUNK), b""):
                call.emit({"event": "piece"}, chunk)
    except OSError as e:
        raise Failure(
            "cannot read the checkpoint", e.strerror or "", slug="checkpoint-gone"
        ) from None


def op_serve(
    call: "Call", root: str, run_id: str, holder: str, wanted: "list[str]", keys: "dict[str, str]"
) -> PortOpened:
    """Serve these files by their sha256 to other hosts, until the agent ends."""
    copies = find_copy_folder(root, run_id, holder)
    paths = {sha: copies.path(sha) for sha in wanted}
    return PortOpened(blob_server.Server(keys, paths).begin())


def op_lay_out(
    call: "Emitter",
    root: str,
    work: str,
    name: str,
    patterns: "list[str]",
    files: "list[Row]",
    keys: "dict[str, str]",
    givers: "list[Giver]",
    members: "Sequence[str]" = (),
    aside: str = "",
) -> None:
    """Put a checkpoint where the ranks start.

    `files`: [path below `name`, sha256, size, number of its giver]; `givers`: {run_id, holder}
    here, or {url}. `members`: the names below `work` of which it consists, with files below `name`,
    "." for the folder of the ranks; none: it is one name. Each has its name once its files are
    there, verified and on the disk. What is in its place already, as on the host that wrote it,
    takes no further space; what is replaced goes to the folder `aside` if that is given.
    `patterns`: of the checkpoints of this run; without any, nothing that was sent with the project
    is replaced.
    """
    top = os.path.realpath(work)
    rows = {}  # type: dict[str, Row]
    for below, *row in files:
        rows.setdefault(place_below(name, below), row)
    paths_of = sort_out_members(top, members or [name], patterns, rows)
    wrong = {
        m: paths for m, paths in paths_of.items() if not is_laid_out(call, top, m, paths, rows)
    }
    for member in wrong:
        if os.path.lexists(os.path.join(top, member)) and not patterns:
            raise not_a_checkpoint(member, "it would replace what was sent with the project")
    needed = [rows[path] for paths in wrong.values() for path in paths]
    size = sum(row[1] for row in needed)
    if wrong:
        root_folder.need_space(top, size, len(needed))
        lay_out_members(call, root, top, (wrong, rows, size), (keys, givers), aside)


def sort_out_members(
    top: str, members: "Sequence[str]", patterns: "list[str]", rows: "dict[str, Row]"
) -> "dict[str, list[str]]":
    """Return {member: paths of its files}. Raise Failure if it may not be laid out."""
    sorted_paths = {member: [] for member in members}  # type: dict[str, list[str]]
    for member in members:
        run_folders.path_in_run_folder(top, member)
        globs = patterns or ["**"]
        if not any(checkpoint_rules.matches_checkpoint_glob(member, glob) for glob in globs):
            why = "--checkpoints does not match it" if patterns else "a part of it is hidden"
            raise not_a_checkpoint(member, why)
    for path in rows:
        run_folders.path_in_run_folder(top, path)
        inside = [m for m in members if path == m or path.startswith(m + "/")]
        if not inside:
            raise not_a_checkpoint(path, "it is not a part of %s" % ", ".join(members))
        sorted_paths[inside[0]].append(path)
    for member in members:
        parent = os.path.dirname(os.path.join(top, member))
        os.makedirs(parent, exist_ok=True)
        if os.path.realpath(parent) != parent:
            what = "%s is reached through a link" % os.path.join(top, member)
            raise Failure(what, slug="checkpoint-not-laid-out")
    return {member: paths for member, paths in sorted_paths.items() if paths}


def lay_out_members(
    call: "Emitter",
    root: str,
    top: str,
    wanted: "tuple[dict[str, list[str]], dict[str, Row], int]",
    source: "tuple[dict[str, str], list[Giver]]",
    aside: str,
) -> None:
    """Stage the files of all members, then put each member into its place."""
    (members, rows, size), (keys, givers) = wanted, source
    fresh = os.path.join(top, FRESH + os.urandom(8).hex())
    os.mkdir(fresh, 0o700)
    try:
        laid = os.path.join(fresh, "laid")
        for path in (path for paths in members.values() for path in paths):
            (sha, length, number), place = rows[path], os.path.join(laid, path)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            if "url" in givers[number]:
                fetch_blob(fresh, sha, length, keys, givers[number]["url"], call)
                os.rename(blobs.path_of(fresh, sha), place)
            else:
                copy_kept(call, find_copy_folder(root, **givers[number]).path(sha), sha, place)
        sync_disk(fresh)
        for member in members:
            target = os.path.join(top, member)
            if os.path.lexists(target):  # sent with the project, or of an earlier attempt
                put_aside(target, os.path.join(aside or os.path.join(fresh, "before"), member))
            rename_synced(os.path.join(laid, member), target)
    except OSError as e:
        raise root_folder.write_failure(e, top, size) from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def put_aside(path: str, place: str) -> None:
    os.makedirs(os.path.dirname(place), exist_ok=True)
    os.rename(path, place)


def not_a_checkpoint(name: str, why: str) -> "Failure":
    what = "%s is not laid out as a checkpoint" % name
    return Failure(what, why, "--checkpoints GLOB   # one that matches it", slug="checkpoint-name")


def is_laid_out(
    call: "Emitter", top: str, member: str, paths: "list[str]", rows: "dict[str, Row]"
) -> bool:
    """Return whether these files of a member are in their place, and no others."""
    present = checkpoint_files.list_checkpoint_files(os.path.join(top, member)) or {}
    sizes = {
        checkpoint_files.checkpoint_file_path(member, below): info[0]
        for below, info in present.items()
    }
    if sizes != {path: rows[path][1] for path in paths}:
        return False
    return all(read_through(call, os.path.join(top, path)) == rows[path][0] for path in paths)


def copy_kept(call: "Emitter", source: str, sha: str, path: str) -> None:
    """Copy a file of a checkpoint that this host holds, and verify its hash."""
    with open(path, "wb") as copy:
        digest = read_through(call, source, copy.write)
    if digest != sha:
        raise Failure("a file of the checkpoint is corrupt: %s" % source, slug="checkpoint-corrupt")


def read_through(call: "Emitter", path: str, write: "Callable[[bytes], object]" = len) -> str:
    """Return the file's sha256; `write` gets its bytes."""

    def take(piece: bytes) -> None:
        write(piece)
        call.emit({"event": "alive"})

    with open(path, "rb") as file:
        return hash_of(file, take).hexdigest()
