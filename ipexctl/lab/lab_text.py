"""What `lab up` and `lab status` print, as text and for --json."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipexctl.base.quoting import quote
from ipexctl.inventory.hostfile_text import fold
from ipexctl.inventory.inventory import Host
from ipexctl.lab.cluster import rung_limits
from ipexctl.lab.cluster.practice_cluster import Lab
from ipexctl.machines.openssh import login_command


def lab_text(lab: Lab) -> str:
    """Return the hosts of a lab, and the commands to type next."""
    status, first = lab.status(), lab.targets[0]
    width = max(map(len, lab.hosts))
    lines = [f"lab '{lab.name}' is up, log in as {lab.user}"]
    lines += [f"  isolation {lab.rung!r}: {rung_limits.SENTENCES[lab.rung]}"]
    if lab.left_out:
        lines += [f"  not simulated with this isolation: {' '.join(lab.left_out)}"]
    lines += [
        f"  {host.name:<{width}}  {host.address:<15}  {_state(*status[host.name])}"
        for host in lab.hosts.values()
    ]
    if lab.addresses:
        lines += [f"  {len(lab.addresses)} addresses, up to {lab.addresses[-1]}"]
    lines += ["", f"  ipexctl doctor -f {lab.hostfile} -F {lab.ssh_config}"]
    login = login_command.ssh_to(Host(first), options=("-F", str(lab.ssh_config)))
    lines += [f"  {login}", "", "  in a project's folder, where commands then need no -f and -F:"]
    hosts = (fold(lab.addresses),) if lab.addresses else ("-y",)
    return "\n".join([*lines, f"  {quote(('ipexctl', 'init', '-F', str(lab.ssh_config), *hosts))}"])


def _state(pid: int, faults: Sequence[str]) -> str:
    words = ", ".join(faults)
    if not pid:
        return "down" if words in ("", "kill") else f"down ({words})"
    return words or "ok"


def labs_document(labs: Sequence[Lab]) -> dict[str, Any]:
    return {"schema_version": 1, "labs": [_lab_document(lab) for lab in labs]}


def _lab_document(lab: Lab) -> dict[str, Any]:
    status = lab.status()
    return {
        "name": lab.name,
        "user": lab.user,
        "hostfile": str(lab.hostfile),
        "ssh_config": str(lab.ssh_config),
        "hosts": [
            {
                "name": host.name,
                "address": host.address,
                "up": bool(status[host.name][0]),
                "faults": status[host.name][1],
            }
            for host in lab.hosts.values()
        ],
        "addresses": lab.addresses,
        "rung": lab.rung,
        "left_out": lab.left_out,
    }
