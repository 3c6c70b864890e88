"""The step `package`: what is installed is asked of the manager before and after."""

import os
import re
import shutil

from ipexctl.remote.failure import Failure
from ipexctl.remote.plays.task import result

LOCK_WAIT = 120  # seconds for another process that has the manager's lock


class Manager:
    """A package manager as the commands that it takes. {} stands for the names."""

    def __init__(self, name, program, versions, install, latest, remove, update, pending):
        self.name = name
        self.program = program
        self.versions = versions  # prints NAME VERSION of what is installed
        self.install, self.latest, self.remove = install, latest, remove
        self.update = update
        self.pending = pending  # prints what `latest` would change; None: that cannot be known

    def query(self, task, names):
        """{name: version} of those that are installed."""
        plain = [re.split("[=<>]", name)[0] for name in names]
        _, out = task.program(self.versions + plain, variables(), quiet=True)
        found = {}
        for line in out.splitlines():
            words = line.split()
            if len(words) == 2 and words[0] in plain:
                found[words[0]] = words[1]
        return found


_APT = ["apt-get", "-y", "-q", "-o", "DPkg::Lock::Timeout=%d" % LOCK_WAIT]
_NO_ASK = ["-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold"]
_RPM = ["rpm", "-q", "--qf", "%{NAME} %{EVR}\n"]
MANAGERS = (
    Manager(
        "apt", "apt-get",
        ["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Version}\n"],
        _APT + _NO_ASK + ["install"], _APT + _NO_ASK + ["install"], _APT + ["remove"],
        _APT + ["update"], ["apt-get", "-s", "-q", "install"],
    ),
    Manager(
        "dnf", "dnf", _RPM, ["dnf", "-y", "-q", "install"],
        ["dnf", "-y", "-q", "install", "--best"], ["dnf", "-y", "-q", "remove"],
        ["dnf", "-y", "-q", "makecache"], None,
    ),
    Manager(
        "zypper", "zypper", _RPM, ["zypper", "-n", "-q", "install"],
        ["zypper", "-n", "-q", "update"], ["zypper", "-n", "-q", "remove"],
        ["zypper", "-n", "-q", "refresh"], None,
    ),
    Manager(
        "apk", "apk", ["apk", "list", "-I"], ["apk", "add", "-q"], ["apk", "add", "-q", "-u"],
        ["apk", "del", "-q"], ["apk", "update", "-q"], ["apk", "add", "-s", "-u"],
    ),
)  # fmt: skip


def variables():
    own = dict(os.environ)
    own.update({"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C", "NEEDRESTART_MODE": "a"})
    own["PATH"] = own.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
    return own


def apply(task):
    args = task.args
    manager, names = manager_of(args["use"]), args["name"]
    before = installed(task, manager, names)
    uses = {"reads": ["packages"], "writes": ["packages"]}
    wanted = needed(names, before, args["state"])
    if task.check:
        return _expected(task, manager, names, before, wanted, uses)
    if args["update_cache"]:
        _do(task, manager, manager.update, [])
    if args["state"] == "latest":
        wanted = names
    if wanted:
        _change(task, manager, args["state"], wanted, args["update_cache"])
    after = installed(task, manager, names)
    missing = needed(names, after, args["state"])
    if missing:
        state = "still installed" if args["state"] == "absent" else "not installed"
        raise Failure("%s succeeded, but %s: %s" % (
            manager.name, state, ", ".join(missing)))  # fmt: skip
    return result(before != after, describe(before, after), **uses)


def manager_of(use):
    for manager in MANAGERS:
        if use in ("auto", manager.name) and shutil.which(
            manager.program, path=variables()["PATH"]
        ):
            return manager
    known = ", ".join(manager.name for manager in MANAGERS) if use == "auto" else use
    raise Failure("no supported package manager on this host (%s)" % known)


def installed(task, manager, names):
    if manager.name == "apk":
        return _apk_installed(task, manager, names)
    if manager.name != "apt":
        return manager.query(task, names)
    plain = [re.split("[=:]", name)[0] for name in names]
    _, out = task.program(manager.versions + plain, variables(), quiet=True)
    rows = [line.split() for line in out.splitlines()]
    return {row[1]: row[2] for row in rows if len(row) == 3 and row[0] == "installed"}


def _apk_installed(task, manager, names):
    """Lines as: numactl-2.0.16-r5 x86_64 {numactl} (LGPL) [installed]"""
    plain = [re.split("[=<>~]", name)[0] for name in names]
    _, out = task.program(manager.versions + plain, variables(), quiet=True)
    found = {}
    for line in out.splitlines():
        match = re.match(r"(\S+)-(\d\S*-r\d+) .*\[installed", line)
        if match:
            found[match.group(1)] = match.group(2)
    return found


def needed(names, there, state):
    """Those that are to be changed, as far as their versions say it."""
    return [name for name in names if _is_there(name, there) == (state == "absent")]


def _is_there(name, there):
    plain, sign, version = re.split("([=<>~]+|$)", name, maxsplit=1)
    found = there.get(plain.split(":")[0])
    if found is None:
        return False
    return sign != "=" or found == version or found.split("-")[0] == version


def _change(task, manager, state, names, updated):
    if state == "absent":
        _do(task, manager, manager.remove, names)
        return
    command = manager.latest if state == "latest" else manager.install
    try:
        _do(task, manager, command, names)
    except Failure:
        if updated:
            raise
        task.say("%s does not find all of them; updating the package lists" % manager.name)
        _do(task, manager, manager.update, [])
        _do(task, manager, command, names)


def _do(task, manager, command, names):
    if manager.name == "dnf":  # numactl=2.0 is numactl-2.0 there
        names = [name.replace("=", "-", 1) for name in names]
    code, out = task.program(command + list(names), variables())
    if code:
        words = " ".join(command + list(names))
        hint = "sudo: true" if os.geteuid() else "on the host, as root: " + words
        raise Failure("%s failed (exit %d)" % (manager.name, code), _errors(out), hint)


def _errors(out):
    lines = out.splitlines()
    told = [line for line in lines if line.startswith(("E:", "Error:", "ERROR:", "error:"))]
    return "\n".join((told or lines)[-6:])


def _expected(task, manager, names, before, wanted, uses):
    if wanted or task.args["state"] != "latest":
        verb = "remove" if task.args["state"] == "absent" else "install"
        return result(bool(wanted), "%s %s" % (verb, ", ".join(wanted)) if wanted else "", **uses)
    if manager.pending is None:
        return result(
            None, "%s does not report whether newer versions exist" % manager.name, **uses
        )
    _, out = task.program(manager.pending + list(names), variables(), quiet=True)
    due = re.search(r"^(?:Inst |\(\d+/\d+\) )", out, re.M)
    return result(
        True if due else None, ("newest according to the last update of the package lists"), **uses
    )


def describe(before, after):
    parts = []
    for name in sorted(set(before) | set(after)):
        old, new = before.get(name), after.get(name)
        if old != new:
            parts.append(
                "%s removed" % name if new is None
                else "%s %s" % (name, new) if old is None else "%s %s -> %s" % (name, old, new)
            )  # fmt: skip
    return ", ".join(parts)
