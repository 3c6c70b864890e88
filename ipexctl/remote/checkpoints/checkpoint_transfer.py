"""Checkpoints that the attempts of a run have left on this host: for the next attempt."""

import os
import shutil

from ipexctl.common.checkpoint_reports import CopiedPart, Manifest
from ipexctl.common.keeper_messages import CheckpointLayout, KeptCheckpoint, PartCleared
from ipexctl.common.run_orders import StartOrder
from ipexctl.common.tolerant_reads import names_in
from ipexctl.remote.blobs import blob_server, blobs
from ipexctl.remote.checkpoints import checkpoint_files, checkpoint_rules, copy_requests
from ipexctl.remote.checkpoints.copy_folder import CopyFolder, FilesBySha, Silent, fetch_blob
from ipexctl.remote.failure import Failure

LAID_OUT = 0  # the number of a checkpoint from which an attempt began; those of its own are higher


class CheckpointCopies:
    def __init__(self, runs, keys):
        self.runs, self.keys = runs, keys
        self.server = None

    def all(self, attempts):
        """(run's id, its name in the run, CopyFolder) of each. `attempts`: run's id -> number."""
        for run_id in attempts:
            top = os.path.join(self.runs, run_id, "shelf")
            for name in sorted(names_in(top)):
                yield run_id, name, CopyFolder(os.path.join(top, name))

    def report(self, attempts, cleared):
        """The PartCleared of that attempt."""
        found, left = [], []
        for run_id, name, copies in self.all(attempts):
            try:
                told = copy_requests.report_checkpoint_copies(name, copies)
                for one in told.manifests:
                    held = sorted({p.sha for p in one.parts.values()} & set(told.held))
                    order = attempts[run_id], one.number
                    found.append(KeptCheckpoint(one.name, order, one.age, one.parts, held))
            except (Failure, OSError, ValueError, KeyError):
                continue  # the other hosts of the run may have it
            if attempts[run_id] == max(attempts.values()):
                left += [one.name for one in told.pending]
        port = self.serve(attempts) if found and self.keys else 0
        return PartCleared(cleared, port, found, left)

    def serve(self, attempts):
        """Serve files to the other hosts of the run, which name them by their hashes."""
        if self.server is None:
            self.server = blob_server.Server(self.keys, {})
            self.server.begin()
        self.server.paths = FilesBySha([copies for _, _, copies in self.all(attempts)])
        return self.server.server_address[1]

    def lay_out(self, asked: StartOrder, lay: CheckpointLayout, attempts):
        """Raises Failure, OSError."""
        rows, givers = {}, []  # type: dict[str, list], list[dict]
        own_first = sorted(lay.parts, key=lambda part: part[0] != asked.host)
        for _, sha, size, urls in own_first:
            giver, part = self.giver(asked, sha, size, urls, attempts)
            for below, blob, length in part["files"]:
                rows.setdefault(below, [below, blob, length, len(givers)])
            givers.append(giver)
        copy_requests.op_lay_out(
            Silent(), asked.root, asked.cwd, lay.name, asked.checkpoints, list(rows.values()),
            self.keys, givers,
        )  # fmt: skip

    def giver(self, asked: StartOrder, sha, size, urls, attempts):
        for run_id, name, copies in self.all(attempts):
            if copies.holds(sha):
                return {"run_id": run_id, "shelf": name}, copies.part(sha)
        fresh = os.path.join(asked.cwd, copy_requests.FRESH + os.urandom(8).hex())
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

    def hold(self, asked: StartOrder, lay: CheckpointLayout):
        """A checkpoint that was laid out here counts as a copy, until the new attempt has its own.
        Each host makes the same part of it. Raises Failure, OSError, Changed."""
        name, work = lay.name, asked.cwd
        copies = self.copy_folder_of(asked)
        copies.make()
        files = checkpoint_files.list_checkpoint_files(os.path.join(work, name))
        sha = copies.keep(work, name, files)
        size = sum(size for size, _, _ in files.values())
        parts = {lay.parts[0][0]: CopiedPart(sha, os.path.getsize(copies.path(sha)), size)}
        step = checkpoint_rules.step_of(name)
        copies.publish(Manifest(name, LAID_OUT, lay.age, parts, step))

    def copy_folder_of(self, asked: StartOrder):
        return CopyFolder(os.path.join(self.runs, asked.run_id, "shelf", asked.host))

    def release(self, asked: StartOrder):
        """A newer one is complete: who begins from this one would lose what was done since."""
        blobs.try_unlink(self.copy_folder_of(asked).manifest_path(LAID_OUT))

    def forget(self, attempts, used):
        """Remove the copies of attempts before `used`, whose checkpoint is used."""
        for run_id in (run_id for run_id, number in attempts.items() if number < used):
            shutil.rmtree(os.path.join(self.runs, run_id, "shelf"), ignore_errors=True)
