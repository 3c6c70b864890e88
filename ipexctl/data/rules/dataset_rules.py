"""Datasets on hosts: their names, their variables, and whether the hosts of a run agree."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace

from ipexctl.base import quoting
from ipexctl.base.host_answer import read_absolute_path
from ipexctl.base.values import by, matching_text, plain
from ipexctl.errors import InputError, RunFailed
from ipexctl.inventory.hostfile_text import fold
from ipexctl.project.files.project_files import Tree
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.plan.launch import HostPlan, LaunchPlan

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VERSION = re.compile(r"([0-9a-f]{16})?")
_REPOSITORY = re.compile(r"(hub/)?(models|datasets|spaces)--[^/]+/snapshots(/|$)")


@dataclass(frozen=True)
class Held:
    """A dataset on one host. `hub`: its HF_HOME, "" if it is not a hub cache.

    `version` is "" if no version is complete; `files` and `bytes` then count what is on the disk.
    """

    name: str = field(metadata=by(matching_text(_NAME)))
    version: str = field(metadata=by(matching_text(_VERSION)))
    files: int
    bytes: int
    path: str = field(metadata=by(read_absolute_path))
    hub: str = ""
    old: int = 0  # older versions that runs used when this one was pushed
    parts: int = 0  # pushes that were interrupted or are active
    # user@machine:folder that it was pushed from; "" unknown
    source: str = field(default="", metadata=by(plain))

    def __post_init__(self) -> None:
        room = posixpath.dirname(self.path)
        joined = posixpath.dirname(posixpath.dirname(room)) + "/.hubs"
        folder, name = posixpath.split(self.hub)
        if self.hub not in ("", self.path, room) and (
            folder != joined or not name or not _VERSION.fullmatch(name)
        ):
            raise ValueError("the hub of a dataset")

    def __str__(self) -> str:
        return f"version {self.version}" + f", pushed from {self.source}" * bool(self.source)


Variables = tuple[tuple[str, str, str], ...]  # name, value, why


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
    found: dict[str, str] = {}
    for name in map(checked_name, names):
        other = found.setdefault(data_variable_name(name), name)
        if other != name:
            raise InputError(
                f"--data {other} --data {name}: both would be passed to the ranks as "
                f"{data_variable_name(name)}",
                hint="ipexctl data push DIR --as OTHER-NAME   # one of them",
                slug="dataset-variables-conflict",
            )
    return tuple(found.values())


def data_variable_name(name: str) -> str:
    return "IPEXCTL_DATA_" + re.sub(r"[^A-Z0-9]", "_", name.upper())


def data_name(folder: str) -> str:
    """Return a name for the data of this folder."""
    name = re.sub(r"[^A-Za-z0-9._-]", "-", posixpath.basename(folder.rstrip("/"))).lstrip("._-")
    return name[:64] or "data"


def push_hint(folder: str, name: str) -> str:
    """Return how to give the ranks a folder that is too large to send with each run."""
    push = quoting.quote_for_pasting(("ipexctl", "data", "push", folder, "--as", name))
    return (
        f"{push}, then ipexctl run --data {name} ... with ${data_variable_name(name)} as its path"
    )


def hf_cache_kind(tree: Tree) -> str:
    """Return "cache" for a Hub cache itself, "home" for a folder with one in `hub`, else ""."""
    paths = (*tree.folders, *(path for path, _ in tree.links))
    found = next((m for path in paths if (m := _REPOSITORY.match(path))), None)
    return "" if not found else "home" if found[1] else "cache"


def check_versions(names: Sequence[str], held: Mapping[str, Sequence[Held]]) -> None:
    """Raise RunFailed if a host lacks one of `names`, or has another version of it."""
    for name in names:
        versions = {
            h: next((d.version for d in ds if d.name == name), "") for h, ds in held.items()
        }
        if len(set(versions.values())) == 1 and all(versions.values()):
            continue
        groups: dict[str, list[str]] = {}
        for host, version in versions.items():
            groups.setdefault(version, []).append(host)
        said = (f"{fold(h)}: {v or 'does not have it'}" for v, h in groups.items())
        raise RunFailed(
            f"the hosts do not all have the same {name}",
            why="\n".join(said),
            hint=f"ipexctl data push DIR --as {name}   # to all hosts of this run",
            slug="dataset-versions-differ",
        )


def data_variables(held: Iterable[Held]) -> Variables:
    """Return the variables for ranks on this host."""
    found: list[tuple[str, str, str]] = []
    hf_homes: dict[str, list[str]] = {}
    for one in held:
        found.append(
            (data_variable_name(one.name), one.path, f"--data {one.name}, version {one.version}")
        )
        if one.hub:
            hf_homes.setdefault(one.hub, []).append(one.name)
    for home, names in hf_homes.items():
        found.append(("HF_HOME", home, f"{', '.join(names)}: hub cache"))
        found.append(("HF_HUB_OFFLINE", "1", "the hub is not contacted for files in the cache"))
    return tuple(found)


def with_data(
    plan: LaunchPlan, held: Mapping[str, Sequence[Held]], given: Iterable[str]
) -> LaunchPlan:
    """Return the plan with each host's own paths; variables given by --env are kept."""
    mine = frozenset(given)
    hosts = tuple(
        _add_variables(host, data_variables(held[host.host]), mine) for host in plan.hosts
    )
    return replace(plan, hosts=hosts)


def _add_variables(host: HostPlan, found: Variables, given: frozenset[str]) -> HostPlan:
    new = [v for v in found if v[0] not in given]
    return replace(
        host,
        rank_env=(*host.rank_env, *((name, value) for name, value, _ in new)),
        reasons=(*host.reasons, *((name, why) for name, _, why in new)),
    )
