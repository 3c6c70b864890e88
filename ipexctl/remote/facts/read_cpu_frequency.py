"""Read governors, turbo, caps and heat. Per-CPU settings are read from a sample."""

from ipexctl.common.tolerant_reads import names_in
from ipexctl.remote.facts.probe_values import parse_number

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from ipexctl.remote.facts.read_cpu import CpuRow

    Item = TypeVar("Item")


SAMPLE = 16  # of several hundred equal policies


def read_power(fs: str, read: "Callable[[str], str]", cpus: "list[CpuRow]") -> "dict[str, Any]":
    base = "/sys/devices/system/cpu"
    policies = sorted(names_in(fs + base + "/cpufreq"))
    paths = [base + "/cpufreq/" + n for n in policies if n.startswith("policy")]
    if not paths and read(base + "/cpu0/cpufreq/scaling_driver"):
        paths = ["%s/cpu%d/cpufreq" % (base, row[0]) for row in cpus]
    paths = _sample_of(paths)
    rows = []
    for path in paths:
        settings = ("scaling_governor", "energy_performance_preference")
        rows.append([read(path + "/" + name) for name in settings])
    status = read(base + "/intel_pstate/status") or read(base + "/amd_pstate/status")
    driver = read(paths[0] + "/scaling_driver") if paths else ""
    no_turbo, boost = read(base + "/intel_pstate/no_turbo"), read(base + "/cpufreq/boost")
    if driver == "cppc_cpufreq" and not _can_boost(read, base, cpus):
        boost = ""  # the file exists even if the CPU cannot boost
    return {
        "driver": driver,
        "status": status,
        "governors": sorted({r[0] for r in rows if r[0]}),
        "preferences": sorted({r[1] for r in rows if r[1]}),
        "turbo": no_turbo == "0" if no_turbo else boost == "1" if boost else None,
        "max_khz": parse_number(read(paths[0] + "/scaling_max_freq")) if paths else None,
        "hardware_khz": parse_number(read(paths[0] + "/cpuinfo_max_freq")) if paths else None,
        "throttled": _throttled(read, base, cpus),
    }


def _can_boost(read: "Callable[[str], str]", base: str, cpus: "list[CpuRow]") -> bool:
    """Decide whether the firmware reports a boost: on most ARM servers it does not."""
    folder = "%s/cpu%d/acpi_cppc/" % (base, cpus[0][0] if cpus else 0)
    highest, nominal = (
        parse_number(read(folder + "highest_perf")),
        parse_number(read(folder + "nominal_perf")),
    )
    return highest is not None and nominal is not None and highest > nominal


def _throttled(read: "Callable[[str], str]", base: str, cpus: "list[CpuRow]") -> "int | None":
    """Count how often since boot a package or a sampled core was too hot; None: not counted."""
    first = cpus[0][0] if cpus else 0
    if not read("%s/cpu%d/thermal_throttle/core_throttle_count" % (base, first)):
        return None
    sockets = {row[2]: row[0] for row in reversed(cpus)}
    cores = _sample_of(sorted({row[0]: row for row in cpus if row[0] == row[1]}))
    where = [("package", cpu) for cpu in sockets.values()] + [("core", cpu) for cpu in cores]
    path = base + "/cpu%d/thermal_throttle/%s_throttle_count"
    return sum(parse_number(read(path % (cpu, unit))) or 0 for unit, cpu in where)


def _sample_of(items: "list[Item]") -> "list[Item]":
    """Return at most SAMPLE of the items, evenly spread."""
    step = max(1, -(-len(items) // SAMPLE))
    return items[::step]
