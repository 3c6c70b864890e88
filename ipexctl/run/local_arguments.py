"""Note arguments of the script that are files of this machine and that the hosts do not have."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ipexctl.base import quoting
from ipexctl.base.located_errors import is_one_slip
from ipexctl.base.retry_command import compose_retry_command
from ipexctl.base.typed_command import Typed
from ipexctl.common.folder_answers import PathsAbsent
from ipexctl.inventory.inventory import Host
from ipexctl.inventory.nodeset import fold
from ipexctl.machines.fleet import Fleet
from ipexctl.project.files.missing_file import LeftOut, missing_paths
from ipexctl.project.send_project import Project
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.plan.launch import PlannedHost
from ipexctl.run.run_script import Script

_MOST_ASKED = 20
# names of options whose files a script writes: that there is one here already means nothing
_WRITTEN = re.compile(r"(?i)out|save|log|dest|result|write|export|ckpt|checkpoint|cache|tmp|temp")


@dataclass(frozen=True)
class LocalArgument:
    """A file or folder of this machine. `index`: which argument; `on_host`: the path as ranks see
    it, if that does not depend on where they start."""

    index: int
    option: str
    typed: str
    path: str
    on_host: str


def find_local_arguments(args: Sequence[str], project: Project) -> Iterator[LocalArgument]:
    """Yield the arguments that name something outside what is sent, which a script may read."""
    around = (project.folder, *project.folder.parents)
    for index, name, value in _values_read(args):
        if not value.startswith(("/", "../")):
            continue
        path = os.path.normpath(project.start / value)
        if os.path.exists(path) and Path(path) not in around and not _is_sent(path, project):
            yield LocalArgument(index, name, value, path, path if value[0] == "/" else "")


def _values_read(args: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """Yield the index, the option and the value of each argument that a script may read from."""
    option = ""
    for index, word in enumerate(args):
        name, sign, value = word.partition("=") if word.startswith("-") else (option, "", word)
        option = word if word.startswith("-") and not sign else ""
        if not _WRITTEN.search(name) and (sign or not word.startswith("-")):
            yield index, name, value


def note_misspelt_files(script: Script) -> Iterator[str]:
    """Yield a note for each argument that is no file here, but nearly the name of one."""
    for index, option, value in _values_read(_words_of(script)):
        path = Path(os.path.normpath(script.project.start / value))
        if not path.suffix or os.path.lexists(path) or not (near := _nearly_named(path)):
            continue
        item = LocalArgument(index, option, value, str(path), "")
        use = posixpath.join(posixpath.dirname(value), near)
        command = _compose_command(item, script.typed, use, ())
        yield f"there is no {value} here, but {use}" + (f"; try: {command}" if command else "")


def _nearly_named(path: Path) -> str:
    """Return the file beside it whose name differs by a slip of one letter; "" for several."""
    digits = re.sub(r"\D", "", path.name)
    try:
        names = [entry.name for entry in path.parent.iterdir() if entry.is_file()]
    except OSError:
        return ""
    near = [n for n in names if is_one_slip(path.name, n) and re.sub(r"\D", "", n) == digits]
    return near[0] if len(near) == 1 else ""


def _is_sent(path: str, project: Project) -> bool:
    return any(project.folder in Path(p).parents for p in (path, os.path.realpath(path)))


def find_hosts_without(
    fleet: Fleet, hosts: Sequence[Host], found: Sequence[LocalArgument]
) -> Mapping[LocalArgument, Sequence[str]]:
    """Return for each of these the hosts that do not have it."""
    asked = list(dict.fromkeys(item.on_host for item in found if item.on_host))[:_MOST_ASKED]

    def lacking(host: Host) -> frozenset[str]:
        answer = fleet.call(host, "project.synced_folders.find_absent", paths=asked)
        absent = answer.read(PathsAbsent).absent
        return frozenset(asked[i] for i in absent if i < len(asked))

    absent = fleet.map_hosts(lacking, hosts) if asked else {}
    return {
        item: [h.name for h in hosts if not item.on_host or item.on_host in absent.get(h, ())]
        for item in found
    }


def note_local_arguments(
    fleet: Fleet, nodes: Mapping[Host, PlannedHost], script: Script
) -> Iterator[str]:
    """Yield a note for each file of this machine that the script gets and some host lacks."""
    if not (found := list(find_local_arguments(_words_of(script), script.project))):
        return
    data = data_folder(nodes.values())
    for item, lacking in find_hosts_without(fleet, list(nodes), found).items():
        if lacking:
            yield describe_local_argument(item, lacking, script, data)


def find_missing_argument(words: Sequence[str], script: Script, data: str) -> LeftOut | None:
    """Return the file of this machine that a rank was given and did not find, according to its
    last `words`, if a command brings it to the hosts. `data`: as below."""
    reported = missing_paths(words)
    if not reported:
        return None
    for item in find_local_arguments(_words_of(script), script.project):
        below = f"{item.typed.rstrip('/')}/"
        if any(path == item.typed or path.startswith(below) for path in reported):
            bring, again = compose_bringing_commands(item, script, data)
            why = f"it is outside {script.project.folder}"
            fix = " && ".join(filter(None, (bring, again)))
            return LeftOut(item.path, why, fix, starts_again=bool(again)) if fix else None
    return None


def data_folder(nodes: Iterable[PlannedHost]) -> str:
    """Return where all hosts have their datasets; "" if that is not one path."""
    roots = {node.facts.disk.root for node in nodes}
    return f"{roots.pop()}/data" if len(roots) == 1 else ""


def describe_local_argument(
    item: LocalArgument, lacking: Sequence[str], script: Script, data: str
) -> str:
    """Return the note, with the commands that bring the file to the hosts."""
    subject = f"{item.option} {item.typed}".lstrip()
    name = script.argv[_first_argument(script) - 1]
    note = f"{name}: {subject} is on this machine, but not on {fold(lacking)}"
    commands = " && ".join(filter(None, compose_bringing_commands(item, script, data)))
    return f"{note}; if it is to be read there, try: {commands}" if commands else note


def compose_bringing_commands(item: LocalArgument, script: Script, data: str) -> tuple[str, str]:
    """Return the command that brings the file to the hosts, and the one that then starts the script
    with its path there; "" for what is not certain. `data`: where all hosts have their datasets, if
    that is one path."""
    name, start = posixpath.basename(item.path), script.project.start
    bring, use = quoting.quote(("cp", item.path, os.path.relpath(start))), name
    options: tuple[str, ...] = ()
    if os.path.isdir(item.path):
        name = re.sub(r"[^A-Za-z0-9_-]", "-", name).strip("-") or "data"
        bring = quoting.quote(("ipexctl", "data", "push", item.path, "--as", name))
        use, options = f"{data}/{name}/current/files", ("--data", name)
    elif os.path.lexists(start / name):
        return "", ""  # another file has its name
    return bring, _compose_command(item, script.typed, use, options) if data else ""


def _compose_command(item: LocalArgument, typed: Typed, use: str, options: Sequence[str]) -> str:
    """Return the command with another path for the argument; "" if that is not certain."""
    words, place = list(typed.script), item.index + 1
    if not typed.options or place >= len(words) or not words[place].endswith(item.typed):
        return ""
    words[place] = words[place].removesuffix(item.typed) + use
    command, *rest = typed.options
    return compose_retry_command(Typed((command, *options, *rest), tuple(words)), (), None)


def _words_of(script: Script) -> Sequence[str]:
    return script.argv[_first_argument(script) :]


def _first_argument(script: Script) -> int:
    return 2 if script.argv[0] == "-m" else 1
