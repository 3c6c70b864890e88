"""What checks of several hosts are given, and helpers that all checks share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property

from ipexctl.doctor.report.finding import Fix, do, scripted_sudo
from ipexctl.facts import usable_cores
from ipexctl.facts.facts import Facts
from ipexctl.facts.reachability_facts import Peer
from ipexctl.facts.speed_facts import Measurements
from ipexctl.inventory.hostfile_text import fold
from ipexctl.quick_dataclass import dataclass
from ipexctl.stack.lock_file import Lock
from ipexctl.stack.version_table import StackRow


@dataclass(frozen=True)
class CheckedHosts:
    """The hosts that answered, their connections, the version table, and the folder's lock."""

    hosts: tuple[Facts, ...]
    peers: tuple[Peer, ...] = ()
    rows: tuple[StackRow, ...] = ()
    measured: Measurements = Measurements()
    lock: Lock | None = None

    def facts_of(self, host: str) -> Facts | None:
        return self._by_name.get(host)

    @cached_property
    def _by_name(self) -> dict[str, Facts]:
        return {facts.host: facts for facts in self.hosts}

    @cached_property
    def ranks(self) -> int:
        """The number of ranks that `run` starts by default."""
        return sum(usable_cores.default_ranks(facts.cpu) for facts in self.hosts)


def group_hosts(
    hosts: Sequence[Facts], key: Callable[[Facts], Hashable | None]
) -> dict[Hashable, list[str]]:
    """Group host names by the value of `key`, largest group first; unknown values are left out."""
    groups: dict[Hashable, list[str]] = {}
    for facts in hosts:
        value = key(facts)
        if value not in (None, ""):
            groups.setdefault(value, []).append(facts.host)
    return dict(sorted(groups.items(), key=lambda item: -len(item[1])))


def hosts_by_value(groups: dict[Hashable, list[str]], unit: str = "") -> str:
    """Return the hosts by value: "amx on node[01-03]; avx2 on node04"."""
    return "; ".join(f"{value}{unit} on {fold(names)}" for value, names in groups.items())


def install_command(facts: Facts, *, debian: str, rhel: str, suse: str, again: bool = False) -> Fix:
    """Return the command that installs a package on this host's distribution; `again`: it is
    installed, but its files are damaged."""
    ids = set(facts.os_ids)
    apt = scripted_sudo("apt-get install -y", *["--reinstall"] * again, *debian.split())
    dnf = scripted_sudo("dnf", "reinstall" if again else "install", "-y", *rhel.split())
    zypper = scripted_sudo("zypper install -y", *["--force"] * again, *suse.split())
    if ids & {"debian", "ubuntu"}:
        return do(apt)
    if ids & {"rhel", "fedora", "centos", "rocky", "almalinux", "ol", "amzn"}:
        return do(dnf)
    if ids & {"suse", "opensuse", "sles", "sle_hpc", "opensuse-leap"}:
        return do(zypper)
    return do(apt, "   (Debian, Ubuntu)") | do(dnf, "   (RHEL, Fedora)") | do(zypper, "   (SUSE)")
