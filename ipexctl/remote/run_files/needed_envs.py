"""The environment that a run with keepers needs on this host: RUN/environment.HOST.

No process runs in it while the run is queued, between two attempts, and on a spare.
"""

import json
import os

from ipexctl.common import files
from ipexctl.common.message import MYPY
from ipexctl.common.run_about import EnvNeeded
from ipexctl.common.run_orders import StartOrder
from ipexctl.common.tolerant_reads import names_in
from ipexctl.remote.run_files import queued_runs, run_folders

if MYPY:
    from collections.abc import Iterator

NAME = "environment."


def note_needed_env(folder: str, order: StartOrder) -> None:
    """Write which environment the run needs; raises OSError."""
    programs = [rank.argv[0] for rank in order.ranks if rank.argv]
    prefixes = sorted({os.path.dirname(os.path.dirname(program)) for program in programs})
    text = json.dumps(EnvNeeded(prefixes, order.about).document())
    path = os.path.join(folder, NAME + os.path.basename(order.host))
    files.write_atomic(path, text, sync=True)


def list_runs_needing(root: str, env: str) -> "list[str]":
    """Return the runs that may yet start in this environment; those that are queued also without a
    keeper."""
    folders = {run: os.path.join(root, "runs", run) for run in run_folders.run_ids(root)}
    path = os.path.realpath(env)
    needing = [
        run
        for run, folder in folders.items()
        for mark in read_marks(folder)
        if path in map(os.path.realpath, mark.prefixes)
    ]
    active = set(run_folders.list_active_runs(root)) if needing else set()
    return [
        run
        for run in dict.fromkeys(needing)
        if run in active or queued_runs.is_queued(folders[run])
    ]


def read_marks(folder: str) -> "Iterator[EnvNeeded]":
    """Yield what the keepers of the run wrote: hosts may share the folder."""
    for name in names_in(folder):
        if name.startswith(NAME):
            try:
                yield EnvNeeded.read(files.read_json(os.path.join(folder, name)) or {})
            except TypeError:  # another version's
                continue
