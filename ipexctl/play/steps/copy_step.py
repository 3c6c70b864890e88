from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from ipexctl.base.located_errors import Bad
from ipexctl.base.yaml_nodes import place_in
from ipexctl.errors import reason_of
from ipexctl.local.bounded_read import read_file
from ipexctl.play.steps.step_kinds import HostStep, LocalFiles
from ipexctl.play.text.argument_checks import check_mode, check_path
from ipexctl.play.text.interpolation import Scope, expanded
from ipexctl.play.text.step_schema import arg
from ipexctl.quick_dataclass import dataclass

_MOST = 10_000
_LARGEST = 1 << 20  # of a template


@dataclass(frozen=True)
class Copy(HostStep):
    """Copy a file or folder from this machine to the hosts.

    `src: dir/` copies what is in the folder, `src: dir` the folder itself. For large data: `data`.
    With template, ${NAME} in a file is replaced as in the play, and $${ is a literal ${.
    """

    keyword = "copy"
    module = "apply_copy"
    example = "copy: {src: train.conf, dest: ~/train.conf, mode: '0600'}"

    src: str = arg("File or folder on this machine, relative to the current directory.")
    dest: str = arg("Absolute path on the hosts, or one under ~/.")
    mode: str = arg("Permissions of files, for example '0644'.", "")
    directory_mode: str = arg("Permissions of folders.", "")
    owner: str = arg("Name or numeric ID of the owner.", "")
    group: str = arg("Name or number of the group.", "")
    template: bool = arg("Replace ${NAME} in the file, which must be UTF-8 text.", False)

    def check(self) -> None:
        if not self.src:
            raise Bad("src is empty", slug="argument-missing")
        check_path("dest", self.dest)
        check_mode("mode", self.mode)
        check_mode("directory_mode", self.directory_mode)

    @property
    def local_files(self) -> Mapping[str, str]:
        return {"src": self.src}

    def validate_files(self, scope: Scope) -> None:
        if self.template:
            self._filled(scope)

    def _filled(self, scope: Scope) -> str | None:
        """The template with its values; None: some are not known yet."""
        try:
            text = read_file(Path(self.src).expanduser(), _LARGEST).decode()
        except (OSError, ValueError) as e:
            raise Bad(
                f"src: {self.src} is not a template", why=reason_of(e), slug="template-unreadable"
            ) from None
        try:
            return expanded(text, scope)
        except Bad as e:
            place = place_in(text, e.at, self.src)
            raise e.prefixed("").masked(scope.masked).placed(place) from None

    def request(self, files: LocalFiles, scope: Scope) -> dict[str, Any]:
        path = Path(os.path.expanduser(self.src))  # noqa: PTH111  a Path would drop the last /
        try:
            asked = {**super().request(files, scope), **self._files(path, files)}
        except OSError as e:
            raise Bad(
                f"cannot read {e.filename or self.src}: {e.strerror}", slug="local-file-unreadable"
            ) from None
        if self.template:
            text = self._filled(scope) or ""
            data = text.encode()
            sha256 = hashlib.sha256(data).hexdigest()
            asked["files"][0].update(text=text, sha256=sha256, size=len(data))
        return asked

    def _files(self, path: Path, files: LocalFiles) -> dict[str, Any]:
        if not path.exists():
            raise Bad(
                f"src: there is no file {self.src} in {Path.cwd()}", slug="local-file-missing"
            )
        if path.is_file():
            found, folders = [_file(files, path, "")], []
        elif not path.is_dir():
            raise Bad(f"src: {self.src} is not a file or folder", slug="local-file-unreadable")
        else:
            prefix = "" if self.src.endswith("/") else f"{path.resolve().name}/"
            inside = sorted(islice(_inside(path, (path.resolve(),)), _MOST + 1))
            if len(inside) > _MOST:
                raise Bad(
                    f"{self.src} has more than {_MOST:,} files",
                    hint="data: {push: FOLDER}",
                    slug="too-many-files",
                )
            found = [
                _file(files, p, prefix + str(p.relative_to(path))) for p in inside if p.is_file()
            ]
            names = [str(p.relative_to(path)) for p in inside if p.is_dir()]
            folders = [prefix.rstrip("/"), *(prefix + name for name in names)]
        return {"files": found, "folders": folders, "base": path.name}


def _inside(folder: Path, above: tuple[Path, ...]) -> Iterator[Path]:
    """Files and folders; links are what they lead to, unless they lead out of the copied folder,
    which is the first of `above`."""
    for path in folder.iterdir():
        real = Path(os.path.realpath(path))
        if path.is_symlink() and above[0] not in real.parents:
            raise Bad(
                f"{path} is a symbolic link that leads out of {above[0]}", slug="link-leads-out"
            )
        if real in above:
            raise Bad(f"{path} is a symbolic link to a folder that it is in", slug="link-circular")
        if path.is_symlink() and not real.exists():
            raise Bad(f"{path} is a symbolic link to nothing", slug="link-broken")
        if path.is_file() or path.is_dir():
            yield path
        if path.is_dir():
            yield from _inside(path, (*above, real))


def _file(files: LocalFiles, path: Path, name: str) -> dict[str, Any]:
    found = path.stat()
    executable = bool(found.st_mode & 0o100)
    return {
        "name": name,
        "sha256": files.add(path),
        "size": found.st_size,
        "executable": executable,
    }
