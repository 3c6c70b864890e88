"""data pull: fetch from the Hub or an address to the controller once, and copy to every host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ipexctl.base.host_outcome import HostResult, PerHost
from ipexctl.base.remote_file import RemoteFile
from ipexctl.data.data import Pushed, push_bundle, read_folder
from ipexctl.data.hf_client import HfClient
from ipexctl.data.rules import dataset_rules, pulled_tree
from ipexctl.data.rules.pulled_tree import (
    HfSource,
    Repository,
    UrlSource,
    read_source,
)
from ipexctl.data.unpack_files import unpack_files
from ipexctl.data.url_client import UrlClient
from ipexctl.errors import InputError
from ipexctl.local.file_hashes import Hashes
from ipexctl.machines.fleet import Fleet
from ipexctl.machines.target import ROOT, Target
from ipexctl.packages.file_fetch import FileFetch
from ipexctl.project.files.project_files import ProjectFile
from ipexctl.project.folder_transfer import TreeContents
from ipexctl.quick_dataclass import dataclass
from ipexctl.terminal.progress import FETCHING, HostProgress, ProgressStep


@dataclass(frozen=True)
class PullPlan:
    """`lacking`: bytes to fetch to the controller, as far as sizes are known. `repository`: its
    name on the Hugging Face Hub, "" for an address."""

    name: str
    source: str
    repository: str
    files: int
    bytes: int
    lacking: int
    folder: str
    hosts: tuple[str, ...]


@dataclass(frozen=True)
class Pulled(PerHost):
    """`pushed` None: it was only shown, or the user answered no."""

    plan: PullPlan
    recaps: tuple[HostResult, ...] = ()
    fetched: int = 0
    pushed: Pushed | None = None
    declined: bool = False


@dataclass(frozen=True)
class Pull:
    """A request. `name` "": the source's. `agreed`: asked with the plan; None: only show it."""

    source: str
    name: str = ""
    include: Sequence[str] = ()
    leave_out: Sequence[str] = ()
    relay: bool = True
    unpack: bool = False
    agreed: Callable[[PullPlan], bool] | None = None


@dataclass(frozen=True)
class _LocalFiles:
    """Contents by hash: local files, and small generated ones that are in no file."""

    paths: Mapping[str, Path]
    made: Mapping[str, bytes]

    def path(self, sha256: str) -> Path:
        return self.paths[sha256]

    def content(self, file: ProjectFile) -> bytes:
        data = self.made.get(file.path)
        return self.paths[file.sha256].read_bytes() if data is None else data


def pull_dataset(target: Target, request: Pull, progress: HostProgress, root: str = ROOT) -> Pulled:
    """Pull. Raises InputError, NotHere or PullFailed before anything is sent to the hosts."""
    source = read_source(request.source)
    ending = pulled_tree.archive_suffix(source.name) if request.unpack else ""
    name = dataset_rules.checked_name(request.name or source.name.removesuffix(ending))
    fleet = Fleet(target, root)
    progress.step(ProgressStep("", f"looking at {request.source}"))
    title, files, fetch, repository = _list_source(source, request, progress)
    plan = PullPlan(
        name,
        title,
        repository=repository.name if repository and not request.unpack else "",
        files=len(files),
        bytes=sum(max(file.size, 0) for file in {file.local: file for file in files}.values()),
        lacking=fetch.lacking(files),
        folder=str(fetch.folder),
        hosts=tuple(host.name for host in fleet.hosts.hosts),
    )
    if request.agreed is None or not request.agreed(plan):
        return Pulled(plan, declined=request.agreed is not None)
    contents = fetch.all(files)
    if repository:
        _complete_hf_cache(fetch.folder.parent.parent, repository)
    if request.unpack:
        progress.step(ProgressStep("", f"unpacking {name}"))
        bundle = read_folder(unpack_files(fetch.folder, files, contents), progress)
    else:
        if repository:
            tree, generated = pulled_tree.hf_tree(repository, contents), repository.refs()
        else:
            tree, generated = pulled_tree.plain_tree(files, contents), {}
        paths = {content.sha256: fetch.folder / local for local, content in contents.items()}
        bundle = TreeContents(tree, _LocalFiles(paths, generated))
    hub = dataset_rules.hf_cache_kind(bundle.tree)
    header = {"name": name, "hub": hub, "source": title}
    pushed = push_bundle(fleet, bundle, header, progress, relay=request.relay)
    return Pulled(plan, pushed.recaps, fetch.fetched, pushed)


def _list_source(
    source: HfSource | UrlSource, request: Pull, progress: HostProgress
) -> tuple[str, tuple[RemoteFile, ...], FileFetch, Repository | None]:
    """Return the source's title, its files, and how to fetch them. Addresses have no repository."""
    client: HfClient | UrlClient
    if isinstance(source, HfSource):
        client = HfClient(progress)
        listed = client.look(source)
        repository = replace(listed, files=_choose_files(listed.files, request))
        files, name = repository.files, str(repository)
        folder = client.cache / repository.folder / "blobs"
    else:
        client, repository = UrlClient(source), None
        files, name = _choose_files(client.look(), request), source.url.partition("?")[0]
        folder = client.cache(files)

    def tell(done: int, total: int) -> None:
        progress.step(ProgressStep("", FETCHING, done, total))

    fetch = FileFetch(folder, client.bring, tell, hashes=Hashes(folder))
    return name + " (unpacked)" * request.unpack, files, fetch, repository


def _choose_files(files: Sequence[RemoteFile], request: Pull) -> tuple[RemoteFile, ...]:
    chosen = pulled_tree.choose_remote_files(files, request.include, request.leave_out)
    if not chosen:
        raise InputError(
            f"no file of {request.source} is left" if files else f"{request.source} has no files",
            why=f"--include and --leave-out leave none of {len(files)}" if files else "",
            slug="source-empty",
        )
    if request.unpack and not any(pulled_tree.archive_suffix(file.path) for file in chosen):
        raise InputError(
            f"{request.source} has no archive to unpack",
            why=f"{chosen[0].path} is not a .tar, .tgz, .tar.gz, .tar.bz2, .tar.xz or .zip",
            slug="source-not-archive",
        )
    return chosen


def _complete_hf_cache(cache: Path, repository: Repository) -> None:
    """Complete the local Hub cache, so that programs here find the files as well."""
    for path, target in repository.links():
        place = cache / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            place.unlink(missing_ok=True)
            place.symlink_to(target)
    ref = cache / repository.folder / "refs" / repository.revision
    if repository.revision != repository.commit:
        ref.parent.mkdir(parents=True, exist_ok=True)
        ref.write_bytes(repository.commit.encode())
