"""Every text that a lab writes: ssh and sshd settings, accounts, host names. Pure."""

from __future__ import annotations

import shlex
from pathlib import Path

from ipexctl.lab.cluster.lab_plan import HOME, LabHostPlan, LabPlan

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


_SSHD = """\
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
PrintMotd no
PrintLastLog no
LogLevel VERBOSE
"""
_HOST_SSHD = """\
Port 22
HostKey /etc/ssh/ssh_host_ed25519_key
PidFile /run/sshd.pid
AuthorizedKeysFile /etc/ssh/authorized_keys .ssh/authorized_keys
PermitUserEnvironment no
X11Forwarding no
AcceptEnv LANG LC_*
Subsystem sftp internal-sftp
"""


def sshd_config(*, sessions: int, penalties: bool) -> str:
    """Allow keys only, no PAM; `sessions` > 0 raises the limits, `penalties`: sshd knows them."""
    limits = f"MaxStartups {sessions}\nMaxSessions {sessions}\n" if sessions else ""
    return _SSHD + _HOST_SSHD + limits + "PerSourcePenalties no\n" * penalties


# sshd runs this for every session on the flat rung: the account's own home is a different one.
LOGIN = """#!/bin/sh
cd
command=$SSH_ORIGINAL_COMMAND
unset SSH_ORIGINAL_COMMAND
[ -n "$command" ] || exec "${SHELL:-/bin/sh}" -l
exec "${SHELL:-/bin/sh}" -c "$command"
"""


def loopback_sshd_config(plan: LabPlan, host: LabHostPlan, folder: Path) -> str:
    """Return settings of an sshd on a loopback address whose sessions have the host's home."""
    base = folder / "hosts" / host.name
    command = shlex.quote(str(base / "login"))
    lines = [
        f"Port {plan.port}",
        f"ListenAddress {host.address}",
        f'HostKey "{base / "host_key"}"',
        f'PidFile "{base / "sshd.pid"}"',
        f'AuthorizedKeysFile "{folder / "id_ed25519.pub"}"',
        "StrictModes no",
        f'SetEnv "HOME={host.home}" "TMPDIR={base / "tmp"}" "HISTFILE={host.home}/.bash_history"',
        f"ForceCommand {command}",
    ]
    return _SSHD + "".join(f"{line}\n" for line in lines)


def ssh_config(plan: LabPlan, folder: Path, proxy: str = "") -> str:
    """Return settings for `ssh -F`: one block per host, or one pattern for a flat lab."""
    proxy_line = f"    ProxyCommand {proxy}\n" if proxy else ""
    common = (
        f"    User {plan.user}\n"
        f"    Port {plan.port}\n"
        f'    IdentityFile "{folder}/id_ed25519"\n'
        "    IdentitiesOnly yes\n"
        f'    UserKnownHostsFile "{folder}/known_hosts"\n'
        "    GlobalKnownHostsFile none\n"
        "    StrictHostKeyChecking yes\n"
        "    BatchMode yes\n"
        "    ConnectTimeout 10\n"
        f"{proxy_line}"
    )
    if plan.flat:
        return f"Host {' '.join(plan.patterns)}\n{common}"
    blocks = (f"Host {host.name}\n    HostName {host.address}\n{common}" for host in plan.hosts)
    return "\n".join(blocks)


def hostfile_text(plan: LabPlan) -> str:
    words = plan.flat or tuple(host.name for host in plan.hosts)
    return "".join(f"{word}\n" for word in words)


def known_hosts(plan: LabPlan, keys: dict[str, str]) -> str:
    """Return one line per host with its name and address, or one of patterns for a flat lab."""
    if plan.flat:
        return f"{','.join(plan.patterns)} {keys[plan.hosts[0].name]}\n"
    if plan.port != 22:
        names = {h.name: f"[{h.name}]:{plan.port},[{h.address}]:{plan.port}" for h in plan.hosts}
    else:
        names = {h.name: f"{h.name},{h.address}" for h in plan.hosts}
    return "".join(f"{names[name]} {key}\n" for name, key in keys.items())


def etc_hosts(host: LabHostPlan) -> str:
    """Return /etc/hosts of a host, which knows its own name, but not those of others."""
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost", f"{host.address} {host.name}"]
    return "".join(f"{line}\n" for line in lines)


def account_files(passwd: str, group: str, *, uid: int, without: str = "") -> dict[str, str]:
    """Return /etc/passwd, group and shadow: this machine's system accounts and `trainer`, without
    the group `without`."""
    users = [u for u in map(_fields, passwd.splitlines()) if len(u) == 7 and _is_system(u[2])]
    users = [u for u in users if u[0] not in ("root", "trainer")]
    users.insert(0, ["root", "x", "0", "0", "root", "/root", "/bin/bash"])
    if not any(u[0] == "sshd" for u in users):
        users.append(["sshd", "x", "74", "65534", "", "/run/sshd", "/usr/sbin/nologin"])
    users.append(["trainer", "x", str(uid), str(uid), "", HOME, "/bin/bash"])
    groups = [g for g in map(_fields, group.splitlines()) if len(g) == 4 and _is_system(g[2])]
    groups = [[*g[:3], ""] for g in groups if g[0] not in ("trainer", without)]
    groups.append(["trainer", "x", str(uid), ""])
    # "*" is an account without password; "!" would be a locked one, which sshd refuses.
    shadow = [[u[0], "*", "19000", "0", "99999", "7", "", "", ""] for u in users]
    return {"passwd": _table(users), "group": _table(groups), "shadow": _table(shadow)}


def _fields(line: str) -> list[str]:
    return line.split(":")


def _is_system(number: str) -> bool:
    return number.isdigit() and (int(number) < 1000 or int(number) == 65534)


def _table(rows: list[list[str]]) -> str:
    return "".join(":".join(row) + "\n" for row in rows)
