from __future__ import annotations

import re
from typing import Literal

from ipexctl.base.located_errors import Bad
from ipexctl.play.steps.step_kinds import HostStep
from ipexctl.play.text.step_schema import arg
from ipexctl.quick_dataclass import dataclass

_NAME = re.compile(r"[a-z0-9_]+(?:[./][A-Za-z0-9_-]+){1,8}")


@dataclass(frozen=True)
class Sysctl(HostStep):
    """Set a kernel parameter, now and at every boot."""

    keyword = "sysctl"
    module = "apply_sysctl"
    example = "sysctl: {name: net.core.somaxconn, value: '4096'}"

    name: str = arg("The parameter, for example net.core.somaxconn.")
    value: str | None = arg("Its value.", None)
    state: Literal["present", "absent"] = arg("absent: remove it from the file.", "present")
    sysctl_file: str = arg(
        "File that sets it at boot; \"\": set it only now.", "/etc/sysctl.d/90-ipexctl.conf"
    )  # fmt: skip

    def check(self) -> None:
        if not _NAME.fullmatch(self.name) or ".." in self.name:
            raise Bad(
                f"{self.name!r} is not the name of a kernel parameter",
                slug="not-a-kernel-parameter",
            )
        if (self.state == "present") == (self.value is None):
            raise Bad("value is required unless state is absent", slug="argument-missing")
        if self.value is not None and "\n" in self.value:
            raise Bad("value has more than one line", slug="line-break-in-value")
