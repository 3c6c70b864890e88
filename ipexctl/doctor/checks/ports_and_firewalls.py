"""Ports that are taken or too few, and firewalls."""

from __future__ import annotations

from ipexctl.doctor.checks.registry import Evidence, host_check
from ipexctl.doctor.report.finding import Command, Severity, Shell, command, do, sudo
from ipexctl.facts.facts import Facts

MASTER_PORT = 29500


@host_check(
    "NET-016",
    title="MASTER_PORT is taken",
    severity=Severity.WARN,
    seen=f"something listens on {MASTER_PORT}",
    why="`errno: 98 - Address already in use` for torchrun, accelerate and DeepSpeed, which take "
    "this port unless told otherwise: most often, a run still in progress holds it. `ipexctl run` "
    "uses a "
    "free one.",
    fix=do(
        command("ss -ltnp", f"sport = :{MASTER_PORT}"),
        "   and end that process if it is left over from one of your runs",
    ),
)
def master_port(facts: Facts) -> Evidence | None:
    return Evidence(f"port {MASTER_PORT}") if facts.net.master_port_busy else None


@host_check(
    "NET-018",
    title="few local ports for connections",
    severity=Severity.WARN,
    seen="net.ipv4.ip_local_port_range holds fewer than 2,000 ports",
    why="Every pair of ranks needs several connections: `Cannot assign requested address`.",
    fix=Shell(
        "sudo sysctl -w net.ipv4.ip_local_port_range='32768 60999'",
        needs_root=True,
        unattended=True,
    ),
)
def few_ports(facts: Facts) -> Evidence | None:
    if not facts.net.port_range:
        return None
    first, last = facts.net.port_range
    return Evidence(f"{first} to {last}") if last - first < 2000 else None


FIREWALL = sudo("nft list ruleset")
_LEGACY = sudo("iptables-legacy-save")


@host_check(
    "NET-020",
    title="a firewall is active",
    severity=Severity.NOTE,
    seen="firewalld, ufw, nftables or iptables appears to be active",
    why="Ranks need all TCP ports between the hosts. NET-002 to NET-004 test whether they are "
    "open.",
    fix=do("see what it allows: ", FIREWALL),
)
def firewall(facts: Facts) -> Evidence | None:
    firewalls = facts.net.firewalls
    if not firewalls:
        return None
    return Evidence(", ".join(firewalls), fix=do("see what it allows: ", firewall_of(facts)))


def firewall_of(facts: Facts | None) -> Command:
    """Return the command that shows the rules; nft does not list those of the old iptables."""
    legacy = facts is not None and "iptables" in facts.net.firewalls
    return _LEGACY if legacy else FIREWALL
