"""Find the Python interpreters of this host, without starting them."""

import os
import sys

from ipexctl.common.tolerant_reads import names_in

_NEEDED = ("_bz2", "_sqlite3", "_ssl")  # by torch, datasets and pip; built where headers were


# machines/agent_start.py looks in the same folders for the first Python
_CONDA = ("miniconda3", "miniforge3", "anaconda3", "mambaforge")


def find_pythons(home):
    """Return [{path, version}], each real file once; shims and wrapper scripts do not count.

    The interpreter that runs this is always included: a wrapper may have started it.
    """
    folders = os.environ.get("PATH", "").split(":") + ["/usr/bin", "/usr/local/bin"]
    folders += [home + "/" + n + "/bin" for n in _CONDA]
    for parent in (home + "/.pyenv/versions", home + "/.local/share/uv/python", "/opt"):
        folders += [parent + "/" + n + "/bin" for n in sorted(names_in(parent))]
    own = os.path.realpath(sys.executable) if sys.executable else ""
    found = {}
    listed = set()  # /bin is often a link to /usr/bin, and both have thousands of names
    for folder in folders:
        where = os.path.realpath(folder)
        if where in listed or not folder.startswith("/"):
            continue
        listed.add(where)
        for name in names_in(folder):
            if name != "python3" and not (name.startswith("python3.") and name[8:].isdigit()):
                continue
            path = folder + "/" + name
            real = os.path.realpath(path)
            if real not in found:
                found[real] = _python(path, real, own)
    if own and not found.get(own):
        found[own] = _python(sys.executable, own, own)
    return [p for p in found.values() if p]


def _python(path, real, own):
    if real == own:
        version = list(sys.version_info[:3])
    elif not os.access(real, os.X_OK) or not _is_elf(real):
        return None
    else:
        version = _version(real)
    if not version:
        return None
    return {"path": path, "version": version, "lacks": _missing_modules(real, version)}


def _missing_modules(real, version):
    """Return the modules of _NEEDED that were not built; [] if they may be compiled in."""
    for lib in ("lib", "lib64"):
        place = (os.path.dirname(os.path.dirname(real)), lib, version[0], version[1])
        names = names_in("%s/%s/python%d.%d/lib-dynload" % place)
        there = {name.partition(".")[0] for name in names}
        if "_json" in there:
            return [name for name in _NEEDED if name not in there]
    return []


def _is_elf(path):
    try:
        with open(path, "rb") as f:
            return f.read(4) == b"\x7fELF"
    except OSError:
        return False


def _version(real):
    """Read the version from the names of the file and its folders; else [3, minor]."""
    name = os.path.basename(real)
    minor = int(name[8:]) if name.startswith("python3.") and name[8:].isdigit() else None
    folder = os.path.basename(os.path.dirname(os.path.dirname(real)))
    parts = folder.replace("cpython-", "").partition("-")[0].split(".")
    told = [int(p) for p in parts if p.isdigit()]
    if len(parts) == len(told) == 3 and told[0] == 3 and minor in (None, told[1]):
        return told
    return None if minor is None else [3, minor]
