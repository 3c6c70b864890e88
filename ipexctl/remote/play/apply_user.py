"""The step `user`: an account in /etc/passwd, by useradd, usermod and userdel.

Steps report what they read and write as if /etc/passwd were a folder with a file per account.
"""

import grp
import os
import pwd

from ipexctl.remote.failure import Failure
from ipexctl.remote.play.task import Missing

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Iterable
    from typing import Any

    from ipexctl.remote.play.task import Result, Task

    Account = dict[str, Any]  # uid, groups, shell, home

_PATH = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"


def apply(task: "Task") -> "Result":
    args = task.args
    name = args["name"]
    account = "path:/etc/passwd/" + name
    task.reads = [account] + ["path:/etc/group/" + group for group in args["groups"] or ()]
    entry = _account(name)
    current = _account_state(entry)
    requested = None if args["state"] == "absent" else _wanted_account(args, current or {})
    task.writes = [account, "path:/etc/group/" + name]
    if current == requested:
        return False, "", ""
    command, detail = _command(args, current, requested)
    if entry and requested is None and entry.pw_uid == 0:
        raise Failure("%s is root, and is not removed" % name, slug="account-is-root")
    if os.geteuid():
        raise Failure("only root can change accounts", hint="sudo: true", slug="not-permitted")
    if not (current and requested) or current["uid"] != requested["uid"]:
        home = (requested or current or {}).get("home") or "/home/" + name
        task.writes.append("path:" + os.path.normpath(home))
    task.if_missing = True, detail, ""
    _require_groups((requested or {}).get("groups", ()))
    if not task.check:
        code, out = task.program(command + [name], dict(os.environ, PATH=_PATH, LC_ALL="C"))
        if code:
            raise Failure(
                "%s failed (exit %d)" % (command[0], code), out[-1500:], slug="command-failed"
            )
    return True, detail, ""


def _account(name: str) -> "pwd.struct_passwd | None":
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _account_state(entry: "pwd.struct_passwd | None") -> "Account | None":
    """Return {uid, groups, shell, home}, without the primary group; None: there is no account."""
    if entry is None:
        return None
    groups = {group.gr_name for group in grp.getgrall() if entry.pw_name in group.gr_mem}
    return {
        "uid": entry.pw_uid,
        "groups": sorted(groups - {_first_group(entry)}),
        "shell": entry.pw_shell,
        "home": entry.pw_dir,
    }


def _first_group(entry: "pwd.struct_passwd") -> str:
    try:
        return grp.getgrgid(entry.pw_gid).gr_name
    except KeyError:
        return ""


def _wanted_account(args: "dict[str, Any]", old: "Account") -> "Account":
    requested = dict(old)
    for key in ("shell", "home"):
        if args[key]:
            requested[key] = args[key]
    if args["uid"] not in (None, old.get("uid")):
        requested["uid"] = _require_free_uid(args["uid"], args["name"])
    if args["groups"] is not None:
        entry = _account(args["name"])
        groups = set(args["groups"]) - {_first_group(entry) if entry else ""}
        requested["groups"] = sorted(groups | set(old.get("groups", ()) if args["append"] else ()))
    return requested


def _require_free_uid(uid: int, name: str) -> int:
    try:
        owner = pwd.getpwuid(uid).pw_name
    except KeyError:
        return uid
    if owner != name:
        raise Failure("uid %d belongs to %s" % (uid, owner), slug="user-id-taken")
    return uid


def _require_groups(names: "Iterable[str]") -> None:
    for name in names:
        try:
            grp.getgrnam(name)
        except KeyError:
            hint = "a step before: sh: {cmd: groupadd %s, unless: getent group %s}" % (name, name)
            raise Missing(
                "there is no group %s on this host" % name, hint=hint, slug="group-missing"
            ) from None


_OPTIONS = {"uid": "-u", "groups": "-G", "shell": "-s", "home": "-d"}


def _command(
    args: "dict[str, Any]", current: "Account | None", requested: "Account | None"
) -> "tuple[list[str], str]":
    """Return (the program and its options, what it changes in words)."""
    if requested is None:
        return ["userdel"] + ["-r"] * args["remove"], "remove"
    command = ["usermod"] if current else ["useradd", "-m"]
    changes = []
    for key, option in _OPTIONS.items():
        old, new = (current or {}).get(key), requested.get(key)
        if new != old and (current or new != []):
            command += [option, _option_value(new)]
            changes.append(
                "%s %s -> %s" % (key, _option_value(old) or "none", _option_value(new) or "none")
            )
    return command, ", ".join(changes) if current else "create"


def _option_value(value: "list[str] | str | int | None") -> str:
    return ",".join(value) if isinstance(value, list) else str("" if value is None else value)
