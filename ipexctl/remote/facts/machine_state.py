"""Read how the machine is set: frequencies, kernel switches, limits, sessions, containers.

Many small files are read; most machines lack some. Per-CPU settings are read from a sample.
"""

import os
import sys

from ipexctl.common.processes import stat_of
from ipexctl.common.tolerant_reads import names_in
from ipexctl.remote.facts.cpus_and_memory import parse_number

SAMPLE = 16  # of several hundred equal policies
PRACTICE = "ipexctl lab"
SIF = ("APPTAINER", "SINGULARITY")  # new versions set both, older ones only the second


def read_state(read, fs, groups, cpus):
    live = not fs

    def of(path):
        return read(fs + path).strip()

    return {
        "power": _power(fs, of, cpus),
        "kernel": _kernel(of),
        "limits": _limits(groups, live),
        "system": _system(fs, of, live),
    }


# --- frequencies ---------------------------------------------------------------------------------


def _power(fs, of, cpus):
    base = "/sys/devices/system/cpu"
    policies = sorted(names_in(fs + base + "/cpufreq"))
    paths = [base + "/cpufreq/" + n for n in policies if n.startswith("policy")]
    if not paths and of(base + "/cpu0/cpufreq/scaling_driver"):
        paths = ["%s/cpu%d/cpufreq" % (base, row[0]) for row in cpus]
    paths = _sample_of(paths)
    rows = []
    for path in paths:
        settings = ("scaling_governor", "energy_performance_preference")
        rows.append([of(path + "/" + name) for name in settings])
    status = of(base + "/intel_pstate/status") or of(base + "/amd_pstate/status")
    driver = of(paths[0] + "/scaling_driver") if paths else ""
    no_turbo, boost = of(base + "/intel_pstate/no_turbo"), of(base + "/cpufreq/boost")
    if driver == "cppc_cpufreq" and not _can_boost(of, base, cpus):
        boost = ""  # the file exists even if the CPU cannot boost
    return {
        "driver": driver,
        "status": status,
        "governors": sorted({r[0] for r in rows if r[0]}),
        "preferences": sorted({r[1] for r in rows if r[1]}),
        "turbo": no_turbo == "0" if no_turbo else boost == "1" if boost else None,
        "max_khz": parse_number(of(paths[0] + "/scaling_max_freq")) if paths else None,
        "hardware_khz": parse_number(of(paths[0] + "/cpuinfo_max_freq")) if paths else None,
        "throttled": _throttled(of, base, cpus),
    }


def _can_boost(of, base, cpus):
    """Decide whether the firmware reports a boost: on most ARM servers it does not."""
    folder = "%s/cpu%d/acpi_cppc/" % (base, cpus[0][0] if cpus else 0)
    highest, nominal = (
        parse_number(of(folder + "highest_perf")),
        parse_number(of(folder + "nominal_perf")),
    )
    return highest is not None and nominal is not None and highest > nominal


def _throttled(of, base, cpus):
    """Count how often since boot a package or a sampled core was too hot; None: not counted."""
    if not of("%s/cpu%d/thermal_throttle/core_throttle_count" % (base, cpus[0][0] if cpus else 0)):
        return None
    sockets = {row[2]: row[0] for row in reversed(cpus)}
    cores = _sample_of(sorted({row[0]: row for row in cpus if row[0] == row[1]}))
    where = [("package", cpu) for cpu in sockets.values()] + [("core", cpu) for cpu in cores]
    path = base + "/cpu%d/thermal_throttle/%s_throttle_count"
    return sum(parse_number(of(path % (cpu, what))) or 0 for what, cpu in where)


def _sample_of(items):
    """Return at most SAMPLE of the items, evenly spread."""
    step = max(1, -(-len(items) // SAMPLE))
    return items[::step]


# --- kernel and limits ---------------------------------------------------------------------------


def _kernel(of):
    huge = of("/sys/kernel/mm/transparent_hugepage/enabled")
    return {
        "thp": huge.partition("[")[2].partition("]")[0],
        "numa_balancing": parse_number(of("/proc/sys/kernel/numa_balancing")),
        "zone_reclaim": parse_number(of("/proc/sys/vm/zone_reclaim_mode")),
        "overcommit": parse_number(of("/proc/sys/vm/overcommit_memory")),
        "swappiness": parse_number(of("/proc/sys/vm/swappiness")),
    }


def _limits(groups, live):
    limits = {"pids": groups["pids"]}
    if live:
        import resource

        for name, limit in (
            ("nofile", resource.RLIMIT_NOFILE),
            ("nproc", resource.RLIMIT_NPROC),
            ("file_size", resource.RLIMIT_FSIZE),
            ("stack", resource.RLIMIT_STACK),
            ("address_space", resource.RLIMIT_AS),
            ("cpu_seconds", resource.RLIMIT_CPU),
        ):
            limits[name] = list(resource.getrlimit(limit))  # [soft, hard]; -1: no limit
    return limits


# --- the system around us ------------------------------------------------------------------------


def _system(fs, of, live):
    env = os.environ if live else {}
    systemd = os.path.isdir(fs + "/run/systemd/system")
    logind = _logind(fs, of) if systemd else {}
    return {
        "bits": 64 if sys.maxsize > 1 << 32 else 32,
        "container": _container(fs, of, env),
        "netns": _inode("/proc/self/ns/net") if live else None,
        "login_shell": _shell() if live else "",
        "login_ms": _login_ms() if live else None,
        "session": bool(env.get("XDG_SESSION_ID")) and systemd if live else None,
        "kill_user_processes": _is_yes(logind.get("KillUserProcesses", "no")) if systemd else None,
        "remove_ipc": _is_yes(logind.get("RemoveIPC", "yes")) if systemd else None,
        "linger": _linger(fs) if systemd and live else None,
    }


def _shell():
    import pwd

    try:
        return os.path.basename(pwd.getpwuid(os.getuid()).pw_shell)
    except KeyError:
        return ""


def _login_ms():
    """Return milliseconds from the login shell's start to this Python's: its start-up files.

    The shell has become the sh that is the parent process.
    """
    try:
        began, now = (int(stat_of(pid)[1][19]) for pid in (os.getppid(), "self"))
    except (IndexError, ValueError):  # the parent is in another PID namespace, or gone
        return None
    return max(0, now - began) * 1000 // os.sysconf("SC_CLK_TCK")


def _container(fs, of, env):
    """Return docker, podman, kubernetes, lxc, ...; "" outside of containers."""
    told = of("/run/systemd/container")  # written by the container manager, also by ipexctl's lab
    if told == PRACTICE:
        return told
    if env.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    if os.path.exists(fs + "/run/.containerenv"):
        return "podman"
    if os.path.exists(fs + "/.dockerenv"):
        return "docker"
    groups = of("/proc/1/cgroup")
    marks = ("kubepods", "docker", "libpod", "lxc", "garden", "apptainer")
    for mark in marks:
        if "/" + mark in groups:
            return "kubernetes" if mark == "kubepods" else mark
    if told and told != "wsl":
        return told
    return next((name.lower() for name in SIF if name + "_CONTAINER" in env), "")


def _logind(fs, of):
    """Return the settings of logind.conf and its drop-in files; the last of each name counts."""
    said = {}
    files = []
    for folder in ("/usr/lib/systemd", "/etc/systemd"):
        files.append(folder + "/logind.conf")
        there = folder + "/logind.conf.d"
        files += [there + "/" + n for n in sorted(names_in(fs + there)) if n.endswith(".conf")]
    for path in files:
        for line in of(path).splitlines():
            name, equals, value = line.partition("=")
            if equals:
                said[name.strip()] = value.strip()
    return said


def _linger(fs):
    try:
        import pwd

        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return None
    return os.path.exists(fs + "/var/lib/systemd/linger/" + user)


def _is_yes(text):
    return text.lower() in ("yes", "true", "on", "1", "y", "t")


def _inode(path):
    try:
        return os.stat(path).st_ino
    except OSError:
        return None
