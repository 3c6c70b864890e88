"""Data sets under ROOT/data/NAME/VERSION: read by many runs, changed by none.

    VERSION/files    as they were pushed, 0444
    VERSION/hub      a link to it, where it is a hub cache: VERSION is then an HF_HOME
    VERSION/tree     what it consists of; it is there once all of it is
    current          a link to the version that runs get

A version is built beside the others and gets its name at the end, so a push that was cut goes on
where it stopped. What an older version or another data set has is linked, not sent: each content is
on the disk once. A run holds a lock on its version; what is in use is not removed.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil

Failure = globals()["Failure"]  # these two are put there by remote/main.py
blobs = globals()["agent"].module("blobs")
trees = globals()["agent"].module("trees")

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
SHORT = 16
held = []  # type: list[int]  # the locks of the versions that the run of this agent uses
making = {}  # type: dict[tuple[str, str], Part]  # what this agent makes, from op_make to op_fill
sure = set()  # type: set[bytes]  # paths of a version in the making that this agent has looked at


def op_make(call, h):
    """{root, name, key, hub}, body: the manifest, or nothing if it should be known here.

    -> what op_list says of it, when all is here; {lacks: true}; {missing: [index, ...]}
    """
    root = blobs.root_folder(h["root"])
    top = home(root, h["name"])
    if current(top) == h["key"][:SHORT]:
        return dict(seen(top, h["key"][:SHORT]), same=True)
    tree = trees.manifest(root, h["key"], call.body)
    if tree is None:
        return {"lacks": True}
    part = claimed(call, root, top, h["key"], tree)
    if part is None:
        return dict(seen(top, h["key"][:SHORT]), same=True)
    missing = part.missing(call)
    return {"missing": missing} if missing else part.finish(call, h["hub"])


def op_fill(call, h):
    """The same arguments, and {files: [[sha256, size], ...]}: small ones, whose bytes follow."""
    root = blobs.root_folder(h["root"])
    tree = trees.manifest(root, h["key"], b"")
    if tree is None:
        raise Failure("the list of files is gone", "", "run the same command again")
    expected = blobs.wanted({"blobs": h["files"]})
    part = making[home(root, h["name"]), h["key"]]
    part.missing(call)
    part.take(call, expected)
    return part.finish(call, h["hub"])


def op_drop(call, h):
    """The same arguments: it will not be filled. Who waits for it makes it."""
    part = making.get((home(blobs.root_folder(h["root"]), h["name"]), h["key"]))
    if part is not None:
        part.close()
    return {}


def op_list(call, h):
    """{root} -> {data: [...]}. Makes nothing, not even ROOT."""
    text = h["root"]
    if isinstance(text, str) and not os.path.isdir(os.path.expanduser(text)):
        return {"data": []}
    root = blobs.root_folder(text)
    found = []
    for name in names(root):
        top = os.path.join(root, "data", name)
        version = current(top)
        if version:
            found.append(dict(seen(top, version), old=len(versions(top)) - 1))
    return {"data": found}


def op_use(call, h):
    """{root, names} -> {data: [...]}: what of it is here, held until this agent ends."""
    root = blobs.root_folder(h["root"])
    found = []
    for name in h["names"]:
        top = home(root, name, make=False)
        version = current(top)
        if version:
            lock = os.open(os.path.join(top, version, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
            locked(lock, fcntl.LOCK_SH)
            held.append(lock)
            found.append(seen(top, version))
    return {"data": found}


def op_remove(call, h):
    """{root, name} -> {removed: bytes or None, used: versions that a run uses}"""
    root = blobs.root_folder(h["root"])
    top = home(root, h["name"], make=False)
    if not os.path.isdir(top):
        return {"removed": None, "used": 0}
    with open(os.path.join(root, "data", ".lock"), "w") as lock:
        blobs.waited(call, lock.fileno())  # for another host with the same home
        if not os.path.isdir(top):
            return {"removed": None, "used": 0}
        size = sum(seen(top, version)["bytes"] for version in versions(top))
        used = forgotten(top, "")
        if used:
            return {"removed": None, "used": used}
        blobs.unlink(os.path.join(top, "current"))
        removed(top)
    return {"removed": size, "used": 0}


# --- looking -------------------------------------------------------------------------------------


def home(root, name, make=True):
    if not isinstance(name, str) or not NAME.match(name):
        raise Failure("%r is not a name for data" % (name,), slug="input")
    return blobs.folder(root, "data", name) if make else os.path.join(root, "data", name)


def names(root):
    try:
        return sorted(n for n in os.listdir(os.path.join(root, "data")) if NAME.match(n))
    except OSError:
        return []


def versions(top):
    """Those that are whole."""
    try:
        found = [n for n in os.listdir(top) if re.match(r"[0-9a-f]{16}\Z", n)]
    except OSError:
        return []
    return [n for n in found if os.path.exists(os.path.join(top, n, "tree"))]


def current(top):
    try:
        version = os.readlink(os.path.join(top, "current"))
    except OSError:
        return ""
    return version if version in versions(top) else ""


def consists(top, version):
    try:
        with open(os.path.join(top, version, "tree"), "rb") as file:
            return json.loads(file.read().decode("ascii"))
    except (OSError, ValueError):
        return {"folders": [], "files": [], "links": []}


def seen(top, version):
    path = os.path.join(top, version)
    files = consists(top, version)["files"]
    return {
        "name": os.path.basename(top),
        "version": version,
        "files": len(files),
        "bytes": sum(size for _, _, size, _ in files),
        "path": os.path.join(path, "files"),
        "hub": hub_of(path),
    }


def hub_of(path):
    """What HF_HOME should be, "" if this is no hub cache."""
    if os.path.islink(os.path.join(path, "hub")):
        return path
    marked = os.path.exists(os.path.join(path, "is-home"))
    return os.path.join(path, "files") if marked else ""


# --- a version that is being made ----------------------------------------------------------------


def claimed(call, root, top, key, tree):
    """The version in the making, ours alone; None when it is whole, whoever has made it."""
    while current(top) != key[:SHORT]:
        try:
            part = making.get((top, key)) or Part(root, top, key, tree)
        except FileNotFoundError:
            continue  # its maker has just given it its name
        blobs.waited(call, part.lock)
        if part.is_named() and key[:SHORT] not in versions(top):
            making[top, key] = part
            return part
        named = part.is_named()
        part.close()
        if named:  # and the version is there: an older one that a run uses, or just made
            shutil.rmtree(part.path, ignore_errors=True)
            pointed(top, key[:SHORT])
    return None


class Part:
    """ROOT/data/NAME/.KEY; whoever holds its lock writes to it."""

    def __init__(self, root, top, key, tree):
        self.root, self.top, self.key, self.tree = root, top, key, tree
        self.path = blobs.folder(top, "." + key[:SHORT])
        self.files = os.fsencode(blobs.folder(self.path, "files"))
        self.lock = os.open(os.path.join(self.path, "lock"), os.O_RDWR | os.O_CREAT, 0o600)

    def is_named(self):
        """Whoever had it before may have finished it, or removed it."""
        try:
            path = os.path.join(self.path, "lock")
            return os.path.samestat(os.fstat(self.lock), os.lstat(path))
        except OSError:
            return False

    def close(self):
        making.pop((self.top, self.key), None)
        os.close(self.lock)

    def missing(self, call):
        """What has to come, as indices; what is here already gets its place."""
        try:
            for name in self.tree["folders"]:
                os.makedirs(trees.inside(self.files, name), 0o700, exist_ok=True)
            absent = [i for i in range(len(self.tree["files"])) if not self.placed(call, i)]
        except OSError as e:
            raise trees.unwritable(e, self.root, 0) from None
        wanted = {self.tree["files"][i][1]: self.tree["files"][i][2] for i in absent}
        blobs.need_space(self.root, sum(wanted.values()), len(absent))
        return absent

    def placed(self, call, i):
        name, sha, size, _ = self.tree["files"][i]
        path = trees.inside(self.files, name)
        if i % 1000 == 0:
            call.emit({"event": "alive"})
        if os.path.lexists(path):
            if path in sure or whole(call, path, sha, size):
                sure.add(path)
                self.sources[sha] = path
                return True
            os.unlink(path)
        for source in (self.sources.get(sha), os.fsencode(blobs.path_of(self.root, sha))):
            if source and os.path.exists(source) and os.lstat(source).st_size == size:
                linked(source, path)
                sure.add(path)
                self.sources.setdefault(sha, path)
                return True
        return False

    @property
    def sources(self):
        """Where contents are, in any data set of this host."""
        if not hasattr(self, "_sources"):
            self._sources = {}
            for name in names(self.root):
                top = os.path.join(self.root, "data", name)
                for version in versions(top):
                    files = os.fsencode(os.path.join(top, version, "files"))
                    for path, sha, _, _ in consists(top, version)["files"]:
                        self._sources[sha] = os.path.join(files, trees.encoded(path))
        return self._sources

    def take(self, call, expected):
        """Each into the first of its places; finish() links the others."""
        first = {}  # type: dict[str, tuple[str, int]]
        for name, sha, _, executable in self.tree["files"]:
            first.setdefault(sha, (name, executable))
        datas = trees.contents(call, expected)
        try:
            for sha, _ in expected:
                name, executable = first[sha]
                path = trees.inside(self.files, name)
                with open(path, "wb") as file:
                    file.write(next(datas))
                sure.add(path)
                self.sources[sha] = path
            for _ in datas:  # its last word is for the last frame
                pass
        except OSError as e:
            size = sum(size for _, size in expected)
            raise trees.unwritable(e, self.root, size) from None

    def finish(self, call, hub):
        absent = [i for i in range(len(self.tree["files"])) if not self.there(i)]
        left = [i for i in absent if not self.placed(call, i)]
        if left:
            raise Failure("%d files did not come" % len(left), "", "run the same command again")
        try:
            self.links(hub)
            for name, _, _, executable in self.tree["files"]:
                os.chmod(trees.inside(self.files, name), 0o555 if executable else 0o444)
            data = json.dumps(self.tree, separators=(",", ":")).encode("ascii")
            os.sync()
            trees.written(os.path.join(self.path, "tree"), [data])
            version = self.key[:SHORT]
            os.rename(self.path, os.path.join(self.top, version))
            pointed(self.top, version)
        except OSError as e:
            raise trees.unwritable(e, self.root, 0) from None
        for _, sha, size, _ in self.tree["files"]:
            if size > trees.PACKED:
                blobs.unlink(blobs.path_of(self.root, sha))  # its place is here now
        self.close()
        forgotten(self.top, version)
        return dict(seen(self.top, version), same=False)

    def there(self, i):
        name, _, size, _ = self.tree["files"][i]
        try:
            return os.lstat(trees.inside(self.files, name)).st_size == size
        except OSError:
            return False

    def links(self, hub):
        for name, target in self.tree["links"]:
            path = trees.inside(self.files, name)
            if os.path.lexists(path):
                os.unlink(path)
            trees.link(self.files, name, target)
        if hub == "cache" and not os.path.lexists(os.path.join(self.path, "hub")):
            os.symlink("files", os.path.join(self.path, "hub"))
        elif hub == "home":
            open(os.path.join(self.path, "is-home"), "w").close()


def whole(call, path, sha, size):
    """Is what an earlier try has left all of it?"""
    if os.lstat(path).st_size != size:
        return False
    with open(path, "rb") as file:
        digest = hashlib.sha256()
        for chunk in iter(lambda: file.read(8 << 20), b""):
            digest.update(chunk)
            if len(chunk) == 8 << 20:
                call.emit({"event": "alive"})
    return digest.hexdigest() == sha


def linked(source, path):
    try:
        os.link(source, path)
    except OSError:  # a filesystem without, or too many of this one
        shutil.copyfile(source, path)


def pointed(top, version):
    fresh = os.path.join(top, ".current.%s" % os.urandom(8).hex())
    os.symlink(version, fresh)
    os.rename(fresh, os.path.join(top, "current"))


def forgotten(top, keep):
    """Removes all versions but one. How many could not go, as runs use them."""
    used = 0
    for version in versions(top):
        if version == keep:
            continue
        path = os.path.join(top, version)
        lock = os.open(os.path.join(path, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
        free = locked(lock, fcntl.LOCK_EX)
        if free:
            blobs.unlink(os.path.join(path, "tree"))  # from now on it is no version
        os.close(lock)  # before it is removed: NFS keeps what is open, and the folder around it
        if free:
            removed(path)
        else:
            used += 1
    return used


def removed(path):
    shutil.rmtree(path, ignore_errors=True)
    if os.path.lexists(path):
        raise Failure("%s could not be removed whole" % path, "", "look what is in it, and why")


def locked(fd, kind):
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a filesystem without locks
    return True
