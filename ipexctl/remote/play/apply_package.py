"""The step `package`: the package manager is asked for installed versions before and after."""

import os
import re
import shutil
import time

from ipexctl.remote.failure import Failure

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from ipexctl.remote.play.task import Result, Task

LOCK_WAIT = 120  # seconds for another process that has the manager's lock; in the docs, too
LOCK_PAUSE = 3.0
# Messages of package managers, in English: see `variables`.
_LOCKED = "Could not get lock"
_OLD_LISTS = re.compile(
    "Unable to locate package|no installation candidate|was not found|404 |unmet dependencies|"
    "find a match|[Nn]o match for argument|[Nn]o provider of|not found in package names"
)


class Manager:
    """The commands of a package manager. `versions` prints "installed NAME VERSION" for each
    installed package."""

    def __init__(
        self,
        name: str,
        program: str,
        versions: "list[str]",
        install: "list[str]",
        latest: "list[str]",
        remove: "list[str]",
        update: "list[str]",
    ) -> None:
        self.name = name
        self.program = program
        self.versions = versions
        self.install, self.latest, self.remove = install, latest, remove
        self.update = update


_APT = ["apt-get", "-y", "-q"]
_INSTALL = _APT + [
    "-o",
    "Dpkg::Options::=--force-confdef",
    "-o",
    "Dpkg::Options::=--force-confold",
    "install",
]
_DNF = ["dnf", "-y", "-q"]
_RPM = ["rpm", "-q", "--qf", "installed %{NAME} %{EVR}\n"]
MANAGERS = (
    Manager(
        name="apt",
        program="apt-get",
        versions=["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Version}\n"],
        install=_INSTALL,
        latest=_INSTALL,
        remove=_APT + ["remove"],
        update=_APT + ["-o", "APT::Update::Error-Mode=any", "update"],
    ),
    Manager(
        name="dnf",
        program="dnf",
        versions=_RPM,
        install=_DNF + ["install"],
        latest=_DNF + ["install", "--best"],
        remove=_DNF + ["remove"],
        update=_DNF + ["makecache"],
    ),
    Manager(
        name="zypper",
        program="zypper",
        versions=_RPM,
        install=["zypper", "-n", "-q", "install"],
        latest=["zypper", "-n", "-q", "update"],
        remove=["zypper", "-n", "-q", "remove"],
        update=["zypper", "-n", "-q", "refresh"],
    ),
)


def manager_variables() -> "dict[str, str]":
    variables = dict(os.environ)
    variables.update({"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C", "NEEDRESTART_MODE": "a"})
    variables["ZYPP_LOCK_TIMEOUT"] = str(LOCK_WAIT)
    variables["PATH"] = variables.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
    return variables


def apply(task: "Task") -> "Result":
    args = task.args
    names, state = args["name"], args["state"]
    task.reads = task.writes = ["packages"]
    manager = manager_of(args["use"])
    before = query_installed(task, manager, names)
    packages = packages_to_change(names, before, state)
    if task.check:
        return _predict_change(packages, state)
    if args["update_cache"]:
        code, out = _run(task, manager.update)
        if code:
            raise _failure(manager, code, out)
    if state == "latest":
        packages = names
    if packages:
        command = {"absent": manager.remove, "latest": manager.latest}.get(state, manager.install)
        _change_packages(task, manager, command + list(packages), args["update_cache"])
    after = query_installed(task, manager, names)
    missing = packages_to_change(names, after, state)
    if missing:
        problem = "still installed" if state == "absent" else "not installed"
        raise Failure(
            "%s succeeded, but %s: %s" % (manager.name, problem, ", ".join(missing)),
            slug="package-not-changed",
        )
    return before != after, describe_changes(before, after), ""


def manager_of(use: str) -> "Manager":
    for manager in MANAGERS:
        if use in ("auto", manager.name) and shutil.which(
            manager.program, path=manager_variables()["PATH"]
        ):
            return manager
    names = ", ".join(manager.name for manager in MANAGERS) if use == "auto" else use
    raise Failure(
        "no supported package manager on this host (%s)" % names, slug="package-manager-missing"
    )


def query_installed(task: "Task", manager: "Manager", names: "list[str]") -> "dict[str, str]":
    """Return {name: version}."""
    plain = [re.split("[=<>:]", name)[0] for name in names]
    _, out = task.program(manager.versions + plain, manager_variables(), quiet=True)
    rows = [line.split() for line in out.splitlines()]
    return {row[1]: row[2] for row in rows if len(row) == 3 and row[0] == "installed"}


def packages_to_change(names: "list[str]", installed: "dict[str, str]", state: str) -> "list[str]":
    """Return the packages that have to be changed, as far as versions show it."""
    return [name for name in names if _is_there(name, installed) == (state == "absent")]


def _is_there(name: str, installed: "dict[str, str]") -> bool:
    plain, sign, version = re.split("([=<>~]+|$)", name, maxsplit=1)
    current = installed.get(plain.split(":")[0])
    if current is None:
        return False
    return sign != "=" or current == version or current.split("-")[0] == version


def _predict_change(names: "list[str]", state: str) -> "Result":
    if names:
        return True, "%s %s" % ("remove" if state == "absent" else "install", ", ".join(names)), ""
    if state == "latest":
        return None, "a newer version may exist", ""
    return False, "", ""


def _change_packages(task: "Task", manager: "Manager", command: "list[str]", updated: bool) -> None:
    """Run the package manager; if it finds no package, update its lists and try once more."""
    if manager.name == "dnf":  # numactl=2.0 is numactl-2.0 there
        command = [word if word[:1] == "-" else word.replace("=", "-", 1) for word in command]
    code, out = _run(task, command)
    if code and not updated and _OLD_LISTS.search(out):
        task.say("%s does not find all of them; updating the package lists" % manager.name)
        failed, lists = _run(task, manager.update)
        code, out = _run(task, command)
        out = lists + "\n" + out if failed else out
    if code:
        raise _failure(manager, code, out)


def _run(task: "Task", command: "list[str]") -> "tuple[int, str]":
    """Return (exit code, output). dnf and zypper wait for a lock themselves; apt is run again."""
    end, waits = time.monotonic() + LOCK_WAIT, False
    while True:
        code, out = task.program(command, manager_variables(), quiet=waits)
        if not code or _LOCKED not in out or time.monotonic() >= end:
            return code, out
        if not waits:
            task.say("waiting up to %g s for the lock" % LOCK_WAIT)
        waits = True
        time.sleep(LOCK_PAUSE)


def _failure(manager: "Manager", code: int, out: str) -> "Failure":
    return Failure(
        "%s failed (exit %d)" % (manager.name, code),
        out[-1500:],
        "sudo: true" if os.geteuid() else "",
        slug="package-manager-failed",
    )


def describe_changes(before: "dict[str, str]", after: "dict[str, str]") -> str:
    changes = []
    for name in sorted(set(before) | set(after)):
        old, new = before.get(name), after.get(name)
        if old != new:
            changes.append(
                "%s removed" % name
                if new is None
                else "%s %s" % (name, new)
                if old is None
                else "%s %s -> %s" % (name, old, new)
            )
    return ", ".join(changes)
