"""data pull --from HOST: that host fetches, and the others get the files from it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ipexctl.base.blob import Blob
from ipexctl.base.host_answer import Answer
from ipexctl.base.values import plain
from ipexctl.blobs.blob_carriers import Moved, Push
from ipexctl.blobs.blob_relay import Relay
from ipexctl.blobs.blob_store import SILENCE, OnBytes, Source
from ipexctl.data.rules.pulled_tree import Content, RemoteFile
from ipexctl.data.source_requests import NO_HUB, Answered, Hub
from ipexctl.errors import HostFailed
from ipexctl.install.progress import FETCHING, Progress, Step
from ipexctl.local.file_hashes import Hashes
from ipexctl.machines.agent import Agent, transfer_time
from ipexctl.machines.wire.frames import Frame
from ipexctl.quick_dataclass import dataclass

MODULE = "data.source_files"


@dataclass
class HostFetch:
    """In place of FileFetch: `all` brings only files whose sha256 is not known yet; the others are
    fetched once the hosts have said what they lack. `hashes`: those of earlier pulls."""

    agent: Agent
    root: str
    progress: Progress
    hashes: Hashes
    hub: Hub = NO_HUB
    fetched: int = 0

    @property
    def folder(self) -> str:
        return f"{self.agent.host.name}:{self.root}/blobs"

    def lacking(self, files: Sequence[RemoteFile]) -> int:
        known = self._known(files)
        rows = {_key(f, known): max(f.size, 0) for f in files}
        return look(self.agent, self.root, rows, lend=False)

    def all(self, files: Sequence[RemoteFile]) -> dict[str, Content]:
        known = self._known(files)
        each = [f for f in {f.local: f for f in files}.values() if f.local not in known]
        if each:
            done, total = 0, sum(max(f.size, 0) for f in each)

            def count(n: int) -> None:
                nonlocal done
                done += n
                self.progress.step(Step(self.agent.host.name, FETCHING, done, total))

            rows = [_row(f, _key(f, known)) for f in each]
            found, self.fetched = fetch(self.agent, self.root, rows, self.hub, count)
            for file, content in zip(each, found, strict=True):
                known[file.local] = content
                self.hashes.add(file.local, (file.size, 0, 0, 0), content.sha256)
        self.hashes.save()
        return known

    def _known(self, files: Sequence[RemoteFile]) -> dict[str, Content]:
        found = {}
        for f in files:
            sha = f.content if len(f.content) == 64 else ""
            sha = sha or self.hashes.known(f.local, (f.size, 0, 0, 0))
            if sha and f.size >= 0:
                found[f.local] = Content(sha, f.size)
        return found


@dataclass
class HostPush(Push):
    """`host` fetches the files, and is sent what is made here; no other host is sent anything.
    `over`: it fetches no more."""

    _source: Source
    host: str
    files: Mapping[str, RemoteFile]  # by sha256
    hub: Hub
    over: bool = False
    verb = FETCHING

    def can_send(self, host: str, blob: Blob) -> bool:
        if host != self.host and self.over:
            raise HostFailed(
                f"{host} did not get all files from {self.host}",
                why=f"either {self.host} does not have them, or {host} cannot connect to it",
                hint="ipexctl doctor --level std   # tests the connections between hosts",
                slug="source-host-unreached",
            )
        return host == self.host

    def send(self, agent: Agent, root: str, blobs: Sequence[Blob], on_bytes: OnBytes) -> Moved:
        made = [b for b in blobs if b.sha256 not in self.files]
        moved = super().send(agent, root, made, on_bytes) if made else Moved()
        rows = [_row(self.files[b.sha256], b.sha256) for b in blobs if b.sha256 in self.files]
        return moved + Moved(fetched=fetch(agent, root, rows, self.hub, on_bytes)[1])

    def relay(self, known: Mapping[str, str], say: Callable[[str], None]) -> Relay:
        """Who else could send the files, is not said."""
        return Relay(self, known, lambda text: say(text.rpartition(": ")[0]), least=0)

    def lend(self, agent: Agent, root: str, blobs: Sequence[Blob]) -> None:
        look(agent, root, {b.sha256: b.size for b in blobs}, lend=True)


def ask(agent: Agent, method: str, url: str, hub: Hub) -> Answered:
    body: list[bytes] = []
    asked = {"method": method, "address": url, "site": hub.site, "token": hub.token}
    done = agent.call(
        f"{MODULE}.ask", asked, timeout=SILENCE, on_event=lambda frame: body.append(frame.body)
    ).done
    said = done["headers"]
    if not isinstance(said, dict):
        raise done.odd("the headers of an answer")
    headers = {str(key): plain(str(value)) for key, value in said.items() if value}
    return Answered(done.whole("status", 999), headers, b"".join(body))


def look(agent: Agent, root: str, files: Mapping[str, int], *, lend: bool) -> int:
    """The bytes of these that the host lacks. `lend`: it can give the others to hosts."""
    asked = {"root": root, "files": list(files.items()), "lend": lend}
    return agent.call(f"{MODULE}.look", asked, timeout=SILENCE).done.whole("lacking")


def fetch(
    agent: Agent, root: str, rows: Sequence[Sequence[Any]], hub: Hub, on_bytes: OnBytes
) -> tuple[list[Content], int]:
    """The host fetches them. Returns what they are, and the bytes that came over its network."""
    most = 1 << 60

    def hear(frame: Frame) -> None:
        if frame.header.get("event") == "got":
            on_bytes(Answer(agent.host.name, frame.header).whole("bytes", most, least=-most))

    asked = {"root": root, "files": rows, "site": hub.site, "token": hub.token}
    size = sum(max(row[2], 0) for row in rows)
    done = agent.call(
        f"{MODULE}.fetch", asked, timeout=SILENCE, total=transfer_time(size), on_event=hear
    ).done
    found = [Content(sha, size) for sha, size in done.rows("files", str, int)]
    if len(found) != len(rows):
        raise done.odd("the files that it fetched")
    return found, done.whole("fetched")


def _row(file: RemoteFile, key: str) -> tuple[str, str, int, str, str]:
    return file.path, key, file.size, file.url, file.content


def _key(file: RemoteFile, known: Mapping[str, Content]) -> str:
    """Its sha256, or another one in its place."""
    if file.local in known:
        return known[file.local].sha256
    return hashlib.sha256(f"{file.url} {file.local}".encode()).hexdigest()
