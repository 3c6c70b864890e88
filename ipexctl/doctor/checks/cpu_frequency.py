"""Frequencies: governor, turbo, caps and heat. Most virtual machines do not report these."""

from __future__ import annotations

from ipexctl.doctor.checks.registry import Evidence, host_check
from ipexctl.doctor.report.finding import Severity, Shell, do, sudo, write_line
from ipexctl.facts.cpu_frequency_facts import Power
from ipexctl.facts.facts import Facts

_CPUFREQ = "/sys/devices/system/cpu/cpufreq"
FASTEST = Shell(
    f"echo performance | sudo tee {_CPUFREQ}/policy*/scaling_governor",
    needs_root=True,
    unattended=True,
)
_INTEL = "intel_pstate", "intel_cpufreq"  # one driver: its active and its passive mode
_FIRMWARE = "   (or in the firmware)"
_TURBO = do(write_line("0", "/sys/devices/system/cpu/intel_pstate/no_turbo"), _FIRMWARE)
_BOOST = do(write_line("1", f"{_CPUFREQ}/boost"), _FIRMWARE)


@host_check(
    "PWR-001",
    title="the governor keeps the processor at its lowest frequency",
    severity=Severity.WARN,
    seen="the governor is powersave, and no driver that chooses frequencies itself is active",
    why="powersave means the lowest frequency, unless intel_pstate or amd-pstate-epp is active "
    "(there it is the normal, adaptive mode). Steps take two to four times as long.",
    fix=FASTEST,
)
def slow_governor(facts: Facts) -> Evidence | None:
    power = facts.condition.power
    if "powersave" not in power.governors or _is_adaptive_powersave(power):
        return None
    return Evidence(f"powersave with {power.driver or 'an unknown driver'}")


@host_check(
    "PWR-002",
    title="turbo is off",
    severity=Severity.WARN,
    seen="intel_pstate/no_turbo is 1, or cpufreq/boost is 0 (cppc_cpufreq: only if the CPU has "
    "boost)",
    why="The CPU stays at its base frequency: 20 to 40 % slower on most models.",
    fix=_TURBO | _BOOST,
)
def no_turbo(facts: Facts) -> Evidence | None:
    power = facts.condition.power
    if power.turbo is not False:
        return None
    fix = _TURBO if power.driver in _INTEL else _BOOST
    return (
        Evidence(f"driver {power.driver}", fix=fix) if power.driver else Evidence("driver unknown")
    )


HOT = 100  # times since boot; a few are normal


@host_check(
    "PWR-003",
    title="the CPU was throttled because of heat",
    severity=(Severity.NOTE, Severity.WARN),
    seen=f"throttling counters above 0 (warn: above {HOT}), since boot, in a sample of the cores",
    why="A throttled CPU runs far below its base frequency, and all hosts wait for it.",
    fix=do(
        "check fans, air flow and ",
        sudo("ipmitool sdr type temperature"),
        "; a reboot clears the counters",
    ),
)
def throttled(facts: Facts) -> Evidence | None:
    count = facts.condition.power.throttled
    if not count:
        return None
    severity = Severity.WARN if count > HOT else Severity.NOTE
    return Evidence(f"throttled {count} times since boot", severity=severity)


CAP = 0.9


@host_check(
    "PWR-004",
    title="the CPU frequency is capped",
    severity=Severity.WARN,
    seen="scaling_max_freq is more than 10 % below what the CPU supports",
    why="A user or a power policy lowered the upper limit.",
    fix=Shell(
        f"for p in {_CPUFREQ}/policy*; do sudo cp $p/cpuinfo_max_freq $p/scaling_max_freq; done",
        needs_root=True,
    ),
)
def capped(facts: Facts) -> Evidence | None:
    power = facts.condition.power
    if not power.max_khz or not power.hardware_khz or power.max_khz >= CAP * power.hardware_khz:
        return None
    return Evidence(f"{power.max_khz / 1e6:.1f} GHz of {power.hardware_khz / 1e6:.1f} GHz")


@host_check(
    "PWR-005",
    title="the CPU is set to save energy",
    severity=(Severity.WARN, Severity.NOTE),
    seen="energy_performance_preference is power (note: balance_power)",
    why="The CPU raises its frequency later and by less.",
    fix=Shell(
        f"echo balance_performance | sudo tee {_CPUFREQ}/policy*/energy_performance_preference",
        needs_root=True,
    ),
)
def saves_energy(facts: Facts) -> Evidence | None:
    preferences = [p for p in facts.condition.power.preferences if p in ("power", "balance_power")]
    if not preferences:
        return None
    severity = Severity.WARN if "power" in preferences else Severity.NOTE
    return Evidence(f"energy_performance_preference {', '.join(preferences)}", severity=severity)


def _is_adaptive_powersave(power: Power) -> bool:
    """Decide whether the driver adapts the frequency even under the `powersave` governor."""
    if power.driver == "intel_pstate":
        return power.status in ("", "active")  # older kernels do not report the status
    return power.driver == "amd-pstate-epp" or power.driver.startswith("amd_pstate_epp")
