"""List what is installed on this host, and which proxies the account sets: names of files only.

Nothing is imported and no program is started, so a broken torch cannot break this. The variables
are those a command over SSH gets.
"""

import os
import re

from ipexctl.remote.facts.probe_values import list_entries
from ipexctl.remote.facts.read_mpi_install import find_intel_mpi_files, find_mpi_installs
from ipexctl.remote.facts.read_proxies import read_proxy_variables
from ipexctl.remote.facts.read_shared_memory import count_stale_shm

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Iterator
    from typing import Any


WANTED = frozenset(
    (
        "torch",
        "intel-extension-for-pytorch",
        "oneccl-bind-pt",
        "torch-ccl",
        "impi-rt",
        "intel-openmp",
        "numpy",
        "mpi4py",
        "accelerate",
        "transformers",
        "deepspeed",
        "oneccl",
        "libfabric",
    )
)
DIST = re.compile(r"([A-Za-z0-9][A-Za-z0-9._]*?)-(\d[^-]*)(?:-py[0-9.]+)?\.(?:dist|egg)-info\Z")
ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")
KEY = re.compile(r"[0-9a-f]{16}\Z")


def read_software(home: str, root: str, key: str = "") -> "dict[str, Any]":
    """Read what is installed. `key`: the environment that `run` would use; "": the current one."""
    link = root + ("/envs/" + key if KEY.match(key) else "/current")
    search_path = os.environ.get("PATH", "")[:4000]
    prefixes = find_python_prefixes(home, link, search_path)
    stale_files, stale_bytes = count_stale_shm()
    return {
        "current": describe_run_environment(root, link),
        "prefixes": prefixes,
        "mpis": find_mpi_installs(search_path, [prefix["path"] for prefix in prefixes]),
        "env": sorted(read_proxy_variables().items()),
        "stale": stale_files,
        "stale_bytes": stale_bytes,
    }


# --- the account ---------------------------------------------------------------------------------


# --- environments of Python ----------------------------------------------------------------------


def describe_run_environment(root: str, link: str) -> "dict[str, Any] | None":
    """{prefix, exists, whole, changed, environment}: the environment `ipexctl run` would use; None
    without one. `missing`: that environment is not here, but others may be."""
    envs = list_entries(root + "/envs")
    if not os.path.lexists(link):
        missing = "" if link == root + "/current" else os.path.basename(link)
        nothing = {"prefix": "", "exists": False, "whole": None, "wanted": missing}
        return nothing if envs else None
    prefix = os.path.realpath(link)
    built_here = os.path.dirname(prefix) == os.path.realpath(root + "/envs")
    return {
        "prefix": prefix,
        "exists": os.path.exists(prefix + "/bin/python"),
        "whole": os.path.exists(prefix + "/.ipexctl-ok") if built_here else None,
        "changed": changed_by_hand(prefix) if built_here else [],
        "environment": read_env_summary(os.path.realpath(root), prefix) if built_here else None,
    }


def read_env_summary(root: str, prefix: str) -> "dict[str, object] | None":
    """Return {key, built, users}; None for an environment that ipexctl did not build."""
    # imported late, as below
    from ipexctl.remote.install import env_marks, env_users

    key = env_marks.key_of(root, prefix)
    if not key:
        return None
    users = env_users.list_projects(root, key)
    return {"key": key, "built": env_users.built_on(prefix), "users": users}


def changed_by_hand(prefix: str) -> "list[tuple[str, str, str, bool]]":
    # imported late: most probed hosts have no environment yet
    from ipexctl.remote.install import env_drift

    return env_drift.list_changed_packages(prefix)


def find_python_prefixes(home: str, link: str, search_path: str) -> "list[dict[str, Any]]":
    """Describe each Python environment; the ones that a run would use come first."""
    where = [("ipexctl", os.path.realpath(link))]
    where += [("active", os.environ[n]) for n in ACTIVE if os.environ.get(n)]
    where += [("active", prefix) for prefix in python_in(search_path)]
    by_target = {}  # type: dict[str, dict[str, Any]]
    for kind, path in where:
        target = os.path.realpath(path)
        if target in by_target or not path.startswith("/"):
            continue
        description = describe_prefix(kind, target, home)
        if description:
            by_target[target] = description
    return list(by_target.values())


def python_in(path: str) -> "list[str]":
    """Return the prefix of the first python3 that a command over SSH finds."""
    for folder in path.split(":"):
        if folder.startswith("/") and os.access(folder + "/python3", os.X_OK):
            if os.path.exists(os.path.dirname(folder) + "/pyvenv.cfg"):
                return [os.path.dirname(folder)]
            return [os.path.dirname(os.path.dirname(os.path.realpath(folder + "/python3")))]
    return []


def describe_prefix(kind: str, path: str, home: str) -> "dict[str, Any] | None":
    """Describe the Python environment at `path`; None if no package of WANTED is installed."""
    homes = [n for n in list_entries(path + "/lib") if re.match(r"python3\.\d+\Z", n)]
    packages, folders = {}, []  # type: dict[str, str], list[str]
    for lib in homes[-1:] if path != "/usr" else homes:
        folders = ["%s/lib/%s/site-packages" % (path, lib)]
        if path in ("/usr", "/usr/local"):
            folders = [home + "/.local/lib/%s/site-packages" % lib]
            folders += ["/usr/local/lib/%s/dist-packages" % lib, "/usr/lib/python3/dist-packages"]
            folders += ["/usr/%s/%s/site-packages" % (part, lib) for part in ("lib64", "lib")]
        for folder in folders:
            for name, version in find_distributions(folder):
                packages.setdefault(name, version)
    if not packages:
        return None
    torch = [f + "/torch/lib" for f in folders if os.path.isdir(f + "/torch/lib")][:1]
    libraries = [(place, n) for place in torch for n in list_entries(place)]
    omp = [place + "/" + n for place, n in libraries if n.startswith(("libiomp5", "libgomp"))]
    if os.path.exists(path + "/lib/libiomp5.so"):
        omp.append(path + "/lib/libiomp5.so")
    return {
        "kind": kind,
        "path": path,
        "python": homes[-1][6:] if homes else "",
        "packages": sorted(packages.items()),
        "cuda": any(n == "libtorch_cuda.so" for _, n in libraries),
        "omp": omp,
        "mpi": find_intel_mpi_files(path) if "impi-rt" in packages else None,
        "ccl": has_oneccl_library(path, folders, packages),
    }


def find_distributions(folder: str) -> "Iterator[tuple[str, str]]":
    for entry in list_entries(folder):
        match = DIST.match(entry)
        name = match.group(1).lower().replace("_", "-").replace(".", "-") if match else ""
        if match and name in WANTED:
            yield name, match.group(2)


def has_oneccl_library(
    path: str, folders: "list[str]", packages: "dict[str, str]"
) -> "bool | None":
    """Return whether the oneCCL library of the bindings exists; None without bindings."""
    if "oneccl-bind-pt" not in packages:
        return None
    places = [path + "/lib/libccl.so.1"]
    for folder in folders:
        for module in ("oneccl_bindings_for_pytorch", "torch_ccl"):
            places.append("%s/%s/lib/libccl.so.1" % (folder, module))
    return any(map(os.path.exists, places))


# --- MPIs ----------------------------------------------------------------------------------------
