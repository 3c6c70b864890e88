"""What `lab up` and `lab status` print."""

from __future__ import annotations

from ipexctl.base.quoting import quote
from ipexctl.inventory.hostfile_text import fold
from ipexctl.inventory.inventory import Host
from ipexctl.lab.cluster import rungs
from ipexctl.lab.lab import HostState, LabState
from ipexctl.machines.openssh import login_command


def lab_text(state: LabState) -> str:
    """The hosts, and the commands that one wants next."""
    width = max(len(host.name) for host in state.hosts)
    lines = [f"lab '{state.name}' is up, log in as {state.user}"]
    lines += [f"  isolation {state.rung!r}: {rungs.SENTENCES[state.rung]}"]
    if state.left_out:
        lines += [f"  not simulated with this isolation: {' '.join(state.left_out)}"]
    lines += [f"  {host.name:<{width}}  {host.address:<15}  {_state(host)}" for host in state.hosts]
    if state.addresses:
        lines += [f"  {len(state.addresses)} addresses, up to {state.addresses[-1]}"]
    first = state.addresses[0] if state.addresses else state.hosts[0].name
    lines += ["", f"  ipexctl doctor -f {state.hostfile} -F {state.ssh_config}"]
    login = login_command.ssh(Host(first), options=("-F", str(state.ssh_config)))
    lines += [f"  {login}", "", "  in a project's folder, where commands then need no -f and -F:"]
    named = (fold(state.addresses),) if state.addresses else ("-y",)
    return "\n".join([*lines, f"  {quote(('ipexctl', 'init', '-F', state.ssh_config, *named))}"])


def _state(host: HostState) -> str:
    words = ", ".join(host.faults)
    if not host.up:
        return "down" if words in ("", "kill") else f"down ({words})"
    return words or "ok"
