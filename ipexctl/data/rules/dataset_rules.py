"""Datasets on hosts: their names, and whether the hosts of a run agree."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence

from ipexctl.base.host_answer import Answer
from ipexctl.base.located_errors import ask_if_meant, nearest_word
from ipexctl.base.quoting import quote
from ipexctl.common.folder_answers import DatasetRow
from ipexctl.errors import InputError, RunFailed
from ipexctl.inventory.hostfile_text import fold
from ipexctl.project.files.dataset_names import data_variable_name
from ipexctl.project.files.project_files import Tree
from ipexctl.quick_dataclass import dataclass

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VERSION = re.compile(r"([0-9a-f]{16})?")
_REPOSITORY = re.compile(r"(hub/)?(models|datasets|spaces)--[^/]+/snapshots(/|$)")


@dataclass(frozen=True)
class Held:
    """A dataset on one host. `hub`: its HF_HOME, "" if it is not a hub cache.

    `version` is "" if no version is complete; `files` and `bytes` then count what is on the disk.
    """

    name: str
    version: str
    files: int
    bytes: int
    path: str
    hub: str = ""
    old: int = 0  # older versions that runs used when this one was pushed
    parts: int = 0  # pushes that were interrupted or are active
    source: str = ""  # user@machine:folder that it was pushed from; "" unknown

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError("the name of a dataset")
        if not _VERSION.fullmatch(self.version):
            raise ValueError("the version of a dataset")
        parent = posixpath.dirname(self.path)
        hubs = posixpath.dirname(posixpath.dirname(parent)) + "/.hubs"
        folder, name = posixpath.split(self.hub)
        if self.hub not in ("", self.path, parent) and (
            folder != hubs or not name or not _VERSION.fullmatch(name)
        ):
            raise ValueError("the hub of a dataset")

    def __str__(self) -> str:
        return f"version {self.version}" + f", pushed from {self.source}" * bool(self.source)


def read_held(host: str, row: DatasetRow) -> Held:
    """Return what the host says of a dataset. Raises HostFailed."""
    try:
        return Held(
            row.name,
            row.version,
            row.files,
            row.bytes,
            row.path,
            row.hub,
            row.old,
            row.parts,
            row.source,
        )
    except ValueError as e:
        raise Answer(host, {}).invalid_reply(str(e)) from None


def checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} is not a valid dataset name",
            why="a name has at most 64 characters: letters, digits, dots, dashes and underscores",
            hint="--as NAME",
            slug="dataset-name-invalid",
        )
    return name


def checked_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names without duplicates. Raises InputError if two have the same variable."""
    by_variable: dict[str, str] = {}
    for name in map(checked_name, names):
        other = by_variable.setdefault(data_variable_name(name), name)
        if other != name:
            raise InputError(
                f"--data {other} --data {name}: both would be passed to the ranks as "
                f"{data_variable_name(name)}",
                hint="# ipexctl data push DIR --as OTHER-NAME, for one of them",
                slug="dataset-variables-conflict",
            )
    return tuple(by_variable.values())


def hf_cache_kind(tree: Tree) -> str:
    """Return "cache" for a Hub cache itself, "home" for a folder with one in `hub`, else ""."""
    paths = (*tree.folders, *(path for path, _ in tree.links))
    match = next((m for path in paths if (m := _REPOSITORY.match(path))), None)
    return "" if not match else "home" if match[1] else "cache"


def check_versions(
    names: Sequence[str], held: Mapping[str, Sequence[Held]], folders: Sequence[str] = ()
) -> None:
    """Raise RunFailed if a host lacks one of `names`, or has another version of it. `folders`: the
    names that are folders here."""
    for name in names:
        versions = {
            h: next((d.version for d in datasets if d.name == name), "")
            for h, datasets in held.items()
        }
        if len(set(versions.values())) == 1 and all(versions.values()):
            continue
        groups: dict[str, list[str]] = {}
        for host, version in versions.items():
            groups.setdefault(version, []).append(host)
        lines = (f"{fold(hosts)}: {v or 'does not have it'}" for v, hosts in groups.items())
        near = nearest_word(name, {d.name for datasets in held.values() for d in datasets} - {name})
        raise RunFailed(
            f"the hosts do not all have the same {name}{ask_if_meant(near)}",
            why="\n".join(lines),
            hint=f"ipexctl data push {quote((name,))}\n" * (name in folders)
            + f"# ipexctl data push DIR --as {name} copies the folder to all hosts of this run",
            slug="dataset-versions-differ",
        ).with_meant(name, near)
