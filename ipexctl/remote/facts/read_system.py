"""Read the operating system of this host, its container, and how logins are set."""

import os
import sys

from ipexctl.common.processes import stat_of
from ipexctl.common.tolerant_reads import names_in, read_text

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable, Mapping
    from typing import Any


PRACTICE = "ipexctl lab"
SIF = ("APPTAINER", "SINGULARITY")  # new versions set both, older ones only the second


def read_operating_system(fs: str, home: str) -> "dict[str, Any]":
    uname = os.uname()
    release = {}
    for line in (read_text("/etc/os-release") or read_text("/usr/lib/os-release")).splitlines():
        name, _, value = line.partition("=")
        release[name] = value.strip().strip("\"'")
    return {
        "kernel": uname.sysname + " " + uname.release,
        "os_name": release.get("PRETTY_NAME") or release.get("NAME", ""),
        "os_ids": (release.get("ID", "") + " " + release.get("ID_LIKE", "")).split(),
        "libc": _libc(),
        "user": _user(),
        "uid": os.getuid(),
        "home": home,
        "boot_id": read_text(fs + "/proc/sys/kernel/random/boot_id").strip(),
    }


def _libc() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError):
        pass
    return "musl" if any(n.startswith("ld-musl") for n in names_in("/lib")) else ""


def _user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return ""


def read_system(fs: str, read: "Callable[[str], str]", live: bool) -> "dict[str, Any]":
    env = os.environ if live else {}
    systemd = os.path.isdir(fs + "/run/systemd/system")
    logind = _logind(fs, read) if systemd else {}
    return {
        "bits": 64 if sys.maxsize > 1 << 32 else 32,
        "container": _container(fs, read, env),
        "netns": _inode("/proc/self/ns/net") if live else None,
        "login_shell": _shell() if live else "",
        "login_ms": _login_ms() if live else None,
        "session": bool(env.get("XDG_SESSION_ID")) and systemd if live else None,
        "kill_user_processes": _is_yes(logind.get("KillUserProcesses", "no")) if systemd else None,
        "remove_ipc": _is_yes(logind.get("RemoveIPC", "yes")) if systemd else None,
        "linger": _linger(fs) if systemd and live else None,
    }


def _container(fs: str, read: "Callable[[str], str]", env: "Mapping[str, str]") -> str:
    """Return docker, podman, kubernetes, lxc, ...; "" outside of containers."""
    kind = read("/run/systemd/container")  # written by the container manager, also by ipexctl's lab
    if kind == PRACTICE:
        return kind
    if env.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    if os.path.exists(fs + "/run/.containerenv"):
        return "podman"
    if os.path.exists(fs + "/.dockerenv"):
        return "docker"
    groups = read("/proc/1/cgroup")
    marks = ("kubepods", "docker", "libpod", "lxc", "garden", "apptainer")
    for mark in marks:
        if "/" + mark in groups:
            return "kubernetes" if mark == "kubepods" else mark
    if kind and kind != "wsl":
        return kind
    return next((name.lower() for name in SIF if name + "_CONTAINER" in env), "")


def _inode(path: str) -> "int | None":
    try:
        return os.stat(path).st_ino
    except OSError:
        return None


# --- logins ---------------------------------------------------------------------------------------


def _shell() -> str:
    import pwd

    try:
        return os.path.basename(pwd.getpwuid(os.getuid()).pw_shell)
    except KeyError:
        return ""


def _login_ms() -> "int | None":
    """Return milliseconds from the login shell's start to this Python's: its start-up files.

    The shell has become the sh that is the parent process.
    """
    try:
        began, now = (int(stat_of(pid)[1][19]) for pid in (os.getppid(), "self"))
    except (IndexError, ValueError):  # the parent is in another PID namespace, or gone
        return None
    return max(0, now - began) * 1000 // os.sysconf("SC_CLK_TCK")


def _logind(fs: str, read: "Callable[[str], str]") -> "dict[str, str]":
    """Return the settings of logind.conf and its drop-in files; the last of each name counts."""
    settings = {}
    files = []
    for folder in ("/usr/lib/systemd", "/etc/systemd"):
        files.append(folder + "/logind.conf")
        extra = folder + "/logind.conf.d"
        files += [extra + "/" + n for n in sorted(names_in(fs + extra)) if n.endswith(".conf")]
    for path in files:
        for line in read(path).splitlines():
            name, equals, value = line.partition("=")
            if equals:
                settings[name.strip()] = value.strip()
    return settings


def _linger(fs: str) -> "bool | None":
    try:
        import pwd

        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return None
    return os.path.exists(fs + "/var/lib/systemd/linger/" + user)


def _is_yes(text: str) -> bool:
    return text.lower() in ("yes", "true", "on", "1", "y", "t")
