"""List environments and blobs below ROOT, and which blobs are needed."""

import glob
import os

from ipexctl.common.files import read_json
from ipexctl.common.tolerant_reads import info_of, names_in
from ipexctl.remote.blobs import blobs
from ipexctl.remote.install import env_marks

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Container


def env_keys(root: str) -> "list[str]":
    return sorted(filter(env_marks.KEY.match, names_in(os.path.join(root, "envs"))))


def needed_blobs(root: str, removed: "Container[str]" = ()) -> "set[str]":
    """Return the sha256 of all blobs that the environments need, except the `removed` ones."""
    shas = set()  # type: set[str]
    for key in env_keys(root):
        mark = read_json(os.path.join(env_marks.env_folder(root, key), env_marks.OK))
        if mark and key not in removed:
            shas.update(mark.get("blobs", ()))
    return shas


def kept_blobs(root: str) -> "list[tuple[str, int, float]]":
    """Return (path, size, modified) of every blob."""
    top = os.path.join(root, "blobs", "sha256")
    rows = []
    for path in glob.glob(os.path.join(glob.escape(top), "[0-9a-f][0-9a-f]", "*")):
        folder, name = os.path.split(path)
        if not blobs.SHA.match(name) or os.path.islink(folder) or os.path.islink(top):
            continue
        info = info_of(path)
        if info:
            rows.append((path, info.st_size, info.st_mtime))
    return rows
