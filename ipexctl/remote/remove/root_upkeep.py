"""List and remove environments and blobs below ROOT.

Only entries named like an environment or a blob are removed; `current` and `previous` never are.
"""

import os
import time
from collections import Counter
from contextlib import ExitStack

from ipexctl.common.files import read_json, remove_path
from ipexctl.common.removal_answers import EnvKept, EnvsKept, EnvsRemoved
from ipexctl.remote import disk_use, root_folder
from ipexctl.remote.blobs import blobs
from ipexctl.remote.heartbeat import Heartbeat
from ipexctl.remote.install import (
    env_drift,
    env_marks,
    env_users,
    environments,
    needed_blobs,
    standalone_pythons,
    wheel_cache,
)
from ipexctl.remote.run_files import needed_envs, queued_runs, run_about

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Container

    from ipexctl.remote.main import Call

ON_ITS_WAY = 3600  # a younger blob may belong to an install that has not built yet


def op_list(call: "Call", root: str, sizes: bool) -> EnvsKept:
    """List the environments. Creates nothing, not even ROOT."""
    if root_folder.is_absent(root):
        return EnvsKept(root)
    root = root_folder.prepare_root(root)
    files = {}  # type: dict[str, disk_use.Sizes]
    with Heartbeat(call):
        for key in needed_blobs.env_keys(root):
            env = env_marks.env_folder(root, key)
            files[key] = disk_use.file_sizes(env) if sizes else {}
        number = Counter(file for sizes_of in files.values() for file in sizes_of)
        envs = []
        for key, sizes_of in files.items():
            shared = sum(size for file, size in sizes_of.items() if number[file] > 1)
            envs.append(env_summary(root, key, sum(sizes_of.values()), shared))
    together = {file: size for sizes_of in files.values() for file, size in sizes_of.items()}
    return EnvsKept(
        root,
        env_marks.current_env_key(root) or None,
        env_marks.current_env_key(root, "previous") or None,
        envs,
        size=sum(together.values()),
        blobs=sum(size for _, size, _ in needed_blobs.kept_blobs(root)),
    )


def op_remove(call: "Call", root: str, keys: "list[str]", check: bool) -> EnvsRemoved:
    """Remove these environments, the blobs that no other needs, and the cache of unpacked wheels,
    whose hard links would keep the files on the disk. With `check` nothing is removed."""
    root = root_folder.prepare_root(root)
    removed, kept = [], []  # type: list[tuple[str, int]], list[tuple[str, str]]
    freed = disk_use.Freed()
    with ExitStack() as stack:
        stack.enter_context(Heartbeat(call))
        if not check:  # an install can hold the lock for as long as its files take
            stack.enter_context(environments.RootLock(call, root))
        cache_size = freed.add_removed(wheel_cache.cache_folder(root))
        for key in keys:
            env = env_marks.env_folder(root, key)
            why = why_needed(root, key, env)
            size = 0 if why else freed.add_removed(env)
            if not why and not check:
                environments.remove_env_path(env)
                env_users.forget_projects(root, key)
                why = "it could not be removed completely" if os.path.lexists(env) else ""
            if why:
                kept.append((key, why))
            else:
                removed.append((key, size))
        idle = idle_blobs(root, [key for key, _ in removed])
        if not check:
            with blobs.lock_for_removal(root) as free:
                idle = [row for row in idle if free or os.path.isdir(row[0])]
                for path, _ in idle:
                    remove_path(path)
            if removed:
                wheel_cache.remove_cache(root)
    size = sum(size for _, size in idle) + (cache_size if removed else 0)
    return EnvsRemoved(removed, kept, len(idle), size)


# --- looking -------------------------------------------------------------------------------------


def env_summary(root: str, key: str, size: int, shared: int) -> EnvKept:
    env = env_marks.env_folder(root, key)
    mark = read_json(os.path.join(env, env_marks.OK))
    proved = read_json(os.path.join(env, env_marks.PROVED)) or {}
    return EnvKept(
        key,
        whole=mark is not None,
        proved=os.path.exists(os.path.join(env, env_marks.PROVED)),
        size=size,
        shared=shared,
        wheels=(mark or {}).get("wheels", []),
        requested=proved.get("requested", []),
        use=(mark or {}).get("use", ""),
        built=env_users.built_on(env),
        users=env_users.list_users(root, key),
        changed=[] if mark is None else env_drift.list_changed_packages(env),
    )


def why_needed(root: str, key: str, env: str) -> str:
    """Return why the environment cannot be removed, "" if it can."""
    for name in ("current", "previous"):
        if env_marks.current_env_key(root, name) == key:
            return "it is the %s environment" % name
    if not os.path.lexists(env):
        return "it is not here"
    user = environments.process_using(env)
    if user:
        return "%s runs in it" % user
    for run in needed_envs.list_runs_needing(root, env):
        is_queued = queued_runs.is_queued(os.path.join(root, "runs", run))
        why = "is queued and will run in it" if is_queued else "needs it for its next attempt"
        return "%s %s" % (run_about.describe_run(root, run), why)
    return ""


def idle_blobs(root: str, removed: "Container[str]") -> "list[tuple[str, int]]":
    """Return (path, size) of Pythons and blobs not needed without the environments `removed`."""
    needed = needed_blobs.needed_blobs(root, removed)
    limit = time.time() - ON_ITS_WAY
    unpacked = [
        (path, disk_use.size_of(path))
        for path in standalone_pythons.list_unused_pythons(root, needed)
    ]
    return unpacked + [
        (path, size)
        for path, size, modified in needed_blobs.kept_blobs(root)
        if os.path.basename(path) not in needed and modified < limit
    ]
