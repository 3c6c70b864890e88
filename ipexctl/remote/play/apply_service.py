"""The step `service`: units of systemd."""

import os
import shutil

from ipexctl.remote.failure import Failure

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from ipexctl.remote.play.task import Result, Task

_ACTIVE = ("active", "activating", "reloading")
_ENABLED = ("enabled", "enabled-runtime", "alias", "static", "indirect", "generated")


def apply(task: "Task") -> "Result":
    args = task.args
    name = args["name"] if "." in args["name"] else args["name"] + ".service"
    task.reads, task.writes = ["service:" + name, "packages"], ["service:" + name]
    if not shutil.which("systemctl") or not os.path.isdir("/run/systemd/system"):
        raise Failure(
            "systemd does not run on this host, so %s cannot be managed" % name,
            hint="sh with unless, for another service manager",
            slug="systemd-missing",
        )
    if args["daemon_reload"] and not task.check:
        _systemctl(task, "daemon-reload")
    properties = _show(task, name)
    if properties.get("LoadState") == "not-found":
        raise Failure(
            "there is no unit %s" % name,
            hint="a step before: package: PACKAGE",
            slug="unit-missing",
        )
    changes = []
    enabled = properties.get("UnitFileState") in _ENABLED
    if args["enabled"] is not None and args["enabled"] != enabled:
        changes.append("enable" if args["enabled"] else "disable")
    active = properties.get("ActiveState") in _ACTIVE
    state = args["state"]
    if state == "started" and not active:
        changes.append("start")
    elif state == "stopped" and active:
        changes.append("stop")
    elif state in ("restarted", "reloaded"):
        changes.append("restart" if state == "restarted" or not active else "reload")
    for change in [] if task.check else changes:
        _systemctl(task, change, name)
    return bool(changes), ", ".join(changes), ""


def _show(task: "Task", name: str) -> "dict[str, str]":
    _, out = task.program(
        ["systemctl", "show", "-p", "LoadState,ActiveState,UnitFileState", name], quiet=True
    )
    return dict(line.split("=", 1) for line in out.splitlines() if "=" in line)


def _systemctl(task: "Task", *words: str) -> None:
    code, out = task.program(["systemctl", "--no-ask-password"] + list(words), quiet=True)
    if code:
        hint = "sudo: true" if os.geteuid() else "journalctl -xeu %s" % words[-1]
        raise Failure(
            "systemctl %s failed (exit %d)" % (" ".join(words), code),
            out[-1500:],
            hint,
            slug="systemctl-failed",
        )
