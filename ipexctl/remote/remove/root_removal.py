"""Remove the root: ipexctl's files in it, and the root itself if ipexctl created it.

Links are removed, never followed. What was in the root before, or was put there by others, stays.
While something below the root is in use, all of it stays.
"""

import glob
import os
import re
import shutil
import stat

from ipexctl.common.locks import take_lock
from ipexctl.common.removal_answers import RootRemoved, RootSurvey, WorkOfOwner
from ipexctl.common.root_paths import ATTEMPT
from ipexctl.common.tolerant_reads import info_of
from ipexctl.remote import disk_use, root_folder, scratch_folder
from ipexctl.remote.data import dataset_versions
from ipexctl.remote.heartbeat import Heartbeat
from ipexctl.remote.install import env_users, environments, needed_blobs
from ipexctl.remote.run_files import queued_runs, run_about, run_folders

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from ipexctl.remote.main import Call

OURS = (
    "current",
    "previous",
    "runs",
    "data",
    "envs",
    "tools",
    "pythons",
    "projects",
    "blobs",
    "install.holder",
    "install.lock",
    root_folder.MARK,
)
LINK_PART = re.compile(r"\.(?:current|previous)-[0-9]+\Z")
MOST_NAMES = 20  # names in an answer


def op_survey(call: "Call", root: str) -> RootSurvey:
    """Look at what `remove` would remove. Changes nothing."""
    if root_folder.is_absent(root):
        return RootSurvey(root)
    root = root_folder.prepare_root(root, marks=False)
    with Heartbeat(call):
        ours, stays = split_root_contents(root)
        counted = {}  # type: dict[tuple[int, int], int]
        parts = [(name, disk_use.size_of(os.path.join(root, name), counted)) for name in ours]
        busy, busy_by = find_uses(root)
        return RootSurvey(
            root,
            there=True,
            made=bool(ours),
            bytes=sum(size for _, size in parts),
            parts=[part for part in parts if part[1]],
            busy=busy,
            busy_by=busy_by,
            stays=stays[:MOST_NAMES],
            caches=[(path, disk_use.size_of(path)) for path in compile_caches()],
            owners=list_owners(root, ours)[:MOST_NAMES],
        )


def op_remove(call: "Call", root: str) -> RootRemoved:
    """Remove everything, unless something is in use."""
    if root_folder.is_absent(root):
        return RootRemoved()
    root = root_folder.prepare_root(root, marks=False)
    with Heartbeat(call):
        ours, _ = split_root_contents(root)
        mark = root_folder.made_here(root)
        busy, busy_by = find_uses(root)
        if busy:
            return RootRemoved(busy=busy, busy_by=busy_by)
        lock = take_lock(os.path.join(root, "envs", ".lock"))  # a new install has to wait
        counted = {}  # type: dict[tuple[int, int], int]
        size = sum(disk_use.size_of(os.path.join(root, name), counted) for name in ours)
        errors = [error for name in ours for error in remove_and_report(os.path.join(root, name))]
        scratch_folder.sweep_scratch_folders()
        if not os.path.islink(root):
            remove_empty(root, mark["made"])
        if lock is not None:
            os.close(lock)
    return RootRemoved(size, left=errors[:MOST_NAMES])


# --- what exists ---------------------------------------------------------------------------------


def split_root_contents(root: str) -> "tuple[list[str], list[str]]":
    """Return (names to remove, the mark last; names that stay)."""
    before = set(root_folder.made_here(root)["before"])
    names = sorted(os.listdir(root))
    parts = [name for name in names if LINK_PART.match(name)]
    ours = [name for name in parts + list(OURS) if name in names and name not in before]
    return ours, [name for name in names if name not in ours]


def list_owners(root: str, ours: "list[str]") -> "list[WorkOfOwner]":
    """Return what is there of each person who shares this account, as far as it is known who
    started a run and which projects requested an environment."""
    runs = {}  # type: dict[str, set[str]]  # their first ids: attempts have folders of their own
    envs = {}  # type: dict[str, set[str]]
    projects = {}  # type: dict[str, set[str]]
    for run in run_folders.run_ids(root) if "runs" in ours else []:
        owner = run_about.read_owner(os.path.join(root, "runs", run), "")
        runs.setdefault(owner, set()).add(ATTEMPT.sub("", run))
    for key in needed_blobs.env_keys(root) if "envs" in ours else []:
        for project, _, _ in env_users.list_projects(root, key):
            envs.setdefault(project["by"], set()).add(key)
            projects.setdefault(project["by"], set()).add(project["name"])
    owners = []
    for owner in sorted(filter(None, set(runs) | set(envs))):
        names = sorted(projects.get(owner, ()))[:MOST_NAMES]
        counts = len(runs.get(owner, ())), len(envs.get(owner, ()))
        owners.append(WorkOfOwner(owner, *counts, names))
    return owners


def find_uses(root: str) -> "tuple[list[str], list[str]]":
    """Return why nothing can be removed now (runs, installs, data in use, processes), and who
    started those runs, as far as that is known."""
    active = run_folders.list_active_runs(root)
    queued = [run for run in queued_runs.list_queued_runs(root) if run not in active]
    owners = {run_about.read_owner(os.path.join(root, "runs", run), "") for run in active + queued}
    reasons = ["%s is active" % run_about.describe_run(root, run) for run in active]
    reasons += ["%s is queued" % run_about.describe_run(root, run) for run in queued]
    installs = (os.path.join(root, "envs", ".lock"), os.path.join(root, "install.lock"))
    if any(map(run_folders.is_locked, installs)):
        reasons.append("an install is running")
    if not active:
        for name in dataset_versions.dataset_names(root):
            top = os.path.join(root, "data", name)
            locks = [os.path.join(top, v, "lock") for v in dataset_versions.version_folders(top)]
            if any(map(run_folders.is_locked, locks)):
                reasons.append("the dataset %s is in use" % name)
        users = dict.fromkeys(environments.users_of(root, [root]))
        reasons += ["%s uses files in %s" % (user, root) for user in users]
    return reasons[:MOST_NAMES], sorted(filter(None, owners))[:MOST_NAMES]


# --- removing ------------------------------------------------------------------------------------


def remove_and_report(path: str) -> "list[str]":
    """Remove a path. Return what could not be removed, and why."""
    try:
        if os.path.islink(path) or not os.path.isdir(path):
            os.unlink(path)
            return []
    except FileNotFoundError:
        return []
    except OSError as e:
        return ["%s: %s" % (path, e.strerror or e)]
    shutil.rmtree(path, ignore_errors=True)
    if not os.path.lexists(path):
        return []
    make_writable(path)
    failures = []  # type: list[str]
    shutil.rmtree(path, onerror=lambda _, item, e: failures.append("%s: %s" % (item, e[1])))
    return failures if os.path.lexists(path) else []


def make_writable(folder: str) -> None:
    """Make folders writable, so that what a run or an archive made read-only can be removed."""
    try:
        os.chmod(folder, 0o700)
        with os.scandir(folder) as entries:
            folders = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for path in folders:
        make_writable(path)


def remove_empty(root: str, created: "list[str]") -> None:
    """Remove the root and the folders that were made for it, if they are empty."""
    if root not in created:
        return
    above = [folder for folder in created if (root + "/").startswith(folder + "/")]
    for path in sorted(above, reverse=True):
        try:
            os.rmdir(path)
        except OSError:
            return


def compile_caches() -> "list[str]":
    """Return the caches of torch.compile, also of other programs' runs. They stay; torch puts most
    of them there whatever TORCHINDUCTOR_CACHE_DIR says."""
    caches = []
    for top in scratch_folder.all_temporary():
        for path in glob.glob(os.path.join(glob.escape(top), "torchinductor_*")):
            info = info_of(path)
            if info and stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid():
                caches.append(path)
    return caches
