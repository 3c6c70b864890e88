"""Query repositories of the Hugging Face Hub for their files, and fetch them.

The library huggingface_hub provides the token and the path of the cache. The list and the bytes
come by our own requests: a file is resumed where it stopped, and the token is sent to no other
site.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from ipexctl.base.remote_file import RemoteFile
from ipexctl.base.sizes import duration
from ipexctl.common.http_body import BodyBroken
from ipexctl.data.rules.pulled_tree import (
    DATASETS,
    MODELS,
    HfSource,
    Repository,
    checked_repository,
)
from ipexctl.errors import InputError, NotHere
from ipexctl.local.environment import environment
from ipexctl.packages.download import AGAIN, Download
from ipexctl.packages.file_fetch import OnBytes, PullFailed, next_step, request_url
from ipexctl.packages.http_opener import Opener
from ipexctl.packages.indexes import Indexes
from ipexctl.quick_dataclass import dataclass
from ipexctl.terminal.progress import HostProgress, ProgressStep

LONGEST = 330.0  # seconds of a pause that the hub asks for; its windows last 5 minutes
LOGIN = "accept its terms on {url} if it has any; then: hf auth login   # or export HF_TOKEN"


@dataclass
class HfClient:
    """A client of the Hub. Tests pass in `wait`."""

    progress: HostProgress
    wait: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        try:
            import huggingface_hub
            import huggingface_hub.constants
        except ImportError:
            raise NotHere(
                "hf: sources need the Python package huggingface_hub",
                hint="pip install 'ipexctl[hub]'   # into the environment of ipexctl",
                slug="hub-library-missing",
            ) from None
        self._library: Any = huggingface_hub
        environ = environment()
        endpoint = environ.get("HF_ENDPOINT") or huggingface_hub.constants.ENDPOINT
        self._endpoint = endpoint.rstrip("/")
        # a login of .netrc for this site would replace the token
        given = {**environ, "NETRC": os.devnull}
        self._opener = Opener(Indexes(), given, stays_public=True)
        self._token = huggingface_hub.get_token() or ""

    @property
    def cache(self) -> Path:
        return Path(environment().get("HF_HUB_CACHE") or self._library.constants.HF_HUB_CACHE)

    def look(self, source: HfSource) -> Repository:
        """Return the repository. Raises InputError or PullFailed."""
        kinds = [source.kind] if source.kind else [MODELS, DATASETS]
        repositories = [
            repository for kind in kinds if (repository := self._find_kind(source, kind))
        ]
        if not repositories:
            page = self._page_url(source.kind or MODELS, source.repository)
            raise InputError(
                f"the hub has no {source.repository} at {source.revision}, or does not show it",
                why="private repositories are shown only to users with access",
                hint=f"compare it with {page}; hf auth login   # if it is private",
                slug="repository-not-found",
            )
        if len(repositories) > 1:
            raise InputError(
                f"{source.repository} is a model and a dataset",
                hint=f"ipexctl data pull hf:models/{source.repository}   # or hf:datasets/...",
                slug="repository-ambiguous",
            )
        return checked_repository(repositories[0])

    def bring(self, out: BinaryIO, file: RemoteFile, on_bytes: OnBytes) -> None:
        """Append the rest of the file to `out`."""
        download = Download(self._open, wait=self._pause, longest=LONGEST)
        try:
            download.append_to(out, file.url, on_bytes, file.size)
        except BodyBroken as e:
            refused = e.status in (401, 403)
            page = file.url.partition("/resolve/")[0]
            raise PullFailed(
                f"the hub {'refused' if refused else 'did not send'} {file.path}",
                why=str(e),
                hint=LOGIN.format(url=page) if refused else next_step(e.status, file.url),
                slug="hub-refused" if refused else "pull-failed",
            ) from None

    def _open(self, request: Any, timeout: float) -> Any:
        if self._token and request.full_url.startswith(f"{self._endpoint}/"):
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        return self._opener.open(request, timeout=timeout)

    def _pause(self, seconds: float) -> None:
        if seconds > 1:
            self.progress.step(ProgressStep("", f"waiting {duration(seconds)}, as the hub asks"))
        self.wait(seconds)

    def _find_kind(self, source: HfSource, kind: str) -> Repository | None:
        """Return the repository; None if there is none of this kind."""
        revision = quote(source.revision, safe="")
        url = f"{self._endpoint}/api/{kind}/{source.repository}/revision/{revision}?blobs=true"
        answer = request_url(self._open, "GET", url)
        code = answer.headers.get("X-Error-Code", "")
        wrong_token = "Invalid credentials" in answer.headers.get("X-Error-Message", "")
        unknown = code in ("RepoNotFound", "RevisionNotFound")
        if answer.status in (401, 403) and (code == "GatedRepo" or wrong_token):
            raise self._refused_error(source, kind)
        if unknown or answer.status == 401:  # the answer for private and for missing ones
            return None
        if answer.status == 403:
            raise self._refused_error(source, kind)
        if answer.status != 200:
            hint = next_step(answer.status, self._page_url(kind, source.repository))
            raise _hf_error(source, f"HTTP {answer.status}", hint)
        try:
            info = json.loads(answer.body)
            files = tuple(self._read_files(info, source, kind))
            return Repository(kind, source.repository, source.revision, str(info["sha"]), files)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise _hf_error(source, "it sent something else than a list of files") from None

    def _read_files(self, info: Any, source: HfSource, kind: str) -> Iterator[RemoteFile]:
        for entry in info["siblings"]:
            lfs = entry.get("lfs")
            content = str(lfs["sha256"] if lfs else entry["blobId"])
            size = int((lfs or entry)["size"])
            url = self._library.hf_hub_url(
                source.repository,
                entry["rfilename"],
                repo_type=kind.rstrip("s"),
                revision=info["sha"],
                endpoint=self._endpoint,
            )
            yield RemoteFile(str(entry["rfilename"]), url, content, size, content)

    def _refused_error(self, source: HfSource, kind: str) -> PullFailed:
        return PullFailed(
            f"the hub refused access to {source.repository}",
            why="it is gated or private" + " and no token was found" * (not self._token),
            hint=LOGIN.format(url=self._page_url(kind, source.repository)),
            slug="hub-refused",
        )

    def _page_url(self, kind: str, name: str) -> str:
        return f"{self._endpoint}/{'datasets/' * (kind == DATASETS)}{name}"


def _hf_error(source: HfSource, why: str, hint: str = AGAIN) -> PullFailed:
    return PullFailed(f"the hub did not describe {source.repository}", why=why, hint=hint)
