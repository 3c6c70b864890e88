"""The step `copy`: files of the controller, or text, at a path here."""

import os

from ipexctl.remote.play import safe_paths
from ipexctl.remote.play.apply_file import MOST, PIECE, _directory, attributes_only, made_above
from ipexctl.remote.play.file_attributes import Attributes, describe
from ipexctl.remote.play.task import result
from ipexctl.remote.play.text_diff import text_diff

DIFF_MOST = 1 << 18


def apply(task):
    """args: files [{name, sha256, size, executable}]; `name` is relative to dest, "" is dest."""
    dest = safe_paths.absolute(task.args["dest"])
    task.reads = safe_paths.uses(dest)
    changes, diffs = [], []
    missing = []  # type: list[safe_paths.MissingFolder]
    above = made_above(dest) if task.args.get("folders") else []
    for folder in task.args.get("folders", []):
        path = _below(dest, folder)
        args = task.args
        inner = _Part(
            task,
            {"mode": args["directory_mode"], "owner": args["owner"], "group": args["group"]},
        )
        if _directory(inner, path)[0]:
            changes.append("%s/" % (folder or dest))
    for file in task.args["files"]:
        path = _below(_into(dest, task.args, file), file["name"])
        detail, diff = _copy(task, path, file, missing)
        if detail:
            changes.append("%s: %s" % (file["name"], detail) if file["name"] else detail)
            diffs.append(diff)
    uses = safe_paths.uses(dest)
    shown = "; ".join(changes[:3]) + ("; %d more" % (len(changes) - 3) if changes[3:] else "")
    failure = missing[0] if missing and not task.args.get("folders") else None
    return result(
        changed=bool(changes),
        detail=shown,
        diff="".join(diffs),
        reads=uses,
        writes=uses + above,
        failure=failure,
    )


class _Part:
    """The task with the arguments of one part of it."""

    def __init__(self, task, args):
        self.check, self.diff, self.args = task.check, task.diff, args


def _into(dest, args, file):
    """A single file goes into a folder under its own name, as with cp."""
    single = not file["name"]
    if single and (args["dest"].endswith("/") or os.path.isdir(dest)):
        return os.path.join(dest, args["base"])
    return dest


def _below(top, name):
    return os.path.join(top, name) if name else top


def _copy(task, path, file, missing):
    """("", "") where it is there already. A check adds to `missing` what is not there yet."""
    try:
        with safe_paths.place(path) as place:
            return _copy_to(task, place, file)
    except safe_paths.MissingFolder as e:
        if task.check:
            missing.append(e)
            small = task.diff and file["size"] <= DIFF_MOST
            return "create", text_diff(path, b"", _content(task, file)) if small else ""
        raise


def _copy_to(task, place, file):
    found, digest = known(place)
    wanted = Attributes(task.args)
    if digest == file["sha256"]:
        return attributes_only(task, place, wanted)[1:]
    changes = wanted.missing(found)
    diff = ""
    if task.diff and max(file["size"], found.st_size if found else 0) <= DIFF_MOST:
        diff = text_diff(place.path, place.read(MOST)[0] or b"", _content(task, file))
    if task.check:
        place.require_writable()
    else:
        with place.replacing() as new:
            _fill(task, file, new)
            wanted.apply_new(new.fileno(), found, 0o777 if file["executable"] else 0o666)
    detail = "create" if found is None else ", ".join(filter(None, ["content", describe(changes)]))
    return detail, diff


def known(place):
    """(stat, SHA-256) of the file that is there; (None, "")."""
    import hashlib

    fd, found = place.open_file()
    if fd is None:
        return None, ""
    digest = hashlib.sha256()
    with os.fdopen(fd, "rb") as file:
        for piece in iter(lambda: file.read(PIECE), b""):
            digest.update(piece)
    return found, digest.hexdigest()


def _content(task, file):
    import io

    data = io.BytesIO()
    _fill(task, file, data)
    return data.getvalue()


def _fill(task, file, new):
    if "text" in file:
        new.write(file["text"].encode("utf-8"))
    else:
        task.receive(file["sha256"], new)
