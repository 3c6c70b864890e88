"""A lab whose files are still being removed."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from ipexctl.lab import Lab
from ipexctl.lab.cluster import folders, practice_cluster
from tests.refused import refused


def test_a_lab_that_ends_is_not_said_to_be_gone(tmp_path: Path) -> None:
    folder = folders.lab_folder("slow", tmp_path)
    folders.make_lab_folder(folder, "{}")
    lock = os.open(practice_cluster._lock_path(folder), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with refused("lab-not-ready", "slow"):
            Lab.open("slow", root=tmp_path)
    finally:
        os.close(lock)
    with refused("lab-not-up", "slow"):
        Lab.open("slow", root=tmp_path)
