from __future__ import annotations

import re

from ipexctl.base.located_errors import Bad
from ipexctl.play.steps.step_kinds import HostStep
from ipexctl.play.text.step_schema import Seconds, arg
from ipexctl.quick_dataclass import dataclass

_URL = re.compile(r"https?://[^\s\x00-\x1f]+")


@dataclass(frozen=True)
class Get(HostStep):
    """Download a file on each host. Its SHA-256 determines whether it is already present.

    Proxy settings come from the host's environment. For URLs that the hosts cannot reach, use
    `copy` or `data`.
    """

    keyword = "get"
    module = "apply_get"
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
