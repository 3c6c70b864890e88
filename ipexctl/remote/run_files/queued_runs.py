"""The orders of queued runs on this host, from which their keepers start again after a reboot."""

import json
import os
from contextlib import suppress

from ipexctl.common import files
from ipexctl.common.attempt_record import RunQueued
from ipexctl.common.run_orders import StartOrder
from ipexctl.common.tolerant_reads import names_in
from ipexctl.remote.run_files import attempt_lines, run_folders

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any


NAME = "queued."


def order_path(folder: str, host: str) -> str:
    return os.path.join(folder, NAME + os.path.basename(host))


def is_queued(folder: str) -> bool:
    """Return whether the run waits on a host that has this folder, also without a keeper."""
    names = [name for name in names_in(folder) if not files.is_unfinished(name)]
    return any(name.startswith(NAME) for name in names)


def list_queued_runs(root: str) -> "list[str]":
    runs = os.path.join(root, "runs")
    return [run for run in run_folders.run_ids(root) if is_queued(os.path.join(runs, run))]


def keep_order(folder: str, order: StartOrder) -> None:
    """Write the orders, for their user alone: they have the keys of the links between hosts."""
    files.write_atomic(order_path(folder, order.host), json.dumps(order.document()), sync=True)


def read_order(folder: str, host: str) -> "dict[str, Any] | None":
    """Return the orders as a document; None if the run is not queued any more."""
    return files.read_json(order_path(folder, host))


def list_orders(runs: str, host: str) -> "list[tuple[float, str]]":
    """Return (since when, run) of each run that is queued on this host, also without a keeper."""
    queued = []
    for run in names_in(runs):
        folder = os.path.join(runs, run)
        if os.path.exists(order_path(folder, host)):
            first = next(attempt_lines.read_lines(folder, host), None)
            if isinstance(first, RunQueued):
                queued.append((first.since, run))
    return queued


def forget_order(folder: str, host: str) -> None:
    """Remove the orders: the run has begun, or is over."""
    with suppress(OSError):  # it was not queued
        os.unlink(order_path(folder, host))
