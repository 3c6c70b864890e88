"""Let git read a repository without the repository's own settings.

They can name programs in ever more ways (filters, hooks, a command for ssh when an object is
missing), and a project that was unpacked brings them along. So git gets a folder of ours: it has
the commits and the index of the repository, and a `config` with the few values that say how to
read them. The user's own settings count, such as the filter of git-lfs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from ipexctl.local import bounded_read
from ipexctl.local.environment import environment

# of the user's settings, too, no program that may be a file of the project; nothing is written
OPTIONS = (
    "--no-optional-locks",
    "--literal-pathspecs",
    "-c",
    "core.fsmonitor=false",
    "-c",
    f"core.hooksPath={os.devnull}",
)
_SHARED = ("objects", "refs", "packed-refs", "info", "reftable")  # by all work trees
_VALUES = (
    "core.autocrlf",
    "core.eol",
    "core.filemode",
    "core.ignorecase",
    "core.symlinks",
    "extensions.objectformat",
    "extensions.refstorage",
)
LONGEST_CONFIG = 10.0  # seconds to read the values
_USERS = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")


def find_git() -> str | None:
    """Return the path of git, unless PATH has it in a relative folder, which may be a project's."""
    git = shutil.which("git")
    return git if git and Path(git).is_absolute() else None


def lay_out(git: str, root: Path, made: Path) -> Mapping[str, str]:
    """Make such a folder for the work tree `root`, in a new folder. Return git's environment.

    Raises OSError or TimeoutExpired if the repository cannot be read.
    """
    own = _follow(root / ".git", "gitdir: ")
    common = _follow(own / "commondir", "") if (own / "commondir").exists() else own
    (made / "HEAD").write_bytes(bounded_read.read_file(own / "HEAD"))  # git takes no link for it
    for name in _SHARED:
        if (common / name).exists():
            (made / name).symlink_to((common / name).resolve())
    for path in (own / "index", *own.glob("sharedindex.*")):
        if path.is_file():
            (made / path.name).symlink_to(path.resolve())
    environ = {name: value for name, value in environment().items() if name[:4] != "GIT_"}
    environ |= {name: environment()[name] for name in _USERS if name in environment()}
    environ |= {"LC_ALL": "C", "GIT_DIR": str(made), "GIT_WORK_TREE": str(root)}
    environ |= {"PYTHONSAFEPATH": "1"}  # a filter `python3 -m NAME` starts in the work tree
    values = dict(_read_values(git, common / "config", environ))
    (made / "config").write_text(_config_text(values))
    return environ


def _follow(path: Path, prefix: str) -> Path:
    """Return the folder whose path is in a file; a folder is itself."""
    if path.is_dir():
        return path
    text = bounded_read.read_file(path).decode("utf-8", "surrogateescape")
    return path.parent / text.removeprefix(prefix).rstrip("\n")


def _read_values(git: str, config: Path, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the values that say how files are compared, and in which form git keeps them."""
    names = "|".join(_VALUES).replace(".", r"\.")
    done = subprocess.run(
        (git, "config", "--file", "-", "--no-includes", "--null", "--get-regexp", f"^({names})$"),
        env=environ,
        input=bounded_read.read_file(config),
        check=False,
        timeout=LONGEST_CONFIG,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    for entry in done.stdout.decode("utf-8", "replace").split("\0")[:-1]:
        name, _, value = entry.partition("\n")
        if re.fullmatch("[A-Za-z0-9]+", value):
            yield name, value


def _config_text(values: Mapping[str, str]) -> str:
    version = int(any(name.startswith("extensions.") for name in values))
    lines = [f"[core]\nrepositoryformatversion = {version}\nbare = false\n"]
    for name, value in values.items():
        section, key = name.split(".")
        lines.append(f"[{section}]\n{key} = {value}\n")
    return "".join(lines)
