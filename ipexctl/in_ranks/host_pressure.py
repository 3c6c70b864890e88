"""What holds up a rank from outside: its control group's quota, heat, a hypervisor.

The script of `ipexctl bench allreduce` prints it beside what it measures;
ipexctl/bench/host_reasons.py reads it.
"""

import glob
import os
import time


def throttled_seconds():
    """For which the control group of this process, or one above it, was paused for its quota."""
    found = None
    for path in control_groups():
        try:
            with open(os.path.join(path, "cpu.stat")) as file:
                values = dict(line.split()[:2] for line in file if len(line.split()) == 2)
        except (OSError, ValueError):
            continue
        for name, unit in (("throttled_usec", 1e6), ("throttled_time", 1e9)):
            if values.get(name, "").isdigit():
                found = max(found or 0.0, int(values[name]) / unit)
    return found


def control_groups():
    try:
        with open("/proc/self/cgroup") as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return
    for parts in lines:
        if len(parts) != 3 or not (parts[1] == "" or "cpu" in parts[1].split(",")):
            continue
        top = "/sys/fs/cgroup" if parts[1] == "" else "/sys/fs/cgroup/" + parts[1]
        path = parts[2].rstrip("/")
        while True:
            yield top + path
            if not path:
                break
            path = path.rpartition("/")[0]


def heat():
    """How often the cores were throttled since boot; None on machines that do not count it."""
    pattern = "/sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/core_throttle_count"
    counts = []
    for path in glob.glob(pattern)[:256]:
        try:
            with open(path) as file:
                counts.append(int(file.read()))
        except (OSError, ValueError):
            continue
    return sum(counts) if counts else None


def machine_times():
    """Seconds since boot in which CPUs were taken by the hypervisor, and in all."""
    try:
        with open("/proc/stat") as file:
            times = [int(word) / 100.0 for word in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return None, None
    return (times[7], sum(times)) if len(times) == 8 else (None, None)


def since(now, before):
    return None if now is None or before is None else max(0, now - before)


def share(part, of):
    return None if part is None or not of else min(1.0, max(0.0, part / of))


class Pressure(object):
    """From its start on."""

    def __init__(self):
        self.before = self.counts()

    @staticmethod
    def counts():
        return (time.perf_counter(), time.process_time(), throttled_seconds(), heat()) + (
            machine_times()
        )

    def found(self):
        """As fields of a line."""
        passed = map(since, self.counts(), self.before)
        seconds, own, throttled, hot, stolen, total = passed
        return {
            "seconds": seconds,
            "cpus": own / max(seconds, 1e-6),
            "throttled": throttled,
            "heat": hot,
            "stolen": share(stolen, total),
        }


def available():
    """Bytes of memory that this host can still give."""
    try:
        with open("/proc/meminfo") as file:
            return next(int(r.split()[1]) << 10 for r in file if r.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError, IndexError):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
