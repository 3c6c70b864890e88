"""Fetch files that ranks left in the run's folder on the hosts: --fetch, --outputs, fetch.

The files of rank 0's host are on top, those of every other host in a separate folder, `@HOST`.
With --merge the files of all hosts are on top; only those that an earlier host has, too, go to
`@HOST`. The names come from the hosts, so nothing is written outside of the outputs' folder and
nothing is written twice. With -o DIR they go from there to DIR, where a file of the same name is
replaced.
"""

from __future__ import annotations

import errno
import filecmp
import glob
import os
import posixpath
import secrets
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ipexctl.base.host_outcome import HostDown
from ipexctl.base.quoting import quote
from ipexctl.common.files import sync_disk
from ipexctl.common.path_patterns import matches_path_pattern
from ipexctl.common.result_answers import OutputFiles, PieceSent
from ipexctl.errors import HostFailed, InputError, IpexctlError, printable_text
from ipexctl.inventory.inventory import Host
from ipexctl.local.run_options import RunOptions
from ipexctl.machines.agent import Agent, transfer_time
from ipexctl.machines.fleet import fan_out
from ipexctl.machines.wire.frames import Frame
from ipexctl.project.project_folder import some_paths
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.watch.run_folder import safe_host_name

PIECE = 64 << 20  # bytes of one request
ENTRY = 4096  # bytes that a file and each of its folders take in addition to its content
LONGEST_PATH, DEEPEST = 1024, 64
ENTRIES = 500_000  # files and folders, from all hosts together
SHOWN = 20  # refused files that are named
FETCH_LIMIT = 100 << 30  # bytes, from all hosts together
# names that programs on this machine obey in a folder, in small letters; HEAD makes a folder a
# repository of Git
OBEYED = frozenset(
    (
        "ipexctl.toml",
        "ipexctl.lock",
        "sitecustomize.py",
        "usercustomize.py",
        "mise.toml",
        "mise.local.toml",
        "uv.toml",
    )
)
# hidden files and folders that belong to results: DCP, Hydra, Zarr, Ray
HIDDEN = frozenset(
    (
        ".metadata",
        ".hydra",
        ".zarray",
        ".zattrs",
        ".zgroup",
        ".zmetadata",
        ".is_checkpoint",
        ".tune_metadata",
        ".validate_storage_marker",
    )
)
Note = Callable[[str], None]


@dataclass(frozen=True)
class Wish:
    """What to fetch, and from which run. `named`: the patterns as the user typed them, if a host
    reported the folder that contains them."""

    patterns: tuple[str, ...]
    run_id: str
    roots: Mapping[str, str]
    first: str  # rank 0's host
    limit: int = FETCH_LIMIT
    merge: bool = False  # the files of all hosts in one folder
    dest: Path | None = None  # where they go
    named: tuple[str, ...] | None = None


class Budget:
    """Bytes, files and folders that may still come, from any host."""

    def __init__(self, size: int, entries: int) -> None:
        self._left, self._entries, self._lock = size, entries, threading.Lock()

    def take(self, size: int, entries: int) -> bool:
        """Reserve this much; return False, and reserve nothing, if that exceeds the budget."""
        with self._lock:
            if size > self._left or entries > self._entries:
                return False
            self._left -= size
            self._entries -= entries
            return True


@dataclass(frozen=True)
class HostFetch:
    files: int = 0
    size: int = 0
    refused: tuple[str, ...] = ()
    matched: bool = False
    ended: str = ""  # why the rest of this host's files did not come


def check_patterns(option: str, patterns: Sequence[str]) -> None:
    """Raise InputError unless patterns are below the script's folder."""
    for pattern in patterns:
        if pattern.startswith(("/", "~")) or ".." in pattern.split("/") or not pattern.strip("/"):
            raise InputError(
                f"{option} {quote((pattern,))}: not below the folder of the script",
                why="only files that ranks write to the run's own folder can be fetched",
                hint="let the script write to a folder next to it, and name that folder: "
                f"{option} out",
                slug="fetch-pattern-outside",
            )


def check_dest(dest: Path | None) -> None:
    """Check the folder before anything starts. Raise InputError."""
    if dest and os.path.lexists(dest) and not dest.is_dir():
        raise InputError(
            f"-o {quote((str(dest),))}: not a folder", hint="-o DIR", slug="dest-not-a-folder"
        )


def compose_fetch_words(options: RunOptions) -> tuple[str, ...]:
    """Return the words of `ipexctl fetch RUN` that fetch what these options request, if any."""
    patterns = (*options.fetch, *options.outputs)
    if not patterns:
        return ()
    dest = ("-o", options.dest) if options.dest else ()
    return (*patterns, *["--merge"] * options.merge, *dest)


def resolve_patterns(cwd: str, patterns: Sequence[str]) -> tuple[str, ...]:
    """Return the patterns relative to the top of the project, for ranks that start in `cwd`."""
    paths = (posixpath.normpath(posixpath.join(glob.escape(cwd), pattern)) for pattern in patterns)
    return tuple("**" if path == "." else path for path in paths)


@dataclass(frozen=True)
class FetchResult:
    """The result. `words`: what came and where it is, then what did not. `whole`: all came."""

    words: tuple[str, ...]
    folder: Path | None = None
    files: int = 0
    size: int = 0
    whole: bool = False
    new: int = 0  # files that `dest` did not have
    unmatched: bool = False  # all hosts were asked, and no file matches


def fetch_outputs(
    agents: Mapping[Host, Agent], wish: Wish, folder: Path, note: Note
) -> FetchResult:
    """Fetch matching files from all hosts into a new folder; the words say what is missing."""
    try:
        outputs = _create_folder(folder)
    except OSError as e:
        return FetchResult((f"outputs: not fetched ({e.strerror or e}); they are on the hosts",))

    budget = Budget(wish.limit, ENTRIES)
    lists = fan_out(tuple(agents), lambda host: list_outputs(agents[host], wish), forks=16)
    owners = _find_path_owners(lists, wish)
    listed_files = sum(len(row.files) for row in lists.values() if isinstance(row, OutputFiles))
    if wish.merge and (apart := listed_files - len(owners)):
        note(
            f"{apart:,} of {listed_files:,} files also exist on an earlier host; they are in @HOST"
        )

    def work(host: Host) -> HostFetch | HostDown:
        listed = lists[host]
        if isinstance(listed, HostDown):
            return listed
        return _fetch_host_outputs(
            agents[host], wish, listed, owners=owners, outputs=outputs, note=note, budget=budget
        )

    outcomes = fan_out(tuple(agents), work, forks=16)
    try:
        sync_disk(outputs)
    except OSError as e:
        return FetchResult(
            (f"outputs: not all of them are on the disk here ({e.strerror}): {outputs}",), outputs
        )
    fetches = [outcome for outcome in outcomes.values() if isinstance(outcome, HostFetch)]
    ends = [o.what if isinstance(o, HostDown) else o.ended for o in outcomes.values()]
    words = [f"could not fetch: {end}" for end in ends if end]
    refused = [text for fetch in fetches for text in fetch.refused]
    words += refused[:SHOWN]
    if len(refused) > SHOWN:
        words.append(f"and {len(refused) - SHOWN:,} more were not taken")
    files, size = sum(fetch.files for fetch in fetches), sum(fetch.size for fetch in fetches)
    if not files:
        complete = len(fetches) == len(outcomes) and not any(fetch.matched for fetch in fetches)
        why = f"no file matches {' '.join(wish.patterns)}" if complete else "nothing was fetched"
        if complete and not any("/" in pattern for pattern in wish.patterns):
            why += f"; in folders: {quote(tuple(f'**/{pattern}' for pattern in wish.patterns))}"
        with suppress(OSError):  # it may contain folders
            outputs.rmdir()
        return FetchResult((f"outputs: {why}", *words), unmatched=complete)
    new, replaced = files, list[str]()
    if wish.dest:
        try:
            new, replaced = move_into(outputs, wish.dest)
            outputs = wish.dest.absolute()
        except OSError as e:
            why = f"{e.strerror or e}: {e.filename or wish.dest}"
            words.append(f"cannot write to {wish.dest} ({why}); the rest is in {outputs}")
    first = _format_outputs_line(outputs, files, size, replaced)
    return FetchResult((first, *words), outputs, files, size, whole=not words, new=new)


def _format_outputs_line(outputs: Path, files: int, size: int, replaced: list[str]) -> str:
    noun = "file" if files == 1 else "files"
    amount = f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size:,} byte{'s' * (size != 1)}"
    suffix = f"; replaced {some_paths(replaced)}" if replaced else ""
    return f"outputs: {os.path.relpath(outputs)} ({files} {noun}, {amount}{suffix})"


def move_into(folder: Path, dest: Path) -> tuple[int, list[str]]:
    """Move files that are new or differ, and remove the others. Return how many files were moved,
    and which of them replaced another. Raise OSError."""
    moved, replaced = 0, list[str]()
    dest.mkdir(mode=0o755, parents=True, exist_ok=True)
    top = os.path.realpath(dest)
    for path in sorted(filter(Path.is_file, folder.rglob("*"))):
        place = dest / path.relative_to(folder)
        if os.path.commonpath((top, os.path.realpath(place.parent))) != top:
            raise PermissionError(errno.EPERM, "a link leads out of it", str(place))
        if place.is_file() and not place.is_symlink() and filecmp.cmp(path, place, shallow=False):
            continue
        place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        if os.path.lexists(place):
            replaced.append(str(path.relative_to(folder)))
        _replace_path(path, place)
        moved += 1
    shutil.rmtree(folder)
    return moved, replaced


def _replace_path(path: Path, target: Path) -> None:
    """Move a file over `target`; onto another file system, by a copy next to it."""
    try:
        path.replace(target)
    except OSError as e:
        if e.errno != errno.EXDEV:
            raise
        partial = target.with_name(f".{secrets.token_hex(8)}.part")
        try:
            shutil.copy(path, partial)  # keeps its mode
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)


def _create_folder(folder: Path) -> Path:
    """Create a new folder; files that were fetched before stay in theirs."""
    number = 1
    while True:
        outputs = folder / ("outputs" if number == 1 else f"outputs-{number}")
        try:
            outputs.mkdir(mode=0o700)
        except FileExistsError:
            number += 1
        else:
            return outputs


def list_outputs(agent: Agent, wish: Wish) -> OutputFiles:
    request = {**_compose_request(agent, wish), "patterns": list(wish.patterns)}
    done = agent.call("run_files.result_files.list", request, timeout=120).done
    return done.read(OutputFiles)


def _compose_request(agent: Agent, wish: Wish) -> dict[str, object]:
    return {"root": wish.roots[agent.host.name], "run_id": wish.run_id}


def _find_path_owners(lists: Mapping[Host, OutputFiles | HostDown], wish: Wish) -> dict[str, str]:
    """Return for each path on top of the outputs the host from which it comes."""
    owners: dict[str, str] = {}
    for host in sorted(lists, key=lambda host: host.name != wish.first):
        listed = lists[host]
        if isinstance(listed, OutputFiles) and (wish.merge or host.name == wish.first):
            for path, _ in listed.files:
                owners.setdefault(path, host.name)
    return owners


def _fetch_host_outputs(
    agent: Agent,
    wish: Wish,
    listed: OutputFiles,
    owners: Mapping[str, str],
    outputs: Path,
    note: Note,
    budget: Budget,
) -> HostFetch:
    """Fetch a host's files. `owners`: for each path on top of `outputs`, its host."""
    name, request, files = agent.host.name, _compose_request(agent, wish), listed.files
    reserved = name_other_folders(wish)
    count, total = 0, 0
    refused: list[str] = []
    if sum(size for _, size in files) > 100e6:
        note(f"fetching {sum(size for _, size in files) / 1e6:.0f} MB from {name}")
    for path, size in files:
        if not is_inside(path):
            refused.append(f"{name}: a file called {path[:80]!r} was not taken")
            continue
        on_top, entries = owners.get(path) == name, 1 + path.count("/")
        why = explain_refusal(path, wish.patterns, wish.named)
        if not why and on_top and path.partition("/")[0].casefold() in reserved:
            why = "that name is used for files of other hosts"
        if not why and not budget.take(size + ENTRY * entries, entries):
            limits = f"--fetch-limit {wish.limit >> 30} GB, {ENTRIES:,} files and folders"
            refused.append(f"{name}: {path[:200]} and the following files stay there ({limits})")
            break
        try:
            if not why:
                folder = outputs if on_top else outputs / name_host_folder(name)
                _read_output(agent, {**request, "path": path}, size, folder / path)
                count, total = count + 1, total + size
        except OSError as e:
            why = e.strerror or str(e)
        except IpexctlError as e:
            return HostFetch(count, total, tuple(refused), True, e.what)
        if why:
            refused.append(f"{name}: {path[:200]} was not taken ({why})")
    if listed.more:
        refused.append(f"{name}: more than {len(files)} files match; the rest stays there")
    return HostFetch(count, total, tuple(refused), bool(files))


def name_host_folder(host: str) -> str:
    return f"@{safe_host_name(host)}"


def name_other_folders(wish: Wish) -> frozenset[str]:
    """Return the names of other hosts' folders, as a case-insensitive disk compares them."""
    return frozenset(name_host_folder(name).casefold() for name in wish.roots if name != wish.first)


def is_inside(path: str) -> bool:
    """Return whether it is a relative path of plain names, which can be written below a folder."""
    parts = path.split("/")
    if len(path) > LONGEST_PATH or len(parts) > DEEPEST:
        return False
    return path.isprintable() and not any(part in ("", ".", "..") for part in parts)


def explain_refusal(path: str, patterns: Sequence[str], named: Sequence[str] | None = None) -> str:
    """Return why a listed path is refused: it was not requested, or programs obey such files here,
    most of which are hidden. `named`: what the user typed, if not `patterns`."""
    names = path.split("/")
    split = [pattern.split("/") for pattern in patterns]
    if not any(matches_path_pattern(names, parts) for parts in split):
        return "it was not asked for"
    typed = split if named is None else [pattern.split("/") for pattern in named]
    allowed = HIDDEN.union(*typed)
    if any(name.startswith(".") and name not in allowed for name in names):
        return "hidden files are fetched by their names"
    obeyed = [name for name in names if name.casefold() in OBEYED]
    obeyed += names[-1:] if names[-1].casefold() == "head" else []
    return f"programs on this machine obey {obeyed[0]}" if obeyed else ""


def _read_output(agent: Agent, request: Mapping[str, object], size: int, target: Path) -> None:
    """Write a file of a host to `target` in pieces; remove it if it does not arrive complete."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    file = os.fdopen(os.open(target, flags, 0o600), "wb")
    remaining = size

    def write(frame: Frame) -> None:
        nonlocal remaining
        remaining -= len(frame.body)
        if remaining < 0:
            raise HostFailed(
                f"{agent.host.name}: the host sent more of {target.name} than its size",
                slug="too-much-data",
            )
        file.write(frame.body)

    try:
        with file:
            for offset in range(0, size, PIECE):
                piece = {**request, "offset": offset, "length": min(PIECE, size - offset)}
                done = agent.call(
                    "run_files.result_files.read", piece, total=transfer_time(PIECE), on_event=write
                ).done
                if why := done.read(PieceSent).refused:
                    text = printable_text(why[:200])
                    raise OSError(f"on the host: {' '.join(text.split())}")
                if remaining != max(0, size - offset - PIECE):
                    raise OSError(f"only {size - remaining:,} of its {size:,} bytes came")
    except BaseException:
        target.unlink(missing_ok=True)  # the file is not complete
        raise
