from __future__ import annotations

import time
from collections.abc import Mapping

from ipexctl.base.host_outcome import HostDown
from ipexctl.common.boot_answers import BootFound
from ipexctl.errors import HostFailed, IpexctlError
from ipexctl.inventory.inventory import Host
from ipexctl.machines.fleet import SILENCE, fan_out
from ipexctl.play.steps.step_kinds import Acting, FleetStep, Result
from ipexctl.play.text.play_outcome import State
from ipexctl.play.text.step_schema import Seconds, arg
from ipexctl.quick_dataclass import dataclass

_PAUSE = 3.0


@dataclass(frozen=True)
class Reboot(FleetStep):
    """Reboot the hosts, and wait until each answers again with a new boot id."""

    keyword = "reboot"
    example = "reboot: {timeout: 15m}"

    timeout: Seconds = arg("Maximum time for a host to come back.", Seconds(600))

    def act(self, on: Acting) -> Mapping[str, Result]:
        if on.check:
            return dict.fromkeys(on.hosts, Result(State.WOULD_CHANGE, "reboot"))
        hosts = [host for host in on.fleet.alive if host.name in on.hosts]
        results = fan_out(
            hosts, lambda host: self._reboot_host(host, on), forks=on.fleet.target.forks
        )
        return {
            host.name: Result.of_down(result) if isinstance(result, HostDown) else result
            for host, result in results.items()
        }

    def _reboot_host(self, host: Host, on: Acting) -> Result:
        """Reboot a host, and wait until its boot id has changed. Raises HostFailed."""
        agent = on.fleet.agents[host]
        began = time.monotonic()
        request = {"password": on.password}
        old_boot = agent.call("play.reboot.begin", request, timeout=SILENCE).done.read(BootFound)
        on.say(host.name, "reboots")
        while time.monotonic() - began < self.timeout:
            time.sleep(_PAUSE)
            try:
                boot = on.fleet.reconnect(host).call("play.reboot.boot_id").done.read(BootFound)
            except IpexctlError:
                continue
            if boot != old_boot:
                return Result(State.CHANGED, f"back after {time.monotonic() - began:.0f} s")
        raise HostFailed(
            f"{host.name}: did not come back within {self.timeout:.0f} s of its reboot",
            why="it does not answer, or did not reboot",
            hint="look at its console; then the same command with --from the step after this one",
            slug="reboot-timeout",
        )
