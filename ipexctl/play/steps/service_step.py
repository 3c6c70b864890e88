from __future__ import annotations

import re
from typing import Literal

from ipexctl.base.located_errors import Bad
from ipexctl.play.steps.step_kinds import HostStep
from ipexctl.play.text.step_schema import arg
from ipexctl.quick_dataclass import dataclass

_NAME = re.compile(r"[A-Za-z0-9_@][A-Za-z0-9_.@:\\-]{0,255}")


@dataclass(frozen=True)
class Service(HostStep):
    """Start, stop, restart or enable a systemd unit."""

    keyword = "service"
    module = "apply_service"
    example = "service: {name: chronyd, state: started, enabled: true}"

    name: str = arg("Name of the unit; without a suffix, .service is added.")
    state: Literal["", "started", "stopped", "restarted", "reloaded"] = arg(
        "restarted and reloaded act every time.", ""
    )
    enabled: bool | None = arg("Whether it starts at boot.", None)
    daemon_reload: bool = arg("Reload unit files first (daemon-reload).", False)

    def check(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise Bad(f"{self.name!r} is not the name of a unit", slug="not-a-unit-name")
        if not self.state and self.enabled is None and not self.daemon_reload:
            raise Bad("state or enabled is required", slug="argument-missing")
