"""Steps that put files on hosts or change them."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from ipexctl.base.located_errors import Bad
from ipexctl.base.yaml_nodes import place_in
from ipexctl.errors import reason_of
from ipexctl.local.bounded_read import read_file
from ipexctl.play.steps.step_kinds import HostStep, LocalFiles
from ipexctl.play.text.interpolation import Scope, interpolate_text
from ipexctl.play.text.step_schema import Seconds, arg
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class File(HostStep):
    """Make a file, directory or symbolic link, set its attributes, or remove it.

    A symbolic link along the path is followed only in folders that root or the user of the step
    owns.
    """

    keyword = "file"
    main = "path"
    example = "file: {path: /scratch/out, state: directory, mode: '0755'}"

    path: str = arg("Absolute path, or one under ~/.")
    state: Literal["file", "directory", "link", "touch", "absent"] = arg(
        "file: must exist, or is written with content; directory: created with its parents; "
        "link: symbolic link to src; touch: created empty if missing; absent: removed.",
        "file",
    )
    content: str | None = arg("The complete content of the file.", None)
    src: str = arg("Target of the link.", "")
    mode: str = arg("Permissions, for example '0644' or u+x.", "")
    owner: str = arg("Name or numeric ID of the owner.", "")
    group: str = arg("Name or number of the group.", "")

    def check(self) -> None:
        check_path("path", self.path)
        check_mode("mode", self.mode)
        if self.state == "link" and not self.src:
            raise Bad(
                "state: link requires src", hint="src: TARGET of the link", slug="argument-missing"
            )
        if self.src and self.state != "link":
            raise Bad("src needs state: link", slug="arguments-conflict")
        if self.content is not None and self.state != "file":
            raise Bad(
                f"content cannot be combined with state: {self.state}", slug="arguments-conflict"
            )


@dataclass(frozen=True)
class Line(HostStep):
    """Add a line to a file, or remove it."""

    keyword = "line"
    example = "line: {path: /etc/hosts, line: '10.0.0.2 node02', regexp: ' node02$'}"

    path: str = arg("Absolute path, or one under ~/.")
    line: str | None = arg("The line.", None)
    regexp: str = arg(
        "The last matching line is replaced with `line`; with state: absent, all "
        "matching lines are removed.",
        "",
    )
    state: Literal["present", "absent"] = arg(
        "present: the line must exist; absent: it must not.", "present"
    )
    insertafter: str = arg(
        "Insert after the last line that matches this regular expression, or at EOF.", ""
    )
    insertbefore: str = arg(
        "Insert before the last line that matches this regular expression, or at BOF.", ""
    )
    create: bool = arg("Create the file if it is missing.", False)
    mode: str = arg("Permissions, for example '0644' or u+x.", "")
    owner: str = arg("Name or numeric ID of the owner.", "")
    group: str = arg("Name or number of the group.", "")

    def check(self) -> None:
        check_path("path", self.path)
        check_mode("mode", self.mode)
        for name in ("regexp", "insertafter", "insertbefore"):
            check_pattern(name, getattr(self, name))
        if self.state == "present" and self.line is None:
            raise Bad("state: present requires 'line'", slug="argument-missing")
        if self.line is None and not self.regexp:
            raise Bad("state: absent requires 'line' or 'regexp'", slug="argument-missing")
        if self.line is not None and set(self.line) & {"\n", "\r"}:
            raise Bad(
                "the line contains a line break",
                hint="several line steps, or file: {content: ...}",
                slug="line-break-in-value",
            )
        if self.insertafter and self.insertbefore:
            raise Bad("insertafter and insertbefore cannot be combined", slug="arguments-conflict")


_MOST_FILES = 10_000
_LARGEST_TEMPLATE = 1 << 20  # of a template


@dataclass(frozen=True)
class Copy(HostStep):
    """Copy a file or folder from this machine to the hosts.

    `src: dir/` copies what is in the folder, `src: dir` the folder itself. For large data: `data`.
    With template, ${NAME} in a file is replaced as in the play, and $${ is a literal ${.
    """

    keyword = "copy"
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
            self._fill_template(scope)

    def _fill_template(self, scope: Scope) -> str | None:
        """Return the template with its values; None if some are not known yet."""
        try:
            text = read_file(Path(self.src).expanduser(), _LARGEST_TEMPLATE).decode()
        except (OSError, ValueError) as e:
            raise Bad(
                f"src: {self.src} is not a template", why=reason_of(e), slug="template-unreadable"
            ) from None
        try:
            return interpolate_text(text, scope)
        except Bad as e:
            place = place_in(text, e.at, self.src)
            raise e.prefixed("").masked(scope.mask_text).placed(place) from None

    def request(self, files: LocalFiles, scope: Scope) -> dict[str, Any]:
        """Add the files and folders to send; a template is sent with its values."""
        path = Path(os.path.expanduser(self.src))  # noqa: PTH111  a Path would drop the last /
        try:
            request = {**super().request(files, scope), **self._list_files(path, files)}
        except OSError as e:
            raise Bad(
                f"cannot read {e.filename or self.src}: {e.strerror}", slug="local-file-unreadable"
            ) from None
        if self.template:
            text = self._fill_template(scope) or ""
            data = text.encode()
            sha256 = hashlib.sha256(data).hexdigest()
            request["files"][0].update(text=text, sha256=sha256, size=len(data))
        return request

    def _list_files(self, path: Path, files: LocalFiles) -> dict[str, Any]:
        if not path.exists():
            raise Bad(
                f"src: there is no file {self.src} in {Path.cwd()}", slug="local-file-missing"
            )
        if path.is_file():
            requests, folders = [_file_request(files, path, "")], []
        elif not path.is_dir():
            raise Bad(f"src: {self.src} is not a file or folder", slug="local-file-unreadable")
        else:
            prefix = "" if self.src.endswith("/") else f"{path.resolve().name}/"
            inside = sorted(islice(_paths_inside(path, (path.resolve(),)), _MOST_FILES + 1))
            if len(inside) > _MOST_FILES:
                raise Bad(
                    f"{self.src} has more than {_MOST_FILES:,} files",
                    hint="data: {push: FOLDER}",
                    slug="too-many-files",
                )
            requests = [
                _file_request(files, entry, prefix + str(entry.relative_to(path)))
                for entry in inside
                if entry.is_file()
            ]
            names = [str(entry.relative_to(path)) for entry in inside if entry.is_dir()]
            folders = [prefix.rstrip("/"), *(prefix + name for name in names)]
        return {"files": requests, "folders": folders, "base": path.name}


def _paths_inside(folder: Path, above: tuple[Path, ...]) -> Iterator[Path]:
    """Yield files and folders, links resolved; a link must not lead out of the copied folder, which
    is the first of `above`."""
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
            yield from _paths_inside(path, (*above, real))


def _file_request(files: LocalFiles, path: Path, name: str) -> dict[str, Any]:
    status = path.stat()
    executable = bool(status.st_mode & 0o100)
    return {
        "name": name,
        "sha256": files.add(path),
        "size": status.st_size,
        "executable": executable,
    }


_URL = re.compile(r"https?://[^\s\x00-\x1f]+")


@dataclass(frozen=True)
class Get(HostStep):
    """Download a file on each host. Its SHA-256 determines whether it is already present.

    Proxy settings come from the host's environment. For URLs that the hosts cannot reach, use
    `copy` or `data`.
    """

    keyword = "get"
    example = "get: {url: 'https://host/model.bin', dest: ~/model.bin, sha256: 9f86d0...}"

    url: str = arg("URL of the file: https or http.")
    dest: str = arg("Absolute path of the file on the hosts, or one under ~/.")
    sha256: str = arg("The SHA-256 of its content, 64 hexadecimal digits.")
    mode: str = arg("Permissions, for example '0644' or u+x.", "")
    owner: str = arg("Name or numeric ID of the owner.", "")
    group: str = arg("Name or number of the group.", "")
    size: int = arg("Maximum size in bytes.", 100_000_000_000)
    timeout: Seconds = arg("Fail if less than 10 kB/s arrive for this long.", Seconds(30))
    deadline: Seconds = arg("Maximum time for the download.", Seconds(6 * 3600))

    def check(self) -> None:
        if not _URL.fullmatch(self.url):
            raise Bad(f"{self.url!r} is not an https or http URL", slug="not-a-url")
        for name, value in (("size", self.size), ("timeout", self.timeout)):
            if value <= 0:
                raise Bad(f"{name} must be greater than 0", slug="value-out-of-range")
        if not re.fullmatch("[0-9a-fA-F]{64}", self.sha256):
            raise Bad(
                "sha256 is not 64 hexadecimal digits", hint="sha256sum FILE", slug="not-a-sha256"
            )
        if self.dest.endswith("/"):
            raise Bad("dest is a folder; name the file", slug="dest-is-folder")


_CLAUSE = r"[ugoa]*(?:[=+-](?:[rwxXst]*|[ugo]))+"
_MODE = re.compile(rf"[0-7]{{3,4}}|0[0-7]{{4}}|{_CLAUSE}(?:,{_CLAUSE})*", re.ASCII)


def check_path(name: str, path: str) -> None:
    if not path.startswith(("/", "~")):
        what = f"{name} is empty" if not path else f"{name}: {path[:64]!r} is not an absolute path"
        raise Bad(
            what, hint=f"{name}: /PATH, or ~/PATH for the home folder", slug="path-not-absolute"
        )


def check_mode(name: str, mode: str) -> None:
    if mode and not _MODE.fullmatch(mode):
        raise Bad(
            f"{name}: {mode[:64]!r} is not a file mode",
            hint=f"{name}: '0644', or u=rw,go=r",
            slug="not-a-file-mode",
        )


def check_pattern(name: str, pattern: str) -> None:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as e:
        raise Bad(
            f"{name}: {pattern[:64]!r} is not a valid regular expression: {e}", slug="not-a-pattern"
        ) from None
