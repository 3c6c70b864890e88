"""Files of a hub or an address that this host fetches for all: `data pull --from` this host.

The controller says where they are. Its token is sent to the hub alone, not along a redirect, and is
kept nowhere.
"""

import hashlib
import http.client
import os
import urllib.error
import urllib.parse
import urllib.request

from ipexctl.remote import root_folder
from ipexctl.remote.blobs import blob_download, blobs
from ipexctl.remote.data import dataset_versions
from ipexctl.remote.failure import Failure, human_size
from ipexctl.remote.project import synced_folders

MOST = 16 << 30  # bytes of a file of unknown size
PAUSE = 330.0  # seconds that are waited if the hub asks for it; its windows last 5 minutes
HEADERS = (
    "Content-Length", "ETag", "Last-Modified", "RateLimit", "Retry-After", "X-Error-Code",
    "X-Error-Message",
)  # fmt: skip
AGAIN = "run the same command again: files that are already there are not fetched again"
CHECK = "check the address of %s: the server refuses it or has moved it"
LOGIN = "accept the terms on the page of the repository; then: hf auth login   # or export HF_TOKEN"


def op_ask(call, h):
    """{method, address, site, token} -> {status, headers}, after the body in frames."""
    address = blob_download.checked_address(h["address"])
    request = urllib.request.Request(address, headers=blob_download.HEADERS, method=h["method"])
    try:
        with opener(h).open(request, timeout=blob_download.TIMEOUT) as answer:
            for piece in blob_download.pieces(answer, blob_download.TIMEOUT):
                call.emit({"event": "piece"}, piece)
            return described(answer.getcode(), answer.headers)
    except urllib.error.HTTPError as e:
        e.close()
        return described(e.code, e.headers)
    except (http.client.HTTPException, OSError, ValueError) as e:
        why = blob_download.error_text(e, blob_download.TIMEOUT)
    except blob_download.TransferError as e:
        why = str(e)
    site = urllib.parse.urlsplit(address).hostname
    raise Failure("cannot reach %s" % site, why, slug="pull-failed")


def described(status, headers):
    return {"status": status, "headers": {key: headers.get(key, "") for key in HEADERS}}


def op_look(call, h):
    """{root, files: [[sha256, size], ...], lend} -> {lacking: bytes}, of those that are in no blob
    and no dataset of this host. `lend`: those in datasets are blobs, too, until this agent ends."""
    root = root_folder.existing(h["root"])
    wanted = blobs.wanted_blobs({"blobs": h["files"]})
    lacking = {sha: size for sha, size in wanted if not blobs.has(root, sha, size)}
    if h["lend"]:
        before = list(lacking)
        call.agent.at_end.append(lambda: blobs.remove_blobs(root, set(before) - set(lacking)))
    for name in dataset_versions.dataset_names(root) if lacking else ():
        top = os.path.join(root, "data", name)
        for version in dataset_versions.complete_versions(top):
            tree = dataset_versions.read_tree(top, version)
            files = os.fsencode(os.path.join(top, version, "files"))
            for i in dataset_versions.unchanged(call, files, tree):
                path, sha, size, _ = tree["files"][i]
                path = synced_folders.inside(files, path)
                if lacking.get(sha) == size and (not h["lend"] or lent(root, path, sha)):
                    del lacking[sha]
    return {"lacking": sum(max(0, n - blobs.part_size(root, sha)) for sha, n in lacking.items())}


def lent(root, path, sha):
    try:
        root_folder.subfolder(root, "blobs", "sha256", sha[:2])
        os.link(path, blobs.path_of(root, sha))
    except OSError:  # a filesystem without links: it is fetched again
        return False
    return True


def op_fetch(call, h):
    """{root, files: [[name, key, size, address, content], ...], site, token}
    -> {files: [[sha256, size], ...], fetched}, with events as in blob_download.py

    `content`: its sha256, or its SHA-1 as Git computes it, or ""; `key`: its sha256, or where that
    is not known, another one that stands for it; `size`: -1 if it is not known.
    """
    wanted = [SourceFile(*raw) for raw in h["files"]]
    work = SourceWork(call, root_folder.checked(h["root"]), h)
    done = blob_download.fetch_all(work, wanted)
    return dict(done, files=[[f.found, f.size] for f in wanted])


class SourceFile(blob_download.File):
    def __init__(self, name, key, size, address, content):
        blob_download.File.__init__(self, name, key, MOST if size < 0 else size, address)
        self.least, self.any_size, self.content = max(size, 0), size < 0, str(content)
        self.found = self.sha

    def is_in(self, out):
        if not self.any_size and out.size != self.size:
            return False
        if len(self.content) == 40:
            out.file.seek(0)
            git = hashlib.sha1(b"blob %d\0" % out.size)
            for chunk in iter(lambda: out.file.read(blobs.HASHED), b""):
                git.update(chunk)
            right = git.hexdigest() == self.content
        else:
            right = self.content in ("", out.digest.hexdigest())
        if right:
            self.found, self.size = out.digest.hexdigest(), out.size
        return right


class SourceWork(blob_download.Work):
    longest = PAUSE
    again = True

    def __init__(self, call, root, h):
        blob_download.Work.__init__(self, call, root, None)
        self.open, self.has_hub = opener(h), bool(h["site"])

    def failure(self, file, e, had):
        refused = self.has_hub and e.status in (401, 403)
        kept = "; %s of it are kept" % human_size(had) if had else ""
        what = "%s %s %s" % (file.site, "refused" if refused else "did not send", file.name)
        slug = "hub-refused" if refused else "pull-failed"
        again = CHECK % file.name if e.status in blob_download.FINAL else AGAIN
        return Failure(what, str(e) + kept, LOGIN if refused else again, slug=slug)

    def damage_failure(self, file):
        return Failure(
            "%s is not the file that its source describes" % file.name,
            "its hash is not %s, in 2 attempts; what came was discarded" % file.content,
            "run the same command again later",
            slug="pull-damaged",
        )


def opener(h):
    return blob_download.opener(HubToken(h["site"], h["token"]))


class HubToken(urllib.request.BaseHandler):
    """Called for each request, also those of a redirect."""

    def __init__(self, site, token):
        self.site, self.token = site, token

    def http_request(self, request):
        if self.token and request.full_url.startswith(self.site + "/"):
            request.add_unredirected_header("Authorization", "Bearer " + self.token)
        return request

    https_request = http_request
