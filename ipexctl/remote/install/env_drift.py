"""Find what was changed by hand in an environment since it was built.

`changed` looks at metadata only: which packages are installed, whether their RECORDs are those of
the build, and whether their shared libraries exist. `op_compare` also looks at all other files that
the RECORDs name.
"""

import glob
import hashlib
import json
import os
import re
import stat

from ipexctl.common.files import hash_of
from ipexctl.common.tolerant_reads import info_of

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Iterator

    from ipexctl.common.install_answers import EnvDrift
    from ipexctl.remote.main import Call

    Packages = dict[str, list[tuple[str, str]]]  # by name: (version, sha256 of RECORD)

OK = ".ipexctl-ok"
DIST = re.compile(r"([A-Za-z0-9][A-Za-z0-9._]*)-([A-Za-z0-9][A-Za-z0-9._+!]*)\.dist-info\Z")
LIBRARY = re.compile(rb"^\"?([^,\"\n]+\.so(?:\.[0-9.]+)?)\"?,", re.MULTILINE)
MADE_BY_VENV = frozenset(("_virtualenv.py", "_virtualenv.pth"))
MOST_FILES = 200  # files in an answer


def op_compare(call: "Call", root: str, full: bool, environment: str = "") -> "EnvDrift":
    """Compare an environment with its build. `environment`: its key; "" for the current one.

    A file is read if it is newer than the build, or always with `full`.
    """
    # imported late: the probe needs this module, but not those
    from ipexctl.common.install_answers import EnvDrift
    from ipexctl.remote import root_folder
    from ipexctl.remote.heartbeat import Heartbeat

    if root_folder.is_absent(root):
        return EnvDrift(root)
    root = root_folder.prepare_root(root)
    key = os.path.basename(environment)
    env = os.path.realpath(os.path.join(root, *(["envs", key] if key else ["current"])))
    if not os.path.exists(os.path.join(env, OK)):
        return EnvDrift(root)
    comparison = DriftComparison(env, full is True)
    with Heartbeat(call):
        comparison.compare_files()
    return EnvDrift(
        root=root,
        current=os.path.basename(env),
        packages=sorted(list_packages(env).items()),
        changed=list_changed_packages(env),
        files=sorted(comparison.found)[:MOST_FILES],
        more=max(0, len(comparison.found) - MOST_FILES),
        looked=comparison.looked,
        hashed=comparison.hashed,
    )


# --- metadata ------------------------------------------------------------------------------------


def hash_package_records(env: str) -> "dict[str, str]":
    """Return {dist-info folder: sha256 of its RECORD, "" if a library of it is gone}, for the mark
    of a build."""
    site, hashes = os.fsencode(site_packages(env)), {}
    for folder in dist_infos(env):
        try:
            with open(os.path.join(folder, "RECORD"), "rb") as file:
                record = file.read()
            for name in LIBRARY.findall(record):
                os.stat(os.path.join(site, name))
            hashes[os.path.basename(folder)] = hashlib.sha256(record).hexdigest()
        except OSError:
            hashes[os.path.basename(folder)] = ""
    return hashes


def list_changed_packages(env: str) -> "list[tuple[str, str, str, bool]]":
    """Return (package, version built, version now, whether a library is gone) of each; a version
    that does not exist is "".

    If the versions are equal, files are gone or replaced.
    """
    built, current = built_packages(env), current_packages(env)
    changes = []
    for name in sorted(set(built) | set(current)):
        before, after = built.get(name, []), current.get(name, [])
        was, now = (", ".join(v for v, _ in rows) for rows in (before, after))
        records = [[sha for _, sha in rows] for rows in (before, after)]
        if was != now or records[0] != records[1]:
            is_gone = "" in records[1] and "" not in records[0]
            changes.append((name, was, now, is_gone))
    return changes


def list_packages(env: str) -> "dict[str, str]":
    """Return {package: version}."""
    packages = versions_by_package({os.path.basename(folder): "" for folder in dist_infos(env)})
    return {name: ", ".join(v for v, _ in rows) for name, rows in packages.items()}


def built_packages(env: str) -> "Packages":
    try:
        with open(os.path.join(env, OK)) as file:
            return versions_by_package(json.load(file)["dists"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return current_packages(env)  # the build is unknown, so nothing differs


def current_packages(env: str) -> "Packages":
    return versions_by_package(hash_package_records(env))


def versions_by_package(dists: "dict[str, str]") -> "Packages":
    """Return {package: [(version, sha256 of RECORD), ...]}."""
    packages = {}  # type: dict[str, list[tuple[str, str]]]
    for name, sha in dists.items():
        match = DIST.match(name)
        if match:
            packages.setdefault(normalized_name(match.group(1)), []).append((match.group(2), sha))
    return {name: sorted(rows) for name, rows in packages.items()}


def normalized_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def dist_infos(env: str) -> "list[str]":
    return glob.glob(os.path.join(glob.escape(site_packages(env)), "*.dist-info"))


def site_packages(env: str) -> str:
    folders = sorted(glob.glob(os.path.join(glob.escape(env), "lib", "python3*", "site-packages")))
    return folders[0] if folders else os.path.join(env, "lib", "python3", "site-packages")


# --- files ---------------------------------------------------------------------------------------


class DriftComparison:
    """A walk over the files of an environment. `found`: (path, what is wrong)."""

    def __init__(self, env: str, full: bool) -> None:
        self.env = env
        self.site = site_packages(env)
        self.since = None if full else os.stat(os.path.join(env, OK)).st_mtime
        self.found = []  # type: list[tuple[str, str]]
        self.owned = set()  # type: set[str]
        self.looked = self.hashed = 0

    def compare_files(self) -> None:
        """Compare all files with the RECORDs of their packages."""
        changed = {row[0] for row in list_changed_packages(self.env)}
        for folder in sorted(dist_infos(self.env)):
            match = DIST.match(os.path.basename(folder))
            is_unchanged = match is not None and normalized_name(match.group(1)) not in changed
            for path, digest, size in record_rows(folder):
                path = os.path.normpath(os.path.join(self.site, path))
                self.owned.add(path)
                # Files of a package that is reported as changed are not reported again.
                if is_unchanged and digest and path.startswith(self.env + os.sep):
                    self.compare_file(path, digest, size)
        self.report_unowned_files()

    def compare_file(self, path: str, digest: str, size: str) -> None:
        """Add a finding if the file differs from its line in RECORD."""
        if path.endswith(".pyc"):
            return
        self.looked += 1
        info = info_of(path)
        if info is None:
            self.add_finding(path, "is gone")
        elif not stat.S_ISREG(info.st_mode):
            self.add_finding(path, "is no longer a file")
        elif size.isdigit() and int(size) != info.st_size:
            self.add_finding(path, "has changed")
        elif self.since is None or max(info.st_mtime, info.st_ctime) > self.since:
            self.hashed += 1
            if self.hash_as_record(path, digest.partition("=")[0]) != digest:
                self.add_finding(path, "has changed")

    def hash_as_record(self, path: str, kind: str) -> "str | None":
        """Return the digest as RECORD writes it; None if the file cannot be read."""
        import base64

        try:
            with open(path, "rb") as file:
                state = hash_of(file, hashed=kind)
        except (OSError, ValueError):
            return None
        text = base64.urlsafe_b64encode(state.digest()).rstrip(b"=").decode()
        return "%s=%s" % (kind, text)

    def report_unowned_files(self) -> None:
        """Report files that no package owns: Python runs a .pth or module put there by hand."""
        for folder, folders, files in os.walk(self.site):
            folders[:] = [folder_name for folder_name in folders if folder_name != "__pycache__"]
            for name in files:
                path = os.path.join(folder, name)
                is_ours = folder == self.site and name in MADE_BY_VENV
                if path not in self.owned and not is_ours and not name.endswith(".pyc"):
                    self.add_finding(path, "belongs to no package")

    def add_finding(self, path: str, problem: str) -> None:
        self.found.append((os.path.relpath(path, self.env), problem))


def record_rows(folder: str) -> "Iterator[list[str]]":
    """Return (path below site-packages, "sha256=...", size), as text, for each line of a RECORD."""
    import csv  # imported late: a run does not need it

    try:
        with open(os.path.join(folder, "RECORD"), newline="", encoding="utf-8") as file:
            for row in csv.reader(file):
                if len(row) == 3:
                    yield row
    except (OSError, ValueError, csv.Error):
        return
