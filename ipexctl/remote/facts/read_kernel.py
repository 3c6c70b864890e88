"""Read the settings of the kernel that concern memory."""

from ipexctl.remote.facts.probe_values import parse_number

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable
    from typing import Any


def read_kernel(read: "Callable[[str], str]") -> "dict[str, Any]":
    huge = read("/sys/kernel/mm/transparent_hugepage/enabled")
    return {
        "thp": huge.partition("[")[2].partition("]")[0],
        "numa_balancing": parse_number(read("/proc/sys/kernel/numa_balancing")),
        "zone_reclaim": parse_number(read("/proc/sys/vm/zone_reclaim_mode")),
        "overcommit": parse_number(read("/proc/sys/vm/overcommit_memory")),
        "swappiness": parse_number(read("/proc/sys/vm/swappiness")),
    }
