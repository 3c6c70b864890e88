"""A CPython that is carried to the hosts: named with --python-from, then kept in the lock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ipexctl.blobs.blob_store import default_store
from ipexctl.errors import InputError
from ipexctl.facts.facts import Facts
from ipexctl.install.install_plan import Work
from ipexctl.install.stack.lock_file import Lock, Package
from ipexctl.install.stack.version_table import is_version
from ipexctl.packages import cpython_builds
from ipexctl.packages.cpython_builds import Wanted
from ipexctl.packages.resolver import Resolved


def python_to_carry(work: Work, facts: Sequence[Facts], old: Lock | None) -> Package | None:
    """The one that is asked for, else the one in the lock. None: the hosts' own are used."""
    where, version = work.asked.python_from, work.asked.wanted.python
    if where:
        if "/" in version:
            raise InputError(
                f"--python {version} is a Python of the hosts, --python-from brings another",
                hint="--python 3.11   # the version that --python-from must have",
                slug="options-conflict",
            )
        work.step("", "looking for a Python to carry")
        wanted = Wanted(facts[0].cpu.arch, version)
        return cpython_builds.find_build(where, wanted, default_store())
    locked = old.cpython if old else None
    suits = locked and (not version or is_version(locked.version, version))
    return locked if suits else None


def in_lock(found: Resolved, package: Package | None) -> Resolved:
    return replace(found, lock=replace(found.lock, cpython=package))


def check_here(lock: Lock) -> None:
    """No index has it: who has not got it any more must name it again."""
    if lock.cpython and not default_store().whole(lock.cpython.blob):
        raise InputError(
            f"ipexctl.lock has {lock.cpython.file}, which is not on this machine",
            why=f"it was named with --python-from; its sha256 is {lock.cpython.sha256}",
            hint="--python-from FOLDER   # that one again; or --python 3.11, of the hosts",
            slug="python-folder-missing",
        )
