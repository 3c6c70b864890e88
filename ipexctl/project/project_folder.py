"""Read a local folder: which of its files are sent, and their content."""

from __future__ import annotations

import errno
import hashlib
import os
import posixpath
import stat
from collections.abc import Iterator, Sequence
from dataclasses import field
from itertools import islice
from pathlib import Path

from ipexctl.base import quoting
from ipexctl.common.secret_names import is_secret_file, is_secret_in_data
from ipexctl.errors import InputError, reason_of
from ipexctl.local import bounded_read
from ipexctl.local.file_hashes import Hashes, Stamp, file_stamp
from ipexctl.project.files.dataset_names import data_name, push_hint
from ipexctl.project.files.project_files import ENVIRONMENT_SIGNS as SIGNS
from ipexctl.project.files.project_files import (
    MAX_FILES,
    PACKED,
    Ignore,
    ProjectFile,
    Tree,
    is_large,
    is_never_sent,
    is_of_no_use,
    line_for,
    link_stays,
    parent_folders,
    printable_path,
)
from ipexctl.quick_dataclass import dataclass

HELD = 64 << 20  # bytes of small files kept in memory between reading and sending
SHOWN = 3
IGNORE = "name in .ipexctlignore what the run does not need"

DEEPEST = 200  # folders within folders
# entries to scan in one folder that Git's rules leave out, and in all of them
SCANNED, SCANNED_ALL = 2000, 10_000

Found = tuple[str, os.stat_result]


@dataclass
class Listing:
    """What a walk has found, as relative paths; those of folders end without a slash."""

    folders: list[str] = field(default_factory=list)
    files: list[Found] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)  # links to targets outside
    odd: list[str] = field(default_factory=list)  # pipes, sockets, devices
    secrets: list[str] = field(default_factory=list)
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    ignored: list[Found] = field(default_factory=list)  # files and links that Git's rules leave out
    unseen: list[str] = field(default_factory=list)  # their folders that are not searched
    ignored_cut: bool = False  # there are more of those, in some folder
    cut: bool = False  # there are more entries

    @property
    def bytes(self) -> int:
        return sum(info.st_size for _, info in self.files)

    def notes(self) -> Iterator[str]:
        if self.outside:
            yield f"not sent, because they link outside the folder: {some_paths(self.outside)}"
        if self.odd:
            yield f"not sent, because they are not regular files: {some_paths(self.odd)}"
        if self.secrets:
            yield f"never sent, as they may contain secrets: {some_paths(self.secrets)}"


def some_paths(paths: list[str]) -> str:
    shown = ", ".join(printable_path(path) for path in paths[:SHOWN])
    return shown if len(paths) <= SHOWN else f"{shown} and {len(paths) - SHOWN} more"


class Walk:
    """Walks a folder. `everything`: also what ignore files and our own list exclude; for data."""

    def __init__(self, folder: Path, *, everything: bool = False, most: int | None = None) -> None:
        self._top = os.fspath(folder)
        self._real = os.path.realpath(folder)
        self._everything = everything
        self._most = most  # number of files after which it gives up: too many in any case
        self._scans = SCANNED_ALL
        self.found = Listing()

    def run(self, ignore: Ignore) -> Listing:
        self._walk_folder("", ignore, inherited=False)
        return self.found

    def _walk_folder(self, base: str, ignore: Ignore, *, inherited: bool) -> None:
        """Walk `base`, which is "" or ends with a slash; `inherited`: Git's rules exclude it."""
        if base.count("/") > DEEPEST:
            raise InputError(
                f"{self._top}: folders are nested more than {DEEPEST} levels deep",
                why=base[:80] + "...",
                slug="folders-too-deep",
            )
        if self._most is not None and len(self.found.files) > self._most:
            self.found.cut = True
            return
        try:
            with os.scandir(f"{self._top}/{base}") as entries:
                items = sorted(entries, key=lambda e: e.name)
        except OSError as e:
            self.found.unreadable.append((base, reason_of(e)))
            return
        names = {e.name for e in items}
        if base and not self._everything and not names.isdisjoint(SIGNS):
            return
        if base and not inherited:
            self.found.folders.append(base[:-1])
        if not self._everything and not names.isdisjoint((".gitignore", ".ipexctlignore")):
            ignore = _ignore_within(self._top, base, ignore)
        for entry in items:
            try:
                self._visit_entry(entry, base + entry.name, ignore, inherited)
            except OSError as e:
                self.found.unreadable.append((base + entry.name, reason_of(e)))

    def _visit_entry(
        self, entry: os.DirEntry[str], path: str, ignore: Ignore, inherited: bool
    ) -> None:
        """Add an entry to the listing, or the reason why it is left out."""
        if entry.is_dir(follow_symlinks=False):
            self._visit_folder(entry.name, path + "/", ignore, inherited)
            return
        if self._everything and is_secret_in_data(entry.name):
            self.found.secrets.append(path)
            return
        if not self._everything:
            if ignore(path, inherited=inherited):
                if is_secret_file(entry.name) and not ignore.ours_leave_out(path):
                    self.found.secrets.append(path)
                elif (
                    self._scans and not ignore.ours_leave_out(path) and not is_of_no_use(entry.name)
                ):
                    self._note_ignored(entry, path)
                return
            if is_never_sent(entry.name):
                if is_secret_file(entry.name):
                    self.found.secrets.append(path)
                return
        info = entry.stat(follow_symlinks=False)
        if stat.S_ISREG(info.st_mode):
            self.found.files.append((path, info))
        elif stat.S_ISLNK(info.st_mode):
            self._visit_link(path)
        else:
            self.found.odd.append(path)

    def _visit_folder(self, name: str, path: str, ignore: Ignore, inherited: bool) -> None:
        """Walk a subfolder if it is sent; else note it where the user should know."""
        if self._everything and is_secret_in_data(name):
            self.found.secrets.append(path)
        elif self._everything:
            self._walk_folder(path, ignore, inherited=False)
        elif is_never_sent(name):
            if is_secret_file(name) and not ignore(path, inherited=inherited):
                self.found.secrets.append(path)
            elif is_secret_file(name) and not ignore.ours_leave_out(path):
                self.found.unseen.append(path)
        elif not ignore(path, inherited=inherited):
            self._walk_folder(path, ignore, inherited=False)
        elif ignore.may_open(path):
            self._walk_folder(path, ignore, inherited=True)
        elif not ignore.ours_leave_out(path) and not is_of_no_use(name):
            self._list_ignored_folder(path, ignore)

    def _note_ignored(self, entry: os.DirEntry[str], path: str) -> None:
        self._scans -= 1
        if self._scans:
            self.found.ignored.append((path, entry.stat(follow_symlinks=False)))
        else:
            self.found.ignored_cut = True
            self.found.unseen.append(path.removesuffix(entry.name) or "./")

    def _list_ignored_folder(self, top: str, ignore: Ignore) -> None:
        """List the files of a folder that Git's rules leave out, unless there are too many."""
        files: list[Found] = []
        limit = min(SCANNED, self._scans)
        folders, budget = [(top, ignore)], limit
        while folders:
            base, ignore = folders.pop()
            try:
                with os.scandir(f"{self._top}/{base}") as entries:
                    items = list(islice(entries, budget + 1))
            except OSError:
                items = []
            budget -= len(items)
            if budget < 0:
                break
            names = {e.name for e in items}
            if not names.isdisjoint(SIGNS):
                continue
            if ".ipexctlignore" in names:
                ignore = _ignore_within(self._top, base, ignore)
            for entry in items:
                path = base + entry.name + "/" * entry.is_dir(follow_symlinks=False)
                if is_of_no_use(entry.name) or ignore.ours_leave_out(path):
                    continue
                if path.endswith("/"):
                    folders.append((path, ignore))
                else:
                    files.append((path, entry.stat(follow_symlinks=False)))
        self._scans -= limit - max(budget, 0)
        if budget < 0:
            self.found.ignored_cut |= limit < SCANNED
            self.found.unseen.append(top)
        else:
            self.found.ignored += sorted(files)

    def _visit_link(self, path: str) -> None:
        """Keep a link that stays inside the folder; note any other."""
        full = Path(f"{self._top}/{path}")
        target = os.fspath(full.readlink())
        end = os.path.realpath(full)
        inside = end.startswith(self._real + os.sep)
        if inside and target.startswith("/"):
            target = os.path.relpath(end, f"{self._real}/{posixpath.dirname(path)}")
        if inside and link_stays(path, target):
            self.found.links.append((path, target))
        else:
            self.found.outside.append(path)


def _ignore_within(top: str, base: str, ignore: Ignore) -> Ignore:
    """Return the rules, with those of the ignore files in the folder `base`."""

    def text(name: str) -> str:
        path = Path(f"{top}/{base}{name}")
        try:
            return bounded_read.read_file(path).decode("utf-8", "replace")
        except FileNotFoundError:
            return ""
        except OSError as e:
            raise InputError(
                f"cannot read {path}",
                why=reason_of(e),
                hint=f"remove {path.name}, or make it a text file: it decides which files are sent",
                slug="ignore-file-unreadable",
            ) from None

    return ignore.with_folder(base, text(".gitignore"), text(".ipexctlignore"))


def left_out(top: Path, path: str, ignore: Ignore, beside: Sequence[str] = ()) -> tuple[str, str]:
    """Return why a file was not found by a walk, and what to do about it.

    The fix also includes the excluded folder, or the files `beside`, if they are not large.
    """
    base, *parts = "", *path.split("/")
    for i, name in enumerate(parts):
        ignore = _ignore_within(os.fspath(top), base, ignore)
        base += name
        if _leads_out(top, base):
            target = os.path.realpath(top / base)
            push = push_hint(target, data_name(target)) if os.path.isdir(target) else ""
            return f"{base} is a link to a place outside {top}", push or "copy the file there"
        base += "/" * (i < len(parts) - 1 or _is_folder(top / base))
        if is_never_sent(name):
            reason = "is a name used for history or caches"
            why = "may contain secrets" if is_secret_file(name) else reason
            return f"{name} {why}: it is never sent", "give it another name, or another place"
        rule, ours = ignore.why(base)
        if rule and ours:
            alternative = "" if base.endswith("/") else f", or add !{path} below it"
            return f"left out by {rule}", f"remove that line{alternative}"
        if rule:
            return f"left out by {rule}", _way_back(top, path, base, beside)
        if any(os.path.exists(top / base / sign) for sign in SIGNS):
            return f"{base} is a Python environment, which is never sent", "put it elsewhere"
    return f"it is not among the files of {top}", ""


def _leads_out(top: Path, path: str) -> bool:
    target = Path(os.path.realpath(top / path))
    return (top / path).is_symlink() and not target.is_relative_to(os.path.realpath(top))


def _is_folder(path: Path) -> bool:
    return os.path.isdir(path) and not path.is_symlink()


def _way_back(top: Path, path: str, rule_at: str, beside: Sequence[str]) -> str:
    """Return a command to include what the rule excludes, or only `path`; large files as data."""
    for paths in ([rule_at] if rule_at.endswith("/") else [path, *beside], [path]):
        if not any(_is_large(top / candidate) for candidate in paths):
            lines = quoting.quote_for_pasting(tuple(map(line_for, paths)))
            file = quoting.quote_for_pasting((os.fspath(top / ".ipexctlignore"),))
            return f"printf '%s\\n' {lines} >> {file}   # then run the same command again"
    folder = rule_at if rule_at.endswith("/") else posixpath.dirname(path)
    if not folder:
        return f"move it into a folder DIR of its own: {push_hint('DIR', 'NAME')}"
    return push_hint(str(top / folder), data_name(folder))


def _is_large(path: Path) -> bool:
    if not _is_folder(path):
        return is_large(1, path.stat().st_size)
    listing = Walk(path, everything=True, most=MAX_FILES).run(Ignore())
    return listing.cut or is_large(len(listing.files), listing.bytes)


class ProjectReader:
    """Reads contents by hash. Of a file that grows, only the bytes at listing time are read.

    `way_out`: what to do about files that cannot be read.
    """

    def __init__(self, folder: Path, hashes: Hashes, way_out: str = IGNORE) -> None:
        self._top = os.fspath(folder)
        self._way_out = way_out
        self._hashes = hashes
        self._held: dict[str, bytes] = {}
        self._room = HELD
        self._paths: dict[str, str] = {}

    def tree(self, listing: Listing, *, contents: bool = True) -> Tree:
        """Return the tree. Raises InputError for unreadable files: a run might need them. Without
        `contents` the files have no hash, and none is read."""
        files = []
        unreadable = list(listing.unreadable)
        for path, info in listing.files:
            try:
                files.append(
                    self._read_file(path, info) if contents else self._describe_file(path, info)
                )
            except OSError as e:
                unreadable.append((path, reason_of(e)))
        if unreadable:
            raise cannot_read(self._top, unreadable, self._way_out)
        self._hashes.save()
        holders = {
            path.rpartition("/")[0] for path in (*(f.path for f in files), *dict(listing.links))
        }
        parents = {above for path in holders for above in (path, *parent_folders(path)) if above}
        folders = sorted(parents.union(listing.folders))  # sorted: parents come first
        return Tree(tuple(folders), tuple(files), tuple(listing.links))

    def path(self, sha256: str) -> Path:
        return Path(f"{self._top}/{self._paths[sha256]}")

    def content(self, file: ProjectFile) -> bytes:
        """Return the content of a small file as it was when it was listed."""
        if (data := self._held.get(file.sha256)) is not None:
            return data
        data = self._read(self._paths[file.sha256], file.size)
        if hashlib.sha256(data).hexdigest() != file.sha256:
            raise InputError(
                f"{printable_path(self._paths[file.sha256])} changed while it was being sent",
                hint="run the same command again",
                slug="file-changed",
            )
        return data

    def _describe_file(self, path: str, info: os.stat_result) -> ProjectFile:
        if not os.access(f"{self._top}/{path}", os.R_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return ProjectFile(path, info.st_size, "", bool(info.st_mode & 0o100))

    def _read_file(self, path: str, info: os.stat_result) -> ProjectFile:
        mark = file_stamp(info)
        sha, size = self._hashes.known_hash(path, mark), info.st_size
        if not sha:
            sha, size = self._hash_file(path, mark)
        self._paths[sha] = path
        return ProjectFile(path, size, sha, bool(info.st_mode & 0o100))

    def _hash_file(self, path: str, mark: Stamp) -> tuple[str, int]:
        """Return a file's hash and size; keep small contents in memory while there is room."""
        size = mark[0]
        if size <= PACKED:
            data = self._read(path, size)
            sha, size = hashlib.sha256(data).hexdigest(), len(data)
            if self._room >= size:
                self._held[sha] = data
                self._room -= size
        else:
            sha = self._hash_large(path, size)
        self._hashes.add(path, mark, sha)
        return sha, size

    def _read(self, path: str, size: int) -> bytes:
        fd = os.open(f"{self._top}/{path}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            data = os.read(fd, size)
            while len(data) < size and (chunk := os.read(fd, size - len(data))):
                data += chunk
        finally:
            os.close(fd)
        return data

    def _hash_large(self, path: str, size: int) -> str:
        digest, remaining = hashlib.sha256(), size
        with Path(f"{self._top}/{path}").open("rb", buffering=0) as file:
            while remaining and (chunk := file.read(min(1 << 20, remaining))):
                digest.update(chunk)
                remaining -= len(chunk)
        if remaining:
            raise OSError(None, "it became shorter while it was read")
        return digest.hexdigest()


def cannot_read(folder: str, unreadable: list[tuple[str, str]], way_out: str) -> InputError:
    lines = [f"{printable_path(path) or folder}: {why}" for path, why in unreadable[:SHOWN]]
    if rest := len(unreadable) - len(lines):
        lines.append(f"and {rest} more")
    return InputError(
        f"cannot read all of {folder}", why="\n".join(lines), hint=way_out, slug="folder-unreadable"
    )
