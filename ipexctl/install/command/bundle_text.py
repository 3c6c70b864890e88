"""What `bundle` shows: the file, and how the other side knows that it is this one."""

from __future__ import annotations

from typing import Any

from ipexctl.base import quoting
from ipexctl.install.bundle import Bundled


def text(made: Bundled) -> str:
    lock, name = made.lock, quoting.quote((made.path.name,))
    new = "new " if made.new_lock else ""
    return (
        f"{made.path}: {made.size / 1e6:.0f} MB, {len(lock.files)} files for torch {lock.torch}, "
        f"Python {lock.python}, {lock.platform}\n"
        f"{new}ipexctl.lock has sha256 {made.lock_sha256}\n"
        "to install from it, with this ipexctl.lock in the folder:\n"
        f"  ipexctl install --bundle {name}\n"
        "or, with the sha256 from here:\n"
        f"  ipexctl install --bundle {name} --lock-sha256 {made.lock_sha256}\n"
    )


def document(made: Bundled) -> dict[str, Any]:
    """For --json."""
    lock = made.lock
    return {
        "schema_version": 1,
        "bundle": str(made.path),
        "bytes": made.size,
        "files": len(lock.files),
        "environment": lock.key,
        "row": lock.row,
        "torch": lock.version("torch"),
        "python": lock.python,
        "platform": lock.platform,
        "lock_sha256": made.lock_sha256,
        "new_lock": made.new_lock,
        "bytes_fetched": made.fetched,
    }
