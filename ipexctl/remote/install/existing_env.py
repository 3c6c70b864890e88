"""Use an environment that another tool made: inspect it, and link to it from ROOT/envs.

ROOT/envs/KEY is then a folder of links to its contents, with ipexctl's marks. So `current`,
`previous`, removal and `run` treat it as any other, and nothing is written into it.
"""

import json
import os
import stat

from ipexctl.common.files import read_json, replace_link
from ipexctl.common.install_answers import EnvChanged, ExistingEnv
from ipexctl.common.tolerant_reads import link_of
from ipexctl.remote import child_processes, root_folder
from ipexctl.remote.blobs import blobs
from ipexctl.remote.failure import Failure
from ipexctl.remote.install import env_drift, env_marks, environments

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from ipexctl.remote.main import Call

TIMEOUT = 60
ASK = """
import json, sys
print(json.dumps([list(sys.version_info[:3]), sys.prefix, sys.implementation.name]))
"""


def op_inspect(call: "Call", root: str, path: str) -> ExistingEnv:
    """Return what is in an environment; its own interpreter is run."""
    path = checked_folder(path, root)
    python = os.path.join(path, "bin", "python")
    output = child_processes.run_program(
        call, [python, "-I", "-c", ASK], environments.clean_environ(path), TIMEOUT
    )
    try:
        version, prefix, name = json.loads(output.strip().splitlines()[-1])
    except (ValueError, IndexError):
        raise Failure(
            "%s printed unexpected output" % python, output[-500:], slug="not-an-env"
        ) from None
    if os.path.realpath(prefix) != os.path.realpath(path):
        raise Failure(
            "%s belongs to %s" % (python, prefix), "", "--use-env %s" % prefix, slug="not-an-env"
        )
    if name != "cpython":
        raise Failure("%s is %s; PyTorch needs CPython" % (python, name), slug="not-cpython")
    has_mpirun = os.access(os.path.join(path, "bin", "mpirun"), os.X_OK)
    return ExistingEnv(path, tuple(version), env_drift.list_packages(path), has_mpirun)


def op_link(call: "Call", root: str, key: str, path: str) -> EnvChanged:
    """Link ROOT/envs/KEY to `path`."""
    root = root_folder.prepare_root(root)
    env = env_marks.env_folder(root, key)
    path = checked_folder(path, root)
    with environments.RootLock(call, root):
        root_folder.make_subfolder(root, "envs", key)
        changed = link_contents(env, path)
        mark = {
            "use": path,
            "wheels": [],
            "blobs": [],
            "dists": env_drift.hash_package_records(env),
        }
        if not changed and read_json(os.path.join(env, env_marks.OK)) == mark:
            return EnvChanged(False)
        blobs.try_unlink(os.path.join(env, env_marks.PROVED))
        env_marks.write_mark(os.path.join(env, env_marks.OK), mark)
    return EnvChanged(True)


def checked_folder(text: str, root: str) -> str:
    """Return the absolute path of an environment for --use-env. Raise Failure if it is unsafe."""
    path = os.path.normpath(os.path.expanduser(text))
    if not os.path.isabs(path):
        raise Failure(
            "--use-env %s is not absolute" % text,
            "hosts have no folder in common",
            slug="path-invalid",
        )
    if not os.access(os.path.join(path, "bin", "python"), os.X_OK):
        raise Failure(
            "%s is not an environment: there is no bin/python in it" % path,
            hint="--use-env FOLDER   # of a venv or a conda environment, as `python -m venv` made",
            slug="not-an-env",
        )
    if os.stat(path).st_mode & stat.S_IWOTH:
        raise Failure(
            "%s is writable by everyone" % path,
            "they could change the programs that run from it",
            "chmod o-w %s" % path,
            slug="writable-by-others",
        )
    own_root = os.path.realpath(os.path.expanduser(root))
    if os.path.realpath(path).startswith(own_root + os.sep):
        raise Failure(
            "%s belongs to ipexctl" % path,
            "`ipexctl install` created it",
            "ipexctl env ls",
            slug="env-is-ours",
        )
    return path


def link_contents(env: str, path: str) -> bool:
    """Link to each thing in `path`, and remove other links. Each is replaced in one step."""
    names = [name for name in os.listdir(path) if not name.startswith(".")]
    changed = False
    for name in names:
        target = os.path.join(path, name)
        if link_of(os.path.join(env, name)) != target:
            replace_link(env, name, target)
            changed = True
    for name in os.listdir(env):
        if name not in names and os.path.islink(os.path.join(env, name)):
            blobs.try_unlink(os.path.join(env, name))
            changed = True
    return changed
