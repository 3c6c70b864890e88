"""Checkpoints that the attempts of a run have left on this host: for the next attempt."""

import os
import shutil
import time

from ipexctl.common import checkpoint_names
from ipexctl.common.checkpoint_reports import CopiedPart, Manifest
from ipexctl.common.keeper_messages import CheckpointLayout, KeptCheckpoint, PartCleared
from ipexctl.common.run_orders import StartOrder
from ipexctl.common.tolerant_reads import names_in
from ipexctl.remote.blobs import blob_server, blobs
from ipexctl.remote.checkpoints import checkpoint_files, checkpoint_rules, copy_requests
from ipexctl.remote.checkpoints.copy_folder import (
    ASIDE,
    CopyFolder,
    FilesBySha,
    Silent,
    aside_folder,
    fetch_blob,
)
from ipexctl.remote.failure import Failure
from ipexctl.remote.run_files import run_folders

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Iterator

    from ipexctl.remote.checkpoints.checkpoint_files import Files
    from ipexctl.remote.checkpoints.copy_folder import Part, Row
    from ipexctl.remote.checkpoints.copy_requests import Giver

ASIDES = 3  # attempts of which that stays


class CheckpointCopies:
    def __init__(self, runs: str, keys: "dict[str, str]") -> None:
        self.runs, self.keys = runs, keys
        self.server = None  # type: blob_server.Server | None

    def all(self, attempts: "dict[str, int]") -> "Iterator[tuple[str, str, CopyFolder]]":
        """Yield (run id, host, CopyFolder) of each copy folder. `attempts`: run id -> number."""
        for run_id in attempts:
            top = os.path.join(self.runs, run_id, run_folders.COPIES)
            for name in sorted(names_in(top)):
                yield run_id, name, CopyFolder(os.path.join(top, name))

    def report(self, attempts: "dict[str, int]", cleared: int) -> "PartCleared":
        """Return the PartCleared of that attempt."""
        checkpoints, unpublished = [], []  # type: list[KeptCheckpoint], list[str]
        for run_id, name, copies in self.all(attempts):
            try:
                report = copy_requests.report_checkpoint_copies(name, copies)
                for row in report.manifests:
                    shas = sorted({part.sha for part in row.parts.values()} & set(report.held))
                    version = attempts[run_id], row.number
                    checkpoints.append(
                        KeptCheckpoint(
                            row.name,
                            version,
                            row.age,
                            row.parts,
                            shas,
                            row.key,
                            row.members,
                            row.gap,
                        )
                    )
            except (Failure, OSError, ValueError, KeyError):
                continue  # the other hosts of the run may have it
            if attempts[run_id] == max(attempts.values()):
                unpublished += [row.name for row in report.pending]
        port = self.serve(attempts) if checkpoints and self.keys else 0
        return PartCleared(cleared, port, checkpoints, unpublished)

    def serve(self, attempts: "dict[str, int]") -> int:
        """Serve files to the other hosts of the run, which name them by their hashes."""
        if self.server is None:
            self.server = blob_server.Server(self.keys, {})
            self.server.begin()
        self.server.paths = FilesBySha([copies for _, _, copies in self.all(attempts)])
        return self.server.server_address[1]

    def lay_out(
        self, order: StartOrder, layout: CheckpointLayout, attempts: "dict[str, int]"
    ) -> "list[str]":
        """Put a checkpoint where the ranks start; return the paths of its files there. Raises
        Failure, OSError."""
        rows: "dict[str, Row]" = {}
        givers: "list[Giver]" = []
        own_first = sorted(layout.parts, key=lambda part: part[0] != order.host)
        for _, sha, size, urls in own_first:
            giver, part = self.find_part_giver(order, sha, size, urls, attempts)
            assert part is not None  # it was read already, or fetched and verified
            for below, blob, length in part["files"]:
                rows.setdefault(below, [below, blob, length, len(givers)])
            givers.append(giver)
        copy_requests.op_lay_out(
            Silent(),
            order.root,
            order.cwd,
            ".",
            order.checkpoints,
            list(rows.values()),
            self.keys,
            givers,
            layout.members,
            aside_folder(order),
        )
        return sorted(rows)

    def put_newer_aside(
        self, order: StartOrder, layout: "CheckpointLayout | None", began: float
    ) -> None:
        """Move what the ranks wrote that is newer than the checkpoint, or no part of it, so that no
        rank mixes the two. `began`: the time before which files are not of this run."""
        moment = time.time() - layout.age if layout else began
        laid_out = set(layout.members if layout else ())
        step = checkpoint_names.step_of(layout.key) if layout else None
        found = checkpoint_files.found_in(order.cwd, order.checkpoints)
        for name in sorted(set(found) - laid_out):
            written = checkpoint_files.last_change(found[name]) / 1e9
            number = checkpoint_names.step_of(name)
            is_later = written > moment or (step is not None and (number or 0) > step)
            if written > began and (is_later or checkpoint_names.is_plain(name)):
                place = os.path.join(aside_folder(order), name)
                copy_requests.put_aside(os.path.join(order.cwd, name), place)
        top = os.path.join(order.cwd, ASIDE)
        for name in sorted(names_in(top))[:-ASIDES]:
            shutil.rmtree(os.path.join(top, name), ignore_errors=True)

    def find_part_giver(
        self, order: StartOrder, sha: str, size: int, urls: "list[str]", attempts: "dict[str, int]"
    ) -> "tuple[Giver, Part | None]":
        """Return (where to get a part's files, the part): this host, else the first URL."""
        for run_id, name, copies in self.all(attempts):
            if copies.has_part(sha):
                return {"run_id": run_id, "holder": name}, copies.part(sha)
        fresh = os.path.join(order.cwd, copy_requests.FRESH + os.urandom(8).hex())
        os.mkdir(fresh, 0o700)
        try:
            for url in urls:
                try:
                    fetch_blob(fresh, sha, size, self.keys, url)
                except (Failure, OSError):
                    continue
                return {"url": url}, CopyFolder(fresh).part(sha)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        raise Failure("no host gives a part of the checkpoint", slug="checkpoint-gone")

    def keep_laid_out(
        self, order: StartOrder, layout: CheckpointLayout, paths: "list[str]"
    ) -> None:
        """Keep a checkpoint that was laid out here as a copy, until the new attempt has its own.
        Each host makes the same part of it. Raises Failure, OSError, Changed."""
        name, work = layout.name, order.cwd
        copies = self.copy_folder_of(order)
        copies.make()
        files: "Files" = {}
        for path in paths:
            found = checkpoint_files.list_checkpoint_files(os.path.join(work, path))
            assert found is not None  # it was laid out as a file
            for info in found.values():
                files[path] = info
        sha = copies.keep(work, files)
        size = sum(size for size, _, _ in files.values())
        parts = {layout.parts[0][0]: CopiedPart(sha, os.path.getsize(copies.path(sha)), size)}
        manifest = Manifest(
            name,
            checkpoint_rules.LAID_OUT,
            layout.age,
            parts,
            step=checkpoint_names.step_of(layout.key or name),
            key=layout.key,
            members=layout.members,
            gap=layout.gap,
        )
        copies.publish(manifest)

    def copy_folder_of(self, order: StartOrder) -> "CopyFolder":
        return CopyFolder(os.path.join(self.runs, order.run_id, run_folders.COPIES, order.host))

    def release(self, order: StartOrder) -> None:
        """Withdraw that copy: two newer checkpoints are complete."""
        blobs.try_unlink(self.copy_folder_of(order).manifest_path(checkpoint_rules.LAID_OUT))

    def remove_old_copies(self, attempts: "dict[str, int]", first_needed: int) -> None:
        """Remove the copies of attempts before `first_needed`."""
        for run_id in (run_id for run_id, number in attempts.items() if number < first_needed):
            shutil.rmtree(os.path.join(self.runs, run_id, run_folders.COPIES), ignore_errors=True)
