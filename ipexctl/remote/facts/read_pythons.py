"""Find the Python interpreters of this host, without starting them."""

import os
import sys

from ipexctl.common.tolerant_reads import names_in

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any


_NEEDED = ("_bz2", "_sqlite3", "_ssl")  # by torch, datasets and pip; built where headers were


# machines/agent_start.py looks in the same folders for the first Python
_CONDA = ("miniconda3", "miniforge3", "anaconda3", "mambaforge")


def find_pythons(home: str) -> "list[dict[str, Any]]":
    """Return [{path, version}], each real file once; shims and wrapper scripts do not count.

    The interpreter that runs this is always included: a wrapper may have started it.
    """
    folders = os.environ.get("PATH", "").split(":") + ["/usr/bin", "/usr/local/bin"]
    folders += [home + "/" + n + "/bin" for n in _CONDA]
    for parent in (home + "/.pyenv/versions", home + "/.local/share/uv/python", "/opt"):
        folders += [parent + "/" + n + "/bin" for n in sorted(names_in(parent))]
    running = os.path.realpath(sys.executable) if sys.executable else ""
    by_target = {}
    searched = set()  # /bin is often a link to /usr/bin, and both have thousands of names
    for folder in folders:
        where = os.path.realpath(folder)
        if where in searched or not folder.startswith("/"):
            continue
        searched.add(where)
        for name in names_in(folder):
            if name != "python3" and not (name.startswith("python3.") and name[8:].isdigit()):
                continue
            path = folder + "/" + name
            target = os.path.realpath(path)
            if target not in by_target:
                by_target[target] = _python(path, target, running)
    if running and not by_target.get(running):
        by_target[running] = _python(sys.executable, running, running)
    return [python for python in by_target.values() if python]


def _python(path: str, target: str, running: str) -> "dict[str, Any] | None":
    if target == running:
        version = list(sys.version_info[:3])  # type: list[int] | None
    elif not os.access(target, os.X_OK) or not _is_elf(target):
        return None
    else:
        version = _version(target)
    if not version:
        return None
    return {"path": path, "version": version, "lacks": _missing_modules(target, version)}


def _missing_modules(target: str, version: "list[int]") -> "list[str]":
    """Return the modules of _NEEDED that were not built; [] if they may be compiled in."""
    for lib in ("lib", "lib64"):
        place = (os.path.dirname(os.path.dirname(target)), lib, version[0], version[1])
        names = names_in("%s/%s/python%d.%d/lib-dynload" % place)
        built = {name.partition(".")[0] for name in names}
        if "_json" in built:
            return [name for name in _NEEDED if name not in built]
    return []


def _is_elf(path: str) -> bool:
    try:
        with open(path, "rb") as f:
            return f.read(4) == b"\x7fELF"
    except OSError:
        return False


def _version(target: str) -> "list[int] | None":
    """Read the version from the names of the file and its folders; else [3, minor]."""
    name = os.path.basename(target)
    minor = int(name[8:]) if name.startswith("python3.") and name[8:].isdigit() else None
    folder = os.path.basename(os.path.dirname(os.path.dirname(target)))
    words = folder.replace("cpython-", "").partition("-")[0].split(".")
    numbers = [int(word) for word in words if word.isdigit()]
    if len(words) == len(numbers) == 3 and numbers[0] == 3 and minor in (None, numbers[1]):
        return numbers
    return None if minor is None else [3, minor]
