"""Topology + request -> LaunchPlan. Pure: the same facts always give the same plan."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ipexctl.core import mpi, setvars, topology
from ipexctl.core.facts import peer_address
from ipexctl.core.model import Facts, Host, HostPlan, LaunchPlan, Prepared, RankPlace
from ipexctl.errors import InputError, RunFailed


@dataclass(frozen=True)
class RunRequest:
    argv: tuple[str, ...]  # script and its arguments, or -m module ...
    n: int | None = None
    ppn: int | None = None
    env: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Node:
    """A host with all that is known about it."""

    host: Host
    facts: Facts
    prepared: Prepared


def plan(nodes: Sequence[Node], request: RunRequest, run_id: str) -> LaunchPlan:
    counts = share_out(nodes, request)
    used = [(node, count) for node, count in zip(nodes, counts, strict=True) if count]
    alone = len(used) == 1
    first = used[0][0]
    master = "127.0.0.1" if alone else _address(first)
    hosts, rank = [], 0
    for i, (node, count) in enumerate(used):
        hosts.append(_host_plan(node, i, range(rank, rank + count), request, alone=alone))
        rank += count
    run_dir = f"{first.facts.disk.root}/runs/{run_id}"
    machinefile = "".join(f"{h.label}:{len(h.ranks)}\n" for h in hosts)
    return LaunchPlan(
        hosts=tuple(hosts),
        master_addr=master,
        master_port=first.prepared.port,
        argv=request.argv,
        mpirun=mpi.mpirun(hosts[0], rank, run_dir),
        machinefile=machinefile,
        notes=_notes(nodes, counts),
    )


def read_prepared(done: Mapping[str, Any]) -> Prepared:
    """What a host says it would run with. Raises ValueError."""
    prefix, path, port, found = (done.get(k) for k in ("prefix", "path", "port", "packages"))
    if not isinstance(prefix, str) or not prefix.startswith("/"):
        raise ValueError("no path of its environment")
    if not isinstance(path, str) or "\0" in prefix + path:
        raise ValueError("no PATH")
    if not isinstance(port, int) or not 0 < port < 65536:
        raise ValueError("no free port")
    if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
        raise ValueError("no packages")
    ours = mpi.env_vars(prefix, found.get("impi-rt", ""))
    env = setvars.merged(ours, setvars.checked(done.get("setvars")))
    return Prepared(prefix, tuple(found.items()), env, path, port)


def share_out(nodes: Sequence[Node], request: RunRequest) -> list[int]:
    """Ranks per host, in the order of the hostfile."""
    n, ppn = request.n, request.ppn
    for name, value in (("-n", n), ("-ppn", ppn)):
        if value is not None and value < 1:
            raise InputError(f"{name} {value}: at least 1 is needed")
    if ppn is not None:
        return _fill([ppn] * len(nodes), n if n is not None else ppn * len(nodes), "-ppn")
    if all(node.host.slots for node in nodes):
        slots = [node.host.slots for node in nodes]
        return _fill(slots, n if n is not None else sum(slots), "slots in the hostfile")
    if n is None:
        return [node.host.slots or topology.numa_nodes(node.facts.cpu) for node in nodes]
    each, more = divmod(n, len(nodes))
    return [each + (1 if i < more else 0) for i in range(len(nodes))]


def _fill(limits: list[int], n: int, what: str) -> list[int]:
    if n > sum(limits):
        raise InputError(
            f"-n {n} ranks do not fit: {len(limits)} hosts hold {sum(limits)} by {what}",
            hint=f"use -n {sum(limits)}, more hosts, or a larger -ppn",
        )
    out = []
    for limit in limits:
        out.append(min(limit, n))
        n -= out[-1]
    return out


def _host_plan(
    node: Node, index: int, ranks: range, request: RunRequest, *, alone: bool
) -> HostPlan:
    pins = topology.pin(node.facts.cpu, len(ranks))
    nic = "lo" if alone else _nic(node)
    threads = topology.threads(node.facts.cpu, len(ranks))
    prepared = node.prepared
    path = f"{dict(prepared.mpi_env)['PATH']}:{prepared.path}"
    return HostPlan(
        host=node.host.name,
        label=_label(node.host.name, index),
        prefix=prepared.prefix,
        nic=nic,
        ranks=tuple(RankPlace(r, i, pins[i]) for i, r in enumerate(ranks)),
        env=(*((k, v) for k, v in prepared.mpi_env if k != "PATH"), ("PATH", path)),
        rank_env=(
            ("GLOO_SOCKET_IFNAME", nic),
            ("OMP_NUM_THREADS", str(threads)),
            ("PYTHONUNBUFFERED", "1"),
            ("IPEXCTL_BACKEND", "gloo"),
            *request.env,
        ),
    )


def _address(node: Node) -> str:
    address = _address_of_nic(node) if node.host.nic else peer_address(node.facts)
    if not address:
        raise InputError(
            f"{node.host.name} is this machine, and the other hosts need an address for it",
            hint="name it by an address or a host name that the others reach over SSH",
        )
    return address


def _address_of_nic(node: Node) -> str:
    """The hostfile says which interface; the others reach this host by its address."""
    there = {nic.name: nic for nic in node.facts.net.nics}
    if node.host.nic not in there:
        raise RunFailed(
            f"{node.host.name}: there is no network interface {node.host.nic}",
            why=f"the host has {', '.join(there)}",
            hint=f"correct nic= of {node.host.name} in the hostfile",
        )
    addresses = [a for a in there[node.host.nic].addresses if not a.lower().startswith("fe80:")]
    if not addresses or not there[node.host.nic].up:
        raise RunFailed(
            f"{node.host.name}: the network interface {node.host.nic} is down or has no address",
            hint=f"ssh {node.host.name} ip addr show {node.host.nic}",
        )
    return min(addresses, key=lambda a: ":" in a)  # IPv4 where there is one


def _nic(node: Node) -> str:
    if node.host.nic:
        return node.host.nic
    address = _address(node)
    for nic in node.facts.net.nics:
        if address in nic.addresses:
            return nic.name
    raise RunFailed(
        f"{node.host.name}: no network interface has the address {address}",
        why="the connection came in by an address that is translated on its way (NAT)",
        hint="ipexctl doctor -v",
    )


def _label(name: str, index: int) -> str:
    """A name that mpirun reads as one host. Its digits at the start make it unique: no host name
    of the user's that is kept begins with one. (`:` and `#` mean something in a machine file.)
    """
    return name if re.fullmatch(r"[A-Za-z][A-Za-z0-9.-]*", name) else f"{index}-host"


def _notes(nodes: Sequence[Node], counts: Sequence[int]) -> tuple[str, ...]:
    idle = [n.host.name for n, c in zip(nodes, counts, strict=True) if not c]
    return (f"without ranks: {', '.join(idle)}",) if idle else ()
