"""List what is installed on this host, and which proxies the account sets: names of files only.

Nothing is imported and no program is started, so a broken torch cannot break this. The variables
are those a command over SSH gets.
"""

import os
import re

from ipexctl.common.tolerant_reads import names_in

MPIS = 8
ENTRIES = 4096  # of one folder

WANTED = frozenset(("torch", "intel-extension-for-pytorch", "oneccl-bind-pt", "torch-ccl",
                    "impi-rt", "intel-openmp", "numpy", "mpi4py", "accelerate", "transformers",
                    "deepspeed", "oneccl", "libfabric"))  # fmt: skip
DIST = re.compile(r"([A-Za-z0-9][A-Za-z0-9._]*?)-(\d[^-]*)(?:-py[0-9.]+)?\.(?:dist|egg)-info\Z")
PROXY = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
WITHOUT_PROXY = ("no_proxy", "NO_PROXY")
ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")
STALE = re.compile(r"(\d+):\d+:\d+\Z|Intel_MPI_\w+\Z")
RUNNABLE = ("mpirun", "mpiexec", "mpiexec.hydra", "hydra_bstrap_proxy", "hydra_pmi_proxy")
KEY = re.compile(r"[0-9a-f]{16}\Z")


def read_software(home, root, key=""):
    """Read what is installed. `key`: the environment that `run` would use; "": the current one."""
    used = root + ("/envs/" + key if KEY.match(key) else "/current")
    search_path = os.environ.get("PATH", "")[:4000]
    found = find_python_prefixes(home, used, search_path)
    stale_files, stale_bytes = count_stale_shm()
    return {
        "current": describe_run_environment(root, used),
        "prefixes": found,
        "mpis": find_mpi_installs(search_path, [p["path"] for p in found]),
        "env": sorted(read_proxy_variables().items()),
        "stale": stale_files,
        "stale_bytes": stale_bytes,
    }


def list_entries(folder):
    return sorted(names_in(folder)[:ENTRIES])


# --- the account ---------------------------------------------------------------------------------


def read_proxy_variables():
    """Return {name: None for a proxy, whose URL can hold a password; no_proxy with its value}."""
    found = {name: None for name in PROXY if os.environ.get(name)}  # type: dict[str, object]
    for name in WITHOUT_PROXY:
        value = os.environ.get(name)
        if value is not None:
            found[name] = None if "@" in value else value[:2000]
    return found


def count_stale_shm():
    """Return (number, bytes) of this user's shared memory of MPI processes that have ended."""
    count = size = 0
    for name in list_entries("/dev/shm"):
        match = STALE.match(name)
        if not match or (match.group(1) and os.path.exists("/proc/" + match.group(1))):
            continue
        try:
            info = os.stat("/dev/shm/" + name)
        except OSError:
            continue
        if info.st_uid == os.getuid() and match.group(1):
            count, size = count + 1, size + info.st_blocks * 512
    return count, size


# --- environments of Python ----------------------------------------------------------------------


def describe_run_environment(root, link):
    """{prefix, exists, whole, changed, environment}: the environment `ipexctl run` would use; None
    without one. `wanted`: that environment is not here, but others may be."""
    envs = list_entries(root + "/envs")
    if not os.path.lexists(link):
        wanted = "" if link == root + "/current" else os.path.basename(link)
        nothing = {"prefix": "", "exists": False, "whole": None, "wanted": wanted}
        return nothing if envs else None
    prefix = os.path.realpath(link)
    ours = os.path.dirname(prefix) == os.path.realpath(root + "/envs")
    return {
        "prefix": prefix,
        "exists": os.path.exists(prefix + "/bin/python"),
        "whole": os.path.exists(prefix + "/.ipexctl-ok") if ours else None,
        "changed": changed_by_hand(prefix) if ours else [],
        "environment": read_env_summary(os.path.realpath(root), prefix) if ours else None,
    }


def read_env_summary(root, prefix):
    # imported late, as below
    from ipexctl.remote.install import env_users

    return env_users.summarize_environment(root, prefix)


def changed_by_hand(prefix):
    # imported late: most probed hosts have no environment yet
    from ipexctl.remote.install import env_drift

    return env_drift.list_changed_packages(prefix)


def find_python_prefixes(home, used, search_path):
    """Describe each Python environment; the ones that a run would use come first."""
    where = [("ipexctl", os.path.realpath(used))]
    where += [("active", os.environ[n]) for n in ACTIVE if os.environ.get(n)]
    where += [("active", p) for p in python_in(search_path)]
    found = {}  # type: dict[str, object]
    for kind, path in where:
        real = os.path.realpath(path)
        if real in found or not path.startswith("/"):
            continue
        one = describe_prefix(kind, real, home)
        if one:
            found[real] = one
    return list(found.values())


def python_in(path):
    """Return the prefix of the first python3 that a command over SSH finds."""
    for folder in path.split(":"):
        if folder.startswith("/") and os.access(folder + "/python3", os.X_OK):
            if os.path.exists(os.path.dirname(folder) + "/pyvenv.cfg"):
                return [os.path.dirname(folder)]
            return [os.path.dirname(os.path.dirname(os.path.realpath(folder + "/python3")))]
    return []


def describe_prefix(kind, path, home):
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
    libraries = [(t, n) for t in torch for n in list_entries(t)]
    omp = [t + "/" + n for t, n in libraries if n.startswith(("libiomp5", "libgomp"))]
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


def find_distributions(folder):
    for entry in list_entries(folder):
        match = DIST.match(entry)
        name = match.group(1).lower().replace("_", "-").replace(".", "-") if match else ""
        if match and name in WANTED:
            yield name, match.group(2)


def has_oneccl_library(path, folders, packages):
    """Return whether the oneCCL library of the bindings exists; None without bindings."""
    if "oneccl-bind-pt" not in packages:
        return None
    places = [path + "/lib/libccl.so.1"]
    for folder in folders:
        for module in ("oneccl_bindings_for_pytorch", "torch_ccl"):
            places.append("%s/%s/lib/libccl.so.1" % (folder, module))
    return any(map(os.path.exists, places))


# --- MPIs ----------------------------------------------------------------------------------------


def find_intel_mpi_files(prefix):
    """Find the files of an Intel MPI: its wheels and its installer use different folders."""
    lib = prefix + "/lib"
    fabric = [lib, lib + "/libfabric", prefix + "/libfabric/lib", prefix + "/opt/mpi/libfabric/lib"]
    providers = []
    for folder in fabric:
        for place in (folder, folder + "/prov"):
            own = [n for n in list_entries(place) if n.endswith("-fi.so")]
            providers += [re.sub(r"^lib|(-\d[\d.]*)?-fi\.so$", "", n) for n in own]
    mpi = [lib + part + "/libmpi.so.12" for part in ("", "/release")]
    starters = [prefix + "/bin/" + n for n in ("mpirun", "mpiexec.hydra")]
    return {
        "libmpi": any(map(os.path.exists, mpi)),
        "libfabric": next((f for f in fabric if os.path.exists(f + "/libfabric.so.1")), ""),
        "providers": sorted(set(providers)),
        "absent": [s for s in starters if not os.path.exists(s)],
    }


def find_mpi_installs(search_path, prefixes):
    """Return [{bin, not_run}], those in PATH first."""
    path = [f for f in search_path.split(":") if f.startswith("/")]
    folders = path + [p + "/bin" for p in prefixes]
    for parent in ("/opt/intel/oneapi/mpi", "/opt/ohpc/pub/mpi", "/opt/openmpi", "/opt/mpich"):
        folders += [parent + "/bin"]
        folders += ["%s/%s/bin" % (parent, n) for n in list_entries(parent)[:8] if n[:1].isalnum()]
    for parent in ("/usr/lib64", "/usr/local"):
        folders += ["%s/%s/bin" % (parent, n) for n in ("openmpi", "mpich", "mvapich2")]
    found = {}  # type: dict[str, object]
    for folder in folders:
        real = os.path.realpath(folder)
        if real in found or len(found) >= MPIS:
            continue
        one = describe_mpi_folder(folder)
        if one:
            found[real] = one
    return list(found.values())


def describe_mpi_folder(folder):
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
