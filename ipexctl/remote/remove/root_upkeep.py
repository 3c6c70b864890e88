"""List and remove environments and blobs below ROOT.

Only entries named like an environment or a blob are removed; `current` and `previous` never are.
"""

import os
import time
from collections import Counter
from contextlib import ExitStack

from ipexctl.common.files import read_json, remove_path
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
    from typing import Any

    from ipexctl.remote.main import Call

ON_ITS_WAY = 3600  # a younger blob may belong to an install that has not built yet


def op_list(call: "Call", root: str, sizes: bool) -> "dict[str, Any]":
    """{root, sizes} -> {root, current, previous, envs, size, blobs}: `size` of the environments
    together. Creates nothing, not even ROOT."""
    if root_folder.is_absent(root):
        return {"root": root, "current": "", "previous": "", "envs": [], "size": 0, "blobs": 0}
    root = root_folder.prepare_root(root)
    envs, files = [], {}  # type: list[dict[str, Any]], dict[str, disk_use.Sizes]
    with Heartbeat(call):
        for key in needed_blobs.env_keys(root):
            envs.append(env_summary(root, key))
            env = env_marks.env_folder(root, key)
            files[key] = disk_use.file_sizes(env) if sizes else {}
    number = Counter(file for sizes_of in files.values() for file in sizes_of)
    for row in envs:
        sizes_of = files[row["key"]]
        row["size"] = sum(sizes_of.values())
        row["shared"] = sum(size for file, size in sizes_of.items() if number[file] > 1)
    together = {file: size for sizes_of in files.values() for file, size in sizes_of.items()}
    return {
        "root": root,
        "current": env_marks.current_env_key(root),
        "previous": env_marks.current_env_key(root, "previous"),
        "envs": envs,
        "size": sum(together.values()),
        "blobs": sum(size for _, size, _ in needed_blobs.kept_blobs(root)),
    }


def op_remove(call: "Call", root: str, keys: "list[str]", check: bool) -> "dict[str, Any]":
    """{root, keys, check} ->
    {removed: [[key, bytes], ...], kept: [[key, why], ...], blobs, blob_bytes}

    Removes these environments, the blobs that no other needs, and the cache of unpacked wheels,
    whose hard links would keep the files on the disk. With `check` nothing is removed.
    """
    root = root_folder.prepare_root(root)
    removed, kept = [], []  # type: list[list[Any]], list[list[str]]
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
                kept.append([key, why])
            else:
                removed.append([key, size])
        idle = idle_blobs(root, [key for key, _ in removed])
        if not check:
            with blobs.lock_for_removal(root) as free:
                idle = [row for row in idle if free or os.path.isdir(row[0])]
                for path, _ in idle:
                    remove_path(path)
            if removed:
                wheel_cache.remove_cache(root)
    size = sum(size for _, size in idle) + (cache_size if removed else 0)
    return {"removed": removed, "kept": kept, "blobs": len(idle), "blob_bytes": size}


# --- looking -------------------------------------------------------------------------------------


def env_summary(root: str, key: str) -> "dict[str, Any]":
    env = env_marks.env_folder(root, key)
    mark = read_json(os.path.join(env, env_marks.OK))
    proved = read_json(os.path.join(env, env_marks.PROVED)) or {}
    return {
        "key": key,
        "whole": mark is not None,
        "proved": os.path.exists(os.path.join(env, env_marks.PROVED)),
        "wheels": (mark or {}).get("wheels", []),
        "requested": proved.get("requested", []),
        "use": (mark or {}).get("use", ""),
        "built": env_users.built_on(env),
        "users": env_users.list_projects(root, key),
        "changed": [] if mark is None else env_drift.list_changed_packages(env),
    }


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
