"""The source of `data pull`: a repository of the Hugging Face Hub, or an address; and the folder
that hosts get from it."""

from __future__ import annotations

import fnmatch
import hashlib
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence

from ipexctl.base.remote_file import Content, RemoteFile
from ipexctl.errors import InputError, is_shown
from ipexctl.project.files.dataset_names import data_name
from ipexctl.project.files.project_files import ProjectFile, Tree, parent_folders
from ipexctl.quick_dataclass import dataclass

MOST_FILES = 100_000
MODELS, DATASETS = "models", "datasets"
MAIN = "main"
_HUB = re.compile(
    r"hf:(?://)?(?:(models|datasets)/)?([A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?)(?:@([\w./-]+))?",
    re.ASCII,
)
_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^/?\s]+(/[^?\s]*)?(\?\S*)?")
_SHA256 = re.compile(r"sha256=([0-9a-f]{64})")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_CONTENT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_ARCHIVE = re.compile(
    r".*[^/](\.(?:tar|tgz|tar\.gz|tar\.bz2|tar\.xz|zip))", re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True)
class HfSource:
    """`kind`: "models", "datasets", or "" to ask the Hub."""

    kind: str
    repository: str
    revision: str = MAIN

    @property
    def name(self) -> str:
        return data_name(self.repository)


@dataclass(frozen=True)
class UrlSource:
    """`sha256`: the value that the user expects, or ""."""

    url: str
    sha256: str = ""

    @property
    def file(self) -> str:
        match = _URL.fullmatch(self.url)
        return posixpath.basename(((match and match[1]) or "").rstrip("/")) or "data"

    @property
    def name(self) -> str:
        return data_name(self.file)


def _pull_hint(text: str) -> str:
    """Return the command with hf:, if that is what is missing."""
    if _HUB.fullmatch(f"hf:{text}"):
        return f"ipexctl data pull hf:{text}"
    return "# ipexctl data pull hf:ORG/NAME"


def read_source(text: str) -> HfSource | UrlSource:
    """Parse a source. Raises InputError."""
    match = _HUB.fullmatch(text)
    if match and not {"", ".", ".."} & {*(match[3] or MAIN).split("/")}:
        return HfSource(match[1] or "", match[2], match[3] or MAIN)
    url, _, fragment = text.partition("#")
    digest = _SHA256.fullmatch(fragment)
    if _URL.fullmatch(url) and (digest or not fragment):
        return UrlSource(url, digest[1] if digest else "")
    raise InputError(
        f"{text!r} is not a source of data",
        why="a source is hf:ORG/NAME[@REVISION], hf:datasets/ORG/NAME, hf:models/ORG/NAME, or an "
        "address such as https://example.org/data.tar#sha256=HASH",
        hint=_pull_hint(text),
        slug="source-invalid",
    )


Contents = Mapping[str, Content]  # of fetched files, by their `local` names


@dataclass(frozen=True)
class Repository:
    """A repository of the Hub at one commit."""

    kind: str
    name: str
    revision: str
    commit: str
    files: tuple[RemoteFile, ...]

    def __str__(self) -> str:
        return f"hf:{self.kind}/{self.name}@{self.commit[:12]}"

    @property
    def folder(self) -> str:
        """Its folder in a Hub cache."""
        return f"{self.kind}--{self.name.replace('/', '--')}"

    def links(self) -> tuple[tuple[str, str], ...]:
        """Return (path, target) of each file's link in a Hub cache."""
        snapshot = f"{self.folder}/snapshots/{self.commit}"
        return tuple(
            (f"{snapshot}/{file.path}", "../" * (2 + file.path.count("/")) + f"blobs/{file.local}")
            for file in self.files
        )

    def refs(self) -> dict[str, bytes]:
        """Return path -> content of refs. `main` is the pulled commit: scripts name no other."""
        names = {MAIN, self.revision} - {self.commit}
        return {f"{self.folder}/refs/{name}": self.commit.encode() for name in sorted(names)}


def checked_repository(repo: Repository) -> Repository:
    """Raise InputError if the Hub's answer is too large or would leave the repository's folder."""
    if len(repo.files) > MOST_FILES:
        raise InputError(
            f"{repo.name} has {len(repo.files):,} files: more than {MOST_FILES:,} are not taken",
            slug="too-many-files",
        )
    odd = [f.path for f in repo.files if not is_plain(f.path) or not _CONTENT.fullmatch(f.content)]
    if odd or not _COMMIT.fullmatch(repo.commit):
        raise InputError(
            f"the hub sent an invalid description of {repo.name}",
            why=f"commit {repo.commit[:50]!r}, file {(odd or [''])[0][:200]!r}",
            slug="hub-answer-invalid",
        )
    return repo


def is_plain(path: str) -> bool:
    """Decide if it stays in its folder, is printable, and has no meaning for Git."""
    parts = path.split("/")
    plain = all(map(is_shown, path)) and path == posixpath.normpath(path)
    return plain and not {"", ".", "..", ".git"} & {part.lower() for part in parts}


def archive_suffix(name: str) -> str:
    """Return how the name of an archive ends; "" for any other file."""
    match = _ARCHIVE.fullmatch(name)
    return match[1] if match else ""


def choose_remote_files(
    files: Iterable[RemoteFile], include: Sequence[str], leave_out: Sequence[str]
) -> tuple[RemoteFile, ...]:
    """Select files by patterns as in `hf download`: `*` matches slashes, `data/` that folder."""

    def matches(path: str, patterns: Sequence[str]) -> bool:
        return any(fnmatch.fnmatchcase(path, p + "*" * p.endswith("/")) for p in patterns)

    included = (file for file in files if not include or matches(file.path, include))
    return tuple(file for file in included if not matches(file.path, leave_out))


def hf_tree(repository: Repository, contents: Contents) -> Tree:
    """Return a Hub cache with this repository."""
    names = sorted({file.local for file in repository.files})
    blobs = f"{repository.folder}/blobs"
    files = [ProjectFile(f"{blobs}/{n}", contents[n].size, contents[n].sha256) for n in names]
    files += [
        ProjectFile(path, len(data), hashlib.sha256(data).hexdigest())
        for path, data in repository.refs().items()
    ]
    return _build_tree(files, repository.links())


def plain_tree(files: Sequence[RemoteFile], contents: Contents) -> Tree:
    pairs = [(file.path, contents[file.local]) for file in files]
    return _build_tree([ProjectFile(path, c.size, c.sha256) for path, c in pairs], ())


def _build_tree(files: Sequence[ProjectFile], links: tuple[tuple[str, str], ...]) -> Tree:
    paths = (*(file.path for file in files), *(path for path, _ in links))
    folders = {folder for path in paths for folder in parent_folders(path)}
    return Tree(tuple(sorted(folders)), tuple(files), links)
