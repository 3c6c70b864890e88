"""What the user's project needs besides the stack, from requirements files and pyproject.toml.

Only what a package index or a folder of wheels has is accepted: the hosts build nothing, and a
local path or repository would mean nothing to the next user of the lock.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace

from packaging.markers import UndefinedComparison
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ipexctl.base import toml
from ipexctl.errors import InputError
from ipexctl.quick_dataclass import dataclass

Read = Callable[[str, str], tuple[str, str]]  # (file, the one that names it) -> (text, its path)

_HASH = re.compile(r"\s--hash[= ]sha256:([0-9a-f]{64})(?!\S)")
_OPTION = re.compile(r"(--?[a-z-]+)(?:[ =]+(.*))?\Z")
_PLACE = re.compile(r"[./~]|\w+:/|.*(\.whl|\.tar\.gz|\.zip)\Z|.*[/\\]")  # names begin differently
_OWN = re.compile(r"(?:(?:-e|--editable)(?: +|=))?\./?(?:\[([\w\s,.-]+)\])?")  # this project
_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")  # pip's syntax for variables
_FILES = {"-r": "-r", "--requirement": "-r", "-c": "-c", "--constraint": "-c"}
_INDEXES = {
    "-i": "index_url",
    "--index-url": "index_url",
    "--extra-index-url": "extra",
    "-f": "find_links",
    "--find-links": "find_links",
}
_ALREADY_SO = frozenset({"--prefer-binary", "--only-binary", "--require-hashes"})


@dataclass(frozen=True)
class Extra:
    """`requirements` and `constraints` are sorted. `hashes`: those a file allows, by package."""

    requirements: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    hashes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    index_url: str = ""
    extra: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()

    def names_package(self, name: str) -> bool:
        return any(canonicalize_name(Requirement(text).name) == name for text in self.requirements)


NOTHING = Extra()


@dataclass(frozen=True)
class _Line:
    place: str  # file:line
    kind: str  # -r, -c or a field of Extra
    text: str
    hashes: tuple[str, ...] = ()


def read_requirements(paths: Iterable[str], reader: Read, environ: Mapping[str, str]) -> Extra:
    """Read the files. Raises InputError with file:line."""
    visited: set[tuple[str, str]] = set()
    raw = (line for path in paths for line in _requirement_lines(path, "", "-r", reader, visited))
    lines = [
        _resolve_address(line, environ) if line.kind in _INDEXES.values() else line for line in raw
    ]

    def said(kind: str) -> list[str]:
        return list(dict.fromkeys(line.text for line in lines if line.kind == kind))

    hashes: dict[str, frozenset[str]] = {}
    for line in lines:
        if line.hashes:
            name = canonicalize_name(Requirement(line.text).name)
            hashes[name] = hashes.get(name, frozenset()) | set(line.hashes)
    return Extra(
        requirements=tuple(sorted(said("-r"))),
        constraints=tuple(sorted(said("-c"))),
        hashes=hashes,
        index_url=(said("index_url") or [""])[-1],
        extra=tuple(said("extra")),
        find_links=tuple(said("find_links")),
    )


def _requirement_lines(
    name: str, asker: str, kind: str, reader: Read, done: set[tuple[str, str]]
) -> Iterator[_Line]:
    """Yield the lines of a file. `done`: files that were read already; they are not read again."""
    text, path = reader(name, asker)
    if (path, kind) in done:
        return
    done.add((path, kind))
    if path.endswith(".toml"):
        yield from (_Line(path, kind, r) for r in _project_dependencies(text, path))
        return
    for place, line in _logical_lines(text, path):
        option = _OPTION.match(line)
        if match := _OWN.fullmatch(line):
            yield from _project_requirements(path, kind, match[1] or "", reader)
        elif not option:
            yield _parse_requirement(place, kind, line)
        elif option[1] in _FILES:
            word = _FILES[option[1]] if kind == "-r" else "-c"
            yield from _requirement_lines(option[2] or "", path, word, reader, done)
        elif option[1] in _INDEXES:
            yield _Line(place, _INDEXES[option[1]], option[2] or "")
        elif option[1] not in _ALREADY_SO:
            raise InputError(
                f"{place}: {option[1]} is not supported in requirements files",
                hint=_hint_instead(option[1]),
                slug="requirements-option",
            )


_WHEEL_FOLDER = "in the file, write NAME==VERSION; then add --find-links FOLDER"
_AS_WHEEL = (
    f"pip wheel LOCATION -w FOLDER; {_WHEEL_FOLDER}\n"
    "-r LOCATION/pyproject.toml   # instead of that line, for a project below this one"
)


def _hint_instead(option: str) -> str:
    return _AS_WHEEL if option in ("-e", "--editable") else "remove that line"


def _project_requirements(asker: str, kind: str, extras: str, reader: Read) -> Iterator[_Line]:
    """Handle `-e .`: `run` sends the code, and its dependencies are in the pyproject.toml beside
    the file, if it has them."""
    try:
        text, path = reader("pyproject.toml", asker)
        project = toml.loads(text).get("project")
    except (InputError, ValueError):
        return
    project = project if isinstance(project, dict) else {}
    optional = project.get("optional-dependencies")
    lists = [project.get("dependencies")]
    for extra in filter(None, map(str.strip, extras.split(","))):
        groups = optional if isinstance(optional, dict) else {}
        if extra not in groups:
            raise InputError(
                f"{asker}: {path} has no optional-dependencies named {extra}", slug="extra-unknown"
            )
        lists.append(groups[extra])
    for entries in lists:
        for entry in entries if isinstance(entries, list) else []:
            yield _parse_requirement(path, kind, str(entry))


def _resolve_address(line: _Line, environ: Mapping[str, str]) -> _Line:
    """Expand variables as pip does. A folder is relative to the file that names it.

    Only addresses may have variables: requirements go into the lock, which must not hold passwords.
    """
    text = _VARIABLE.sub(lambda match: environ.get(match[1]) or match[0], line.text)
    folder, slash, _ = line.place.rpartition("/")
    relative = "://" not in text and not text.startswith("/")
    prefix = folder + slash if line.kind == "find_links" and relative else ""
    return replace(line, text=prefix + text)


def _logical_lines(text: str, path: str) -> Iterator[tuple[str, str]]:
    """Yield lines without comments; one that ends with a backslash continues in the next."""
    pending, first = "", 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        first = first if pending else number
        pending += re.sub(r"(^|\s)#.*", "", line)
        if pending.endswith("\\"):
            pending = pending[:-1] + " "
            continue
        if pending.strip():
            yield f"{path}:{first}", pending.strip()
        pending = ""


def _parse_requirement(place: str, kind: str, line: str) -> _Line:
    hashes = tuple(_HASH.findall(line))
    text = _HASH.sub("", line).strip()
    why = ""
    try:
        requirement = Requirement(text)
        if requirement.marker:
            requirement.marker.evaluate({"extra": ""})
    except UndefinedComparison:
        why = "its marker (after ';') compares values that cannot be compared"
    except (ValueError, RecursionError) as e:
        if _PLACE.match(text):
            raise _no_name(place, text) from None
        why = str(e)
    if why:
        what = f"{text[:200]!r}{'...' * (len(text) > 200)}"
        hint = "einops>=0.8; python_version < '3.11'   # for example"
        raise InputError(
            f"{place}: {what} is not a requirement", why=why, hint=hint, slug="requirement-invalid"
        )
    if requirement.url:
        raise _no_name(place, text)
    return _Line(place, kind, str(requirement), hashes)


def _no_name(place: str, text: str) -> InputError:
    return InputError(
        f"{place}: {text!r} is a path or URL, not a package name and version",
        why="only wheels from package indexes and folders are locked and sent to hosts",
        hint=_AS_WHEEL if not text.endswith(".whl") else _WHEEL_FOLDER,
        slug="requirement-not-a-name",
    )


def _project_dependencies(text: str, path: str) -> list[str]:
    """Return the [project] dependencies of a pyproject.toml."""
    try:
        project = toml.loads(text).get("project", {})
    except ValueError as e:
        raise InputError(f"{path}: invalid TOML", why=str(e), slug="pyproject-invalid") from None
    found = project.get("dependencies") if isinstance(project, dict) else None
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise InputError(
            f"{path} has no list of dependencies under [project]",
            why="other tables, and dependencies computed at build time, are not read",
            hint="write them into a requirements.txt",
            slug="no-dependencies",
        )
    return [_parse_requirement(path, "-r", text).text for text in found]


def not_allowed(extra: Extra, locked: Mapping[str, str]) -> str:
    """Return a package whose sha256 is not among the file's hashes, "" if there is none."""
    for name, allowed in extra.hashes.items():
        if name in locked and locked[name] not in allowed:
            return name
    return ""
