"""Find environments under ROOT/envs by their marks, and which of them is used.

ROOT/envs/KEY is an environment only with its .ipexctl-ok in it, which is written last. ROOT/current
is a link, and all that `run` looks at. Modules that only look need not import those that build.
"""

import ctypes
import glob
import json
import os
import re

from ipexctl.common.files import read_json, write_atomic
from ipexctl.common.tolerant_reads import changed_at, info_of, link_of
from ipexctl.remote import root_folder
from ipexctl.remote.failure import Failure
from ipexctl.remote.install import env_drift

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from ipexctl.common.install_answers import EnvState
    from ipexctl.remote.main import Call

KEY = re.compile(r"[0-9a-f]{16}\Z")
OK = ".ipexctl-ok"
PROVED = ".ipexctl-proved"
LINKS = ("current", "previous")
AT_CWD = -100
EXCHANGE = 2


def op_state(
    call: "Call", root: str, key: str, mpi: str, project: str = "", used: str = ""
) -> "EnvState":
    """Return the state of an environment. `used`: the one that the project uses, if it is here."""
    from ipexctl.common.install_answers import EnvState  # imported late: no run needs it

    root = root_folder.check_existing_root(root)
    env = env_folder(root, key)
    built = os.path.exists(os.path.join(env, OK))
    used = used_by(root, project, used)
    current = current_env_key(root)
    packages = _packages(os.path.join(root, "current"))
    is_current = used in ("", current)
    return EnvState(
        root=root,
        built=built,
        mark=build_id(env),
        proved=proved_with(env) == mpi,
        current=current,
        changed=env_drift.list_changed_packages(env) if built else [],
        packages=packages,
        asked=os.path.exists(os.path.join(root, "projects", key, project)),
        before=used or current,
        own=bool(used),
        before_packages=packages if is_current else _packages(locate_environment(root, used)),
    )


def _packages(env: str) -> "list[tuple[str, str]]":
    return sorted(env_drift.list_packages(os.path.realpath(env)).items())


# --- names ---------------------------------------------------------------------------------------


def env_folder(root: str, key: str) -> str:
    if not isinstance(key, str) or not KEY.match(key):
        raise Failure("%r is not a valid environment name" % (key,), slug="env-key-invalid")
    return os.path.join(root, "envs", key)


def current_env_key(root: str, name: str = "current") -> str:
    """Return the key of the current (or `previous`) environment, "" if there is none."""
    key = os.path.basename(link_of(os.path.join(root, name)))
    return key if KEY.match(key) else ""


def locate_environment(root: str, key: str) -> str:
    """Return the path of the environment KEY ("": the `current` one), "" if it is not here."""
    if not key:
        return os.path.realpath(os.path.join(root, "current"))
    env = env_folder(root, key)
    return os.path.realpath(env) if os.path.exists(os.path.join(env, OK)) else ""


def used_by(root: str, project: str, key: str) -> str:
    """Return KEY if it is here, else the one in which the project ran last, "" for none."""
    folder = os.path.join(glob.escape(root), "projects", "*", glob.escape(project or "-"))
    marks = sorted(glob.glob(folder), key=changed_at)
    keys = [os.path.basename(os.path.dirname(path)) for path in marks] + [key] * bool(key)
    usable = (name for name in reversed(keys) if KEY.match(name) and locate_environment(root, name))
    return next(usable, "")


def key_of(root: str, env: str) -> str:
    """Return the key of an environment below the root; "" for others."""
    folder, key = os.path.split(env)
    is_ours = folder == os.path.realpath(os.path.join(root, "envs")) and KEY.match(key)
    return key if is_ours else ""


# --- marks ---------------------------------------------------------------------------------------


def build_id(env: str) -> str:
    """Return an id of the build: its mark is the last file and written once. "" without one."""
    info = info_of(os.path.join(env, OK))
    return "%d-%d" % (info.st_ino, info.st_mtime_ns) if info else ""


def proved_with(env: str) -> "str | None":
    """Return the MPI of the proof: None: no proof; "system": the host's; "": its own, or none."""
    mark = read_json(os.path.join(env, PROVED))
    return None if mark is None else mark.get("mpi", "")


def write_mark(path: str, value: object) -> None:
    """Write a mark completely and to the disk, or not at all."""
    write_atomic(path, json.dumps(value), mode=None, sync=True)


def exchange_paths(path: str, other: str) -> bool:
    """Swap two paths (RENAME_EXCHANGE); return False if unsupported (NFS, glibc < 2.28)."""
    try:
        exchange = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    raw_path, raw_other = os.fsencode(path), os.fsencode(other)
    return bool(exchange(AT_CWD, raw_path, AT_CWD, raw_other, ctypes.c_uint(EXCHANGE)) == 0)
