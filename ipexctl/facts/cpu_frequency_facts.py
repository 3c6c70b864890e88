"""How the frequencies of a processor are set."""

from __future__ import annotations

from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class Power:
    driver: str = ""  # intel_pstate, intel_cpufreq, amd-pstate-epp, acpi-cpufreq, ...
    status: str = ""  # of intel_pstate or amd_pstate: active, passive, guided
    governors: tuple[str, ...] = ()  # all that are in use
    preferences: tuple[str, ...] = ()  # energy_performance_preference, all that are in use
    turbo: bool | None = None
    max_khz: int | None = None  # what software allows
    hardware_khz: int | None = None  # what the processor could
    throttled: int | None = None  # times since boot, in a sample of the cores
