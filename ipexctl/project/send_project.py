"""Send the user's folder to every host as a snapshot for this run."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from ipexctl.base.quoting import quote
from ipexctl.base.sizes import format_bytes
from ipexctl.common.folder_answers import ScriptFound
from ipexctl.errors import InputError
from ipexctl.local import bounded_read
from ipexctl.local.file_hashes import Hashes
from ipexctl.local.import_roots import import_roots, marked_project, module_path
from ipexctl.local.nearest_file import Note, ignore_note
from ipexctl.local.ownership import foreign_owner
from ipexctl.local.project_lock import git_root
from ipexctl.machines.agent import Agent
from ipexctl.project import folder_transfer
from ipexctl.project.files import project_files as core
from ipexctl.project.files.missing_file import (
    LeftOut,
    in_project,
    missing_module,
    missing_paths,
)
from ipexctl.project.files.project_files import Ignore
from ipexctl.project.project_folder import Found, Listing, ProjectReader, Walk, left_out, some_paths
from ipexctl.project.send_agreed import answer_yes
from ipexctl.quick_dataclass import dataclass

Confirm = Callable[[str], bool]


@dataclass(frozen=True)
class Project:
    """The folder that is sent, and where in it the ranks start."""

    folder: Path
    cwd: str = ""  # below the folder, with slashes
    git: bool = False
    notes: tuple[str, ...] = ()
    beside: str = field(default="", compare=False)  # the script's folder, in the same form

    @property
    def start(self) -> Path:
        return self.folder / self.cwd


@dataclass(frozen=True)
class Sent:
    cwd: str  # on the host
    bytes: int = 0  # bytes that the host did not have
    mark: str = ""  # of the folder: hosts that share a home have the same one


@dataclass(frozen=True)
class Snapshot:
    """What is sent to the hosts."""

    project: Project
    bundle: folder_transfer.TreeContents
    notes: tuple[str, ...] = ()
    ignored: int = 0  # files that are sent although Git's rules leave them out
    left: tuple[str, ...] = ()  # files that Git's rules leave out and that are not sent
    withheld: frozenset[str] = frozenset()  # of these, data that is too large to be sent

    def bring(self, agent: Agent, root: str, run_id: str, copies: int = 1) -> Sent:
        """Create the snapshot on the host. `copies`: how many of the newest runs keep theirs."""
        request = {"root": root, "run_id": run_id, "cwd": self.project.cwd, "copies": copies}
        sent = folder_transfer.send_folder(agent, self.bundle, request)
        return Sent(sent.done.cwd, sent.sent, sent.done.mark)

    def holds(self, path: str) -> bool:
        tree = self.bundle.tree
        return path in tree.folders or any(file.path == path for file in tree.files)

    def told(self, sent: int) -> str:
        tree = self.bundle.tree
        ignored = f", {self.ignored:,} of them data that .gitignore names" if self.ignored else ""
        amount = core.amount_text(len(tree.files), tree.bytes)
        subject = f"{self.project.folder} ({amount}{ignored})"
        start = f"; ranks start in {self.project.cwd}" if self.project.cwd else ""
        if not sent:
            return f"{subject}: already on all hosts{start}"
        return f"{subject}: {format_bytes(sent)} sent to all hosts{start}"


@dataclass(frozen=True)
class InPlace:
    """--no-sync: the files are on the hosts, in the same folder or the same one below the home."""

    folder: Path
    script: str  # "" for a module
    notes: tuple[str, ...] = ()
    ignored: int = 0  # nothing is sent

    def bring(self, agent: Agent, root: str, run_id: str, copies: int = 1) -> Sent:
        """Find the folder on the host."""
        home = Path.home()
        relative = self.folder.relative_to(home).as_posix() if home in self.folder.parents else ""
        request = {"folder": os.fspath(self.folder), "home": relative, "script": self.script}
        done = agent.call("project.synced_folders.find_script", request).done
        return Sent(done.read(ScriptFound).cwd)

    def told(self, sent: int) -> str:
        return f"nothing is sent: ranks start in {self.folder} of their host"


def project_of(script: Path, cwd: Path) -> Project:
    """Return the git work tree around the script's folder, else the Python project around it, or
    that folder. Ranks start in `cwd` if it is inside, else beside the script. Raises InputError for
    folders that are never meant to be sent."""
    root = git_root(script)
    notes: tuple[str, ...] = ()
    if root and root != script and (why := why_refused(root)):
        notes = (f"{root} is not sent as a whole, because {why}; only {script} is sent",)
        root = None
    if root and (owner := foreign_owner(root) or foreign_owner(root / ".git")):
        notes = (f"ignoring the git repository {root}: owned by {owner}; only {script} is sent",)
        root = None
    marked = None if root else marked_project(script)
    folder = root or (marked if marked and not why_refused(marked) else script)
    if why := why_refused(folder):
        raise InputError(
            f"{folder} is not sent to other machines: {why}",
            hint="move the script into a folder of its own; or --no-sync, if it is there already",
            slug="folder-refused",
        )
    start = cwd if cwd == folder or folder in cwd.parents else script
    relative, beside = (
        "" if place == folder else place.relative_to(folder).as_posix() for place in (start, script)
    )
    return Project(folder, relative, root is not None, notes, beside)


def read_project(
    project: Project,
    confirm: Confirm,
    environ: Mapping[str, str],
    note: Note = ignore_note,
    *,
    contents: bool = True,
) -> Snapshot:
    """Read the folder; without `contents` only its listing. `confirm` is asked before much is sent
    from a folder without Git, `note` gets how much is read.

    Raises InputError if the answer is no, or for unreadable files.
    """
    folder = project.folder
    asks = not project.git and confirm is not answer_yes
    walk = Walk(folder, most=core.MAX_FILES * 4 if asks else None)
    listing = walk.run(_git_ignore(project, environ))
    sent, withheld, others = _of_the_ignored(project, listing)
    listing.files += sent
    count, size = len(listing.files), listing.bytes
    if asks and core.is_large(count, size):
        _ask_to_send(folder, listing, confirm)
    notes = [*project.notes, *listing.notes()]
    notes += _left_out_notes(folder, withheld, others, listing.unseen)
    if core.is_large(count, size):
        note(f"a large folder: {_describe_folder(folder, listing)}")
    reader = ProjectReader(folder, Hashes(folder))
    bundle = folder_transfer.TreeContents(reader.tree(listing, contents=contents), reader)
    unsent = tuple(path for path, _ in (*withheld, *others))
    return Snapshot(
        project, bundle, tuple(notes), len(sent), unsent, frozenset(path for path, _ in withheld)
    )


def _of_the_ignored(
    project: Project, listing: Listing
) -> tuple[list[Found], list[Found], list[Found]]:
    """Split the files that Git's rules leave out into data that is sent nevertheless, data that is
    too large in total, the smallest first, and others."""
    files = [(path, info.st_size) for path, info in listing.ignored if stat.S_ISREG(info.st_mode)]
    places = () if listing.ignored_cut else (project.cwd, project.beside)
    data = core.ignored_data(files, places)
    chosen = [entry for entry in listing.ignored if entry[0] in data]
    others = [entry for entry in listing.ignored if entry[0] not in data]
    if core.is_large(len(data), sum(data.values())):
        return [], sorted(chosen, key=lambda entry: entry[1].st_size), others
    return chosen, [], others


def _left_out_notes(
    folder: Path, withheld: Sequence[Found], others: Sequence[Found], unseen: Sequence[str]
) -> Iterator[str]:
    """Yield messages about files that .gitignore leaves out, with the command to send them."""
    file = quote((os.path.relpath(folder / ".ipexctlignore"),))
    exists = (folder / ".ipexctlignore").exists()
    command = f"put !* at the top of {file}" if exists else f"echo '!*' > {file}"
    if withheld:
        names = some_paths([path for path, _ in withheld])
        yield (
            f"WARNING: data that .gitignore names is not sent, because {_amount_text(withheld)} "
            f"are too much ({core.MAX_FILES:,} files or {format_bytes(core.MAX_BYTES)}): {names}; "
            f"to send all: {command}"
        )
    if others or unseen:
        amounts = [_amount_text(others)] if others else []
        if unseen:
            amounts.append(f"{len(unseen)} folder{'s' * (len(unseen) > 1)}")
        names = some_paths([*unseen, *sorted((path for path, _ in others), key=core.is_made)])
        yield f"left out by .gitignore: {' and '.join(amounts)}: {names}; to send all: {command}"


def _amount_text(files: Sequence[Found]) -> str:
    size = format_bytes(sum(info.st_size for _, info in files))
    return f"{len(files):,} file{'s' * (len(files) != 1)} ({size})"


def check_sent(snapshot: Snapshot, script: str, environ: Mapping[str, str]) -> None:
    """Raise InputError if the script itself, relative to where ranks start, is not sent."""
    project = snapshot.project
    path = posixpath.normpath(posixpath.join(project.cwd, script))
    if not snapshot.holds(path):
        why, hint = why_left_out(snapshot, path, environ)
        raise InputError(
            f"the script {script} is not sent to the hosts",
            why=why,
            hint=hint,
            slug="script-left-out",
        )


def left_out_file(
    snapshot: Snapshot, start: str, words: Sequence[str], environ: Mapping[str, str]
) -> LeftOut | None:
    """Return the file that ranks started in `start` report as missing, if it was not sent."""
    project = snapshot.project
    reported = missing_paths(words)
    candidates = [in_project(path, start, project.cwd) for path in reported]
    if module := missing_module(words):
        places = (posixpath.normpath(posixpath.join(top, module)) for top in import_places(project))
        candidates += (module_path(project.folder, place) for place in places)
    path = next((name for name in candidates if name and os.path.exists(project.folder / name)), "")
    if not path and (typed := _path_above_project(project, reported)):
        return _outside_project(project.folder, typed)
    full_path = project.folder / path
    if not path or snapshot.holds(path):
        return None
    if path.startswith("../"):
        return _outside_project(project.folder, os.path.normpath(full_path))
    why, fix = why_left_out(snapshot, path, environ)
    if path in snapshot.withheld:
        why += f", and with the other data there it is more than {format_bytes(core.MAX_BYTES)}"
    return LeftOut(path, why, fix) if fix else None


def _path_above_project(project: Project, reported: Sequence[str]) -> str:
    """Return one of the paths, relative to the command's folder, if it is above what is sent."""
    try:
        cwd = Path.cwd()
    except FileNotFoundError:
        return ""  # that folder was removed
    if project.git or cwd not in project.folder.parents or why_refused(cwd):
        return ""
    paths = (os.path.normpath(cwd / path) for path in reported if not posixpath.isabs(path))
    return next(filter(os.path.exists, paths), "")


def _outside_project(folder: Path, path: str) -> LeftOut:
    above = quote((os.path.commonpath((folder, path)),))
    fix = f"git init {above}   # ipexctl run sends the complete Git work tree of the script"
    return LeftOut(path, f"only {folder} is sent, the script's folder", fix)


def why_left_out(snapshot: Snapshot, path: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return why a file is not sent, and what to do about it."""
    project, place = snapshot.project, posixpath.dirname(path)
    beside = [file for file in snapshot.left if posixpath.dirname(file) == place and file != path]
    return left_out(project.folder, path, _git_ignore(project, environ), beside)


def import_places(project: Project) -> tuple[str, ...]:
    """Return the project's folders that may contain modules; its top is the last one."""
    return tuple(dict.fromkeys((project.beside, project.cwd, *import_roots(project.folder), "")))


def why_refused(folder: Path) -> str:
    """Return why this folder is never sent, "" if it may be."""
    home = Path.home().resolve()
    if folder == home:
        return "it is your home folder"
    if folder == Path("/"):
        return "it is the root of the file system"
    if folder in home.parents:
        return "your home folder is in it"
    return "there is a .ssh folder in it" if os.path.exists(folder / ".ssh") else ""


def _git_ignore(project: Project, environ: Mapping[str, str]) -> Ignore:
    """Return Git's rules outside of .gitignore files: the user's, and this clone's."""
    if not project.git:
        return Ignore()
    config = environ.get("XDG_CONFIG_HOME") or os.fspath(Path.home() / ".config")
    ignore = Ignore()
    for path in (Path(config) / "git/ignore", project.folder / ".git/info/exclude"):
        with suppress(OSError):
            text = bounded_read.read_file(path).decode("utf-8", "replace")
            ignore = ignore.also(text, "", os.fspath(path))
    return ignore


def _ask_to_send(folder: Path, listing: Listing, confirm: Confirm) -> None:
    description = _describe_folder(folder, listing)
    if not confirm(f"{description}. Send it to the hosts?"):
        raise InputError(
            description,
            why=f"more than {core.MAX_FILES:,} files or {core.MAX_BYTES / 1e6:.0f} MB are sent "
            "without confirmation only from a Git work tree",
            hint="list what the run does not need in .ipexctlignore (same syntax as .gitignore)\n"
            "or -y to send everything",
            slug="large-folder-not-confirmed",
        )


def _describe_folder(folder: Path, scan: Listing) -> str:
    cut = " or more" if scan.cut else ""
    where = core.largest_entry((path, info.st_size) for path, info in scan.files)
    return (
        f"{folder} holds {core.amount_text(len(scan.files), scan.bytes)}{cut}; most is in {where}"
    )
