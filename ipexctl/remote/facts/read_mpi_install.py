"""Find the MPI installations of this host: names of files only, no program is started."""

import os
import re

from ipexctl.remote.facts.probe_values import list_entries

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any


MPIS = 8


RUNNABLE = ("mpirun", "mpiexec", "mpiexec.hydra", "hydra_bstrap_proxy", "hydra_pmi_proxy")


def find_intel_mpi_files(prefix: str) -> "dict[str, Any]":
    """Find the files of an Intel MPI: its wheels and its installer use different folders."""
    lib = prefix + "/lib"
    fabric = [lib, lib + "/libfabric", prefix + "/libfabric/lib", prefix + "/opt/mpi/libfabric/lib"]
    providers = []
    for folder in fabric:
        for place in (folder, folder + "/prov"):
            names = [n for n in list_entries(place) if n.endswith("-fi.so")]
            providers += [re.sub(r"^lib|(-\d[\d.]*)?-fi\.so$", "", n) for n in names]
    mpi = [lib + part + "/libmpi.so.12" for part in ("", "/release")]
    starters = [prefix + "/bin/" + n for n in ("mpirun", "mpiexec.hydra")]
    return {
        "libmpi": any(map(os.path.exists, mpi)),
        "libfabric": next((f for f in fabric if os.path.exists(f + "/libfabric.so.1")), ""),
        "providers": sorted(set(providers)),
        "absent": [path for path in starters if not os.path.exists(path)],
    }


def find_mpi_installs(search_path: str, prefixes: "list[str]") -> "list[dict[str, Any]]":
    """Return [{bin, not_run}], those in PATH first."""
    path = [f for f in search_path.split(":") if f.startswith("/")]
    folders = path + [prefix + "/bin" for prefix in prefixes]
    for parent in ("/opt/intel/oneapi/mpi", "/opt/ohpc/pub/mpi", "/opt/openmpi", "/opt/mpich"):
        folders += [parent + "/bin"]
        folders += ["%s/%s/bin" % (parent, n) for n in list_entries(parent)[:8] if n[:1].isalnum()]
    for parent in ("/usr/lib64", "/usr/local"):
        folders += ["%s/%s/bin" % (parent, n) for n in ("openmpi", "mpich", "mvapich2")]
    installs = {}  # type: dict[str, dict[str, Any]]
    for folder in folders:
        target = os.path.realpath(folder)
        if target in installs or len(installs) >= MPIS:
            continue
        install = describe_mpi_folder(folder)
        if install:
            installs[target] = install
    return list(installs.values())


def describe_mpi_folder(folder: str) -> "dict[str, Any] | None":
    starter = folder + "/mpirun"
    if not os.path.exists(starter):
        starter = folder + "/mpiexec"
        if not os.path.exists(starter):
            return None
    home = os.path.dirname(os.path.realpath(starter))
    return {
        "bin": folder,
        "not_run": [
            n
            for n in RUNNABLE
            if os.path.exists(home + "/" + n) and not os.access(home + "/" + n, os.X_OK)
        ],
    }
