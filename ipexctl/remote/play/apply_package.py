"""The step `package`: what is installed is asked of the manager before and after."""

import os
import re
import shutil
import time

from ipexctl.remote.failure import Failure
from ipexctl.remote.play.task import result

LOCK_WAIT = 120.0  # seconds for another process that has the manager's lock; in the docs, too
LOCK_PAUSE = 3.0
# What managers say; all in English, see `variables`.
_LOCKED = re.compile(
    "Could not get lock|is another process using it|System management is locked|"
    "already locked by|obtain .*lock"
)
_LOCK_LINES = re.compile(
    _LOCKED.pattern + r"|Unable to lock directory|Close this application|application with PID|"
    r"^ +(?:Memory|Started|State) *:"
)
_UNREACHED = re.compile(
    r"^(?:[EW]: |[ >-]*Curl error|\s*Error message: ).*"
    r"(?:could(?: not|n't) (?:resolve|connect)|failure resolving|Cannot initiate the connection|"
    r"connection (?:timed out|refused|failed)|failed to connect|timeout was reached|unreachable|"
    r"no route to host)",
    re.I | re.M,
)
_OLD_LISTS = re.compile(
    "Unable to locate package|no installation candidate|was not found|404 |unmet dependencies|"
    "find a match|[Nn]o match for argument|[Nn]o provider of|not found in package names"
)


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


_APT = ["apt-get", "-y", "-q", "-o", "DPkg::Lock::Timeout=0"]
_NO_ASK = ["-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold"]
_DNF = ["dnf", "-y", "--setopt=exit_on_lock=True"]
_RPM = ["rpm", "-q", "--qf", "%{NAME} %{EVR}\n"]
MANAGERS = (
    Manager(
        name="apt", program="apt-get",
        versions=["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Version}\n"],
        install=_APT + _NO_ASK + ["install"], latest=_APT + _NO_ASK + ["install"],
        remove=_APT + ["remove"], update=_APT + ["update"],
        pending=["apt-get", "-s", "-q", "install"],
    ),
    Manager(
        name="dnf", program="dnf", versions=_RPM,
        install=_DNF + ["-q", "install"], latest=_DNF + ["-q", "install", "--best"],
        remove=_DNF + ["-q", "remove"], update=_DNF + ["makecache"], pending=None,
    ),
    Manager(
        name="zypper", program="zypper", versions=_RPM, install=["zypper", "-n", "-q", "install"],
        latest=["zypper", "-n", "-q", "update"], remove=["zypper", "-n", "-q", "remove"],
        update=["zypper", "-n", "-q", "refresh"], pending=None,
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
        return _expected(task, manager, names, wanted, uses)
    if args["update_cache"]:
        _update(task, manager)
    if args["state"] == "latest":
        wanted = names
    if wanted:
        _change(task, manager, args["state"], wanted, args["update_cache"])
    after = installed(task, manager, names)
    missing = needed(names, after, args["state"])
    if missing:
        state = "still installed" if args["state"] == "absent" else "not installed"
        raise Failure("%s succeeded, but %s: %s" % (
            manager.name, state, ", ".join(missing)), slug="package-not-changed")  # fmt: skip
    return result(before != after, describe(before, after), **uses)


def manager_of(use):
    for manager in MANAGERS:
        if use in ("auto", manager.name) and shutil.which(
            manager.program, path=variables()["PATH"]
        ):
            return manager
    known = ", ".join(manager.name for manager in MANAGERS) if use == "auto" else use
    raise Failure(
        "no supported package manager on this host (%s)" % known, slug="package-manager-missing"
    )


def installed(task, manager, names):
    if manager.name != "apt":
        return manager.query(task, names)
    plain = [re.split("[=:]", name)[0] for name in names]
    _, out = task.program(manager.versions + plain, variables(), quiet=True)
    rows = [line.split() for line in out.splitlines()]
    return {row[1]: row[2] for row in rows if len(row) == 3 and row[0] == "installed"}


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
    command = {"absent": manager.remove, "latest": manager.latest}.get(state, manager.install)
    code, out = _run(task, manager, command, names)
    if code and not updated and _OLD_LISTS.search(out) and not _UNREACHED.search(out):
        task.say("%s does not find all of them; updating the package lists" % manager.name)
        failed, lists = _run(task, manager, manager.update, [])
        code, out = _run(task, manager, command, names)
        out = "\n".join([lists] * bool(failed) + _lines(lists, _UNREACHED) + [out])
    if code:
        raise _failure(manager, command, names, code, out)


def _update(task, manager):
    """apt ends with 0 where it reaches no server."""
    code, out = _run(task, manager, manager.update, [])
    if code or _UNREACHED.search(out):
        raise _failure(manager, manager.update, [], code, out)


def _run(task, manager, command, names):
    """(exit code, output). Waits up to LOCK_WAIT while another process has the manager's lock."""
    if manager.name == "dnf":  # numactl=2.0 is numactl-2.0 there
        names = [name.replace("=", "-", 1) for name in names]
    end, waits = time.monotonic() + LOCK_WAIT, False
    while True:
        code, out = task.program(command + list(names), variables(), hidden=_LOCK_LINES)
        if not code or not _LOCKED.search(out):
            return code, out
        what = "%s is locked by another process" % manager.name
        said = _lines(out, _LOCKED)[0]
        if time.monotonic() >= end:
            raise Failure(
                "%s, still after %g s" % (what, LOCK_WAIT),
                said,
                "retries: 10 and delay: 60 to wait longer",
                slug="package-manager-locked",
            )
        if not waits:
            task.say("%s; waiting up to %g s: %s" % (what, LOCK_WAIT, said))
        waits = True
        time.sleep(LOCK_PAUSE)


def _failure(manager, command, names, code, out):
    unreached = _lines(out, _UNREACHED)
    if unreached:
        what = "%s cannot reach all of its package servers" % manager.name
        told = unreached[-3:] + _errors(out).splitlines() * bool(code)
        why = "\n".join(dict.fromkeys(told))
        return Failure(
            what,
            why,
            "ipexctl doctor   # checks DNS and proxies",
            slug="package-servers-unreachable",
        )
    words = " ".join(command + list(names))
    hint = "sudo: true" if os.geteuid() else "on the host, as root: " + words
    return Failure(
        "%s failed (exit %d)" % (manager.name, code),
        _errors(out),
        hint,
        slug="package-manager-failed",
    )


def _lines(out, pattern):
    return [line.strip() for line in out.splitlines() if pattern.search(line)]


def _errors(out):
    lines = out.splitlines()
    told = [line for line in lines if line.startswith(("E:", "Error:", "ERROR:", "error:"))]
    return "\n".join((told or lines)[-6:])


def _expected(task, manager, names, wanted, uses):
    if wanted or task.args["state"] != "latest":
        verb = "remove" if task.args["state"] == "absent" else "install"
        return result(bool(wanted), "%s %s" % (verb, ", ".join(wanted)) if wanted else "", **uses)
    if manager.pending is None:
        return result(
            None, "%s does not report whether newer versions exist" % manager.name, **uses
        )
    _, out = task.program(manager.pending + list(names), variables(), quiet=True)
    due = re.search("^Inst ", out, re.M)
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
