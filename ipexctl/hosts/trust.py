"""Trust host keys: scan, show, and remember the ones that the user accepts.

Other verbs only need `unknown_keys`, which turns all unknown keys of a run into one message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import field

from ipexctl.base.host_outcome import HostDown
from ipexctl.errors import EXIT_FAILED, EXIT_UNREACHABLE, HostKeyUnknown, worst_exit
from ipexctl.inventory.inventory import Host, Inventory
from ipexctl.machines.fleet import fan_out
from ipexctl.machines.ssh.known_hosts import HostKey, Standing, remember_key, verdict_down
from ipexctl.machines.ssh.paramiko_transport import SshTransport
from ipexctl.machines.suggested_commands import spelled_downs, suggest_command
from ipexctl.machines.target import Target, read_inventory
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class ShownKey:
    """The key a host shows now. `state`: known, new, accepted, changed or revoked."""

    host: str
    key_type: str
    fingerprint: str
    state: str


@dataclass(frozen=True)
class TrustReport:
    keys: tuple[ShownKey, ...] = ()
    downs: tuple[HostDown, ...] = field(default=())  # unreachable, or with a refused key

    @property
    def refused(self) -> bool:
        """Whether the user saw new keys and didn't accept them."""
        return any(key.state == "new" for key in self.keys)

    @property
    def exit_code(self) -> int:
        codes = [EXIT_UNREACHABLE] if self.downs else []
        return worst_exit([*codes, EXIT_FAILED] if self.refused else codes)


Confirm = Callable[[Sequence[ShownKey]], bool]


def trust(target: Target, confirm: Confirm) -> TrustReport:
    """Ask `confirm` about all new keys at once; jump hosts come first, as they lead to others."""
    hosts = read_inventory(target)
    keys: dict[str, ShownKey] = {}
    downs: dict[str, HostDown] = {}
    for stage in _trust_stages(target, hosts):
        shown, failed = _scan_keys(target, stage, confirm)
        keys |= {key.host: key for key in shown}
        downs |= {down.host: down for down in failed}
        if any(key.state == "new" for key in shown):
            break
    return TrustReport(tuple(keys.values()), tuple(spelled_downs(tuple(downs.values()), target)))


def unknown_keys(downs: Sequence[HostDown], target: Target) -> HostKeyUnknown | None:
    """Return one error for all hosts with unknown keys, with the command that accepts them."""
    unknown = [down for down in downs if down.slug == HostKeyUnknown.slug]
    if not unknown:
        return None
    width = max(len(down.host) for down in unknown)
    lines = dict.fromkeys(f"{down.what.partition(': ')[0]:{width}}  {down.why}" for down in unknown)
    one = "a host shows a host key that is"
    subject = f"{len(lines)} hosts show host keys that are" if len(lines) > 1 else one
    return HostKeyUnknown(
        f"{subject} not trusted yet",
        why="\n".join(lines),
        hint=suggest_command(target, "trust"),
    )


def _trust_stages(target: Target, hosts: Inventory) -> list[tuple[Host, ...]]:
    """Return jump hosts by their distance, then the hosts themselves."""
    remote = tuple(h for h in hosts.hosts if not h.local)
    with closing(SshTransport(remote, target.ssh_config, target.secrets)) as ssh:
        routes = [ssh.jump_hosts(host) for host in remote]
        ssh.unlock([hop for route in routes for hop in route])
    depth = max(map(len, routes), default=0)
    jumps = [tuple(dict.fromkeys(w[i] for w in routes if i < len(w))) for i in range(depth)]
    return [*jumps, remote]


def _scan_keys(
    target: Target, hosts: tuple[Host, ...], confirm: Confirm
) -> tuple[list[ShownKey], list[HostDown]]:
    # a new one: it reads what we just wrote
    with closing(SshTransport(hosts, target.ssh_config, target.secrets)) as ssh:
        ssh.unlock([hop for host in hosts for hop in ssh.jump_hosts(host)])
        outcomes = fan_out(
            hosts, lambda h: ssh.host_key(h, target.connect_timeout), forks=target.forks
        )
    keys = {host: key for host, key in outcomes.items() if isinstance(key, HostKey)}
    downs = [down for down in outcomes.values() if isinstance(down, HostDown)]
    downs += [down for key in keys.values() if (down := verdict_down(key))]
    new = [key for key in keys.values() if key.verdict.standing is Standing.UNKNOWN]
    accepted = bool(new) and confirm([_shown_key(key, "new") for key in new])
    if accepted:
        for key in {(key.names[0], key.blob): key for key in new}.values():
            remember_key(key)
    states = {Standing.UNKNOWN: "accepted" if accepted else "new"}
    return [
        _shown_key(key, states.get(key.verdict.standing, key.verdict.standing.value))
        for key in keys.values()
    ], downs


def _shown_key(key: HostKey, state: str) -> ShownKey:
    return ShownKey(key.answer.name, key.key_type, key.fingerprint, state)
