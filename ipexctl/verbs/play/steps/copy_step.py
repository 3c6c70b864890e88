from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ipexctl.core.inventory.located_errors import Bad
from ipexctl.core.plays.step_schema import arg
from ipexctl.verbs.play.step_kinds import HostStep, LocalFiles

_MOST = 10_000


@dataclass(frozen=True)
class Copy(HostStep):
    """Copy a file or folder of this machine to the hosts.

    `src: dir/` copies what is in the folder, `src: dir` the folder itself. For large data: `data`.
    """

    keyword = "copy"
    module = "apply_copy"
    example = "copy: {src: train.conf, dest: ~/train.conf, mode: '0600'}"

    src: str = arg("File or folder here, from the current directory.")
    dest: str = arg("Absolute path on the hosts, or one under ~/.")
    mode: str = arg("Permissions of files, for example '0644'.", "")
    directory_mode: str = arg("Permissions of folders.", "")
    owner: str = arg("Name or number of the owner.", "")
    group: str = arg("Name or number of the group.", "")

    def request(self, files: LocalFiles) -> dict[str, Any]:
        path = Path(os.path.expanduser(self.src))  # noqa: PTH111  a Path would drop the last /
        if not path.exists():
            raise Bad(f"there is no file {self.src} in {Path.cwd()}")
        if path.is_file():
            found, folders = [_file(files, path, "")], []
        else:
            prefix = "" if self.src.endswith("/") else f"{path.resolve().name}/"
            inside = sorted(_inside(path))
            if len(inside) > _MOST:
                raise Bad(f"{self.src} has more than {_MOST:,} files", hint="data: {push: FOLDER}")
            found = [
                _file(files, p, prefix + str(p.relative_to(path))) for p in inside if p.is_file()
            ]
            names = [str(p.relative_to(path)) for p in inside if p.is_dir()]
            folders = [prefix.rstrip("/"), *(prefix + name for name in names)]
        return {**super().request(files), "files": found, "folders": folders, "base": path.name}


def _inside(folder: Path) -> Iterator[Path]:
    """Files and folders; links are what they lead to, unless they lead out of the folder."""
    top = folder.resolve()
    for path in folder.rglob("*"):
        if path.is_symlink() and top not in path.resolve().parents:
            raise Bad(f"{path} is a symbolic link that leads out of {folder}")
        if path.is_file() or path.is_dir():
            yield path


def _file(files: LocalFiles, path: Path, name: str) -> dict[str, Any]:
    found = path.stat()
    executable = bool(found.st_mode & 0o100)
    return {
        "name": name,
        "sha256": files.add(path),
        "size": found.st_size,
        "executable": executable,
    }
