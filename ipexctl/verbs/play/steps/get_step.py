from __future__ import annotations

import re
from dataclasses import dataclass

from ipexctl.core.inventory.located_errors import Bad
from ipexctl.core.plays.step_schema import Seconds, arg
from ipexctl.verbs.play.step_kinds import HostStep

_URL = re.compile(r"(?:https?|file)://[^\s\x00-\x1f]+")


@dataclass(frozen=True)
class Get(HostStep):
    """Download a file on each host. Its SHA-256 determines whether it is already present.

    Proxy settings come from the host's environment. For URLs that the hosts cannot reach, use
    `copy` or `data`.
    """

    keyword = "get"
    module = "apply_get"
    example = "get: {url: 'https://host/model.bin', dest: ~/model.bin, sha256: 9f86d0...}"

    url: str = arg("URL of the file: https, http or file.")
    dest: str = arg("Absolute path of the file on the hosts, or one under ~/.")
    sha256: str = arg("The SHA-256 of its content, 64 hexadecimal digits.")
    mode: str = arg("Permissions, for example '0644' or u+x.", "")
    owner: str = arg("Name or numeric ID of the owner.", "")
    group: str = arg("Name or number of the group.", "")
    timeout: Seconds = arg("Time without data after which the download fails.", Seconds(30))

    def check(self) -> None:
        if not _URL.fullmatch(self.url):
            raise Bad(f"{self.url!r} is not an https, http or file URL")
        if not re.fullmatch("[0-9a-fA-F]{64}", self.sha256):
            raise Bad("sha256 is not 64 hexadecimal digits", hint="sha256sum FILE")
        if self.dest.endswith("/"):
            raise Bad("dest is a folder; name the file")
