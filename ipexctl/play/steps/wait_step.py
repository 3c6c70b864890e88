from __future__ import annotations

from typing import Literal

from ipexctl.base.located_errors import Bad
from ipexctl.play.steps.step_kinds import HostStep
from ipexctl.play.text.step_schema import Seconds, arg
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class Wait(HostStep):
    """Wait for a port, a path, or a number of seconds. It changes nothing."""

    keyword = "wait"
    module = "apply_wait"
    example = "wait: {port: 29500, host: node01, timeout: 2m}"

    port: int | None = arg("TCP port to connect to from the hosts.", None)
    host: str = arg("Host of the port.", "127.0.0.1")
    path: str = arg("Absolute path on the hosts, or one under ~/.", "")
    state: Literal["started", "stopped", "present", "absent"] = arg(
        "started, present: open, exists; stopped, absent: closed, missing.", "started"
    )
    seconds: Seconds = arg("Just wait for this long.", Seconds(0))
    timeout: Seconds = arg("Time after which the step fails.", Seconds(300))

    def check(self) -> None:
        if sum((self.port is not None, bool(self.path), bool(self.seconds))) != 1:
            raise Bad("one of port, path or seconds is required", slug="arguments-conflict")
        if self.port is not None and not 0 < self.port < 65536:
            raise Bad(f"{self.port} is not a port", slug="not-a-port")
