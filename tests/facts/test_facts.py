"""What a host sends becomes Facts: recorded machines, plain sh, and hosts that send nonsense."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ipexctl.base import host_answer
from ipexctl.base.values import cpu_list
from ipexctl.doctor.checks import run_all
from ipexctl.doctor.report.cluster import CheckedHosts
from ipexctl.errors import HostFailed
from ipexctl.facts import core_pinning, isa
from ipexctl.facts import host_facts as of
from ipexctl.facts.cpu_facts import CpuFacts, NumaNode
from ipexctl.facts.cpu_frequency_facts import Power
from ipexctl.facts.facts import Condition, Facts
from ipexctl.facts.interfaces_facts import Nic
from ipexctl.facts.limits_facts import UserLimits
from ipexctl.facts.load_facts import Load
from ipexctl.facts.software_facts import SoftwareFacts
from ipexctl.facts.system_facts import System
from ipexctl.inventory.inventory import Host
from ipexctl.machines.agent import Agent
from ipexctl.machines.agent_start import start_host_agent
from ipexctl.machines.probe_host import probe_facts
from ipexctl.machines.wire.transport import LocalTransport
from tests import made
from tests.checks.hosts import GIB, clean, part, two_nodes
from tests.facts.machines import AMX, AVX2, AVX512, MACHINES, V2, Machine, regular

# of hosts that connect to each other, or found on this machine
WITH_LISTENERS = {"NetFacts.name_servers", "NetFacts.range_port"}
RECORDED = Path(__file__).parents[3] / "shared" / "machines"


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    agent = start_host_agent(LocalTransport(), Host("here", local=True))
    yield agent
    agent.close()


def read(agent: Agent, tree: Path) -> Facts:
    return probe_facts(agent, fs=str(tree))


def counts(facts: Facts) -> tuple[int, int, int, int, int]:
    """CPUs online, CPUs that are ours, cores that are ours, sockets, NUMA nodes."""
    return (
        len(facts.cpu.cpus),
        len(of.usable_cpus(facts) or ()),
        of.count_usable_cores(facts) or 0,
        len({c.socket for c in facts.cpu.cpus}),
        len(facts.nodes),
    )


def test_a_host_sends_every_fact_that_is_declared(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that is spelled differently on both sides would never be read."""
    missing: set[str] = set()
    read = host_answer._record

    def noted(kind: Any, raw: Any, strict: bool, given: Any = ()) -> Any:
        known = [f for f in host_answer._declared_fields(kind, strict) if f.name not in given]
        if raw and isinstance(raw, dict):
            missing.update(f"{kind.__name__}.{f.key}" for f in known if f.key not in raw)
        return read(kind, raw, strict, given or {})

    monkeypatch.setattr(host_answer, "_record", noted)
    probe_facts(agent)
    assert missing <= WITH_LISTENERS


# --- machines of our own -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected", "level"),
    [
        ("two sockets with SMT", (224, 224, 112, 2, 2), "amx"),
        ("sub-NUMA clusters and nodes of memory alone", (224, 224, 112, 2, 16), "amx"),
        ("performance and efficiency cores", (20, 20, 14, 1, 1), "avx2"),
        ("offline CPUs", (6, 6, 6, 2, 0), "amx"),
        ("cgroup v2", (8, 4, 4, 1, 0), "amx"),
        ("cgroup v1", (8, 3, 3, 1, 0), "amx"),
        ("no topology in sysfs", (8, 8, 4, 1, 0), "avx512"),
        ("arm", (4, 4, 4, 1, 0), "sve-bf16"),
        ("nodes that contradict themselves", (4, 4, 4, 2, 0), "amx"),
    ],
)
def test_a_machine_has_the_cpus_that_its_tree_says(agent, tmp_path, name, expected, level):
    facts = read(agent, MACHINES[name].write(tmp_path))
    assert counts(facts) == expected
    assert isa.cpu_level(facts.cpu) == level


def test_every_cpu_knows_its_core_its_socket_and_its_node(agent, tmp_path):
    facts = read(agent, MACHINES["two sockets with SMT"].write(tmp_path))
    by_id = {c.id: (c.core, c.socket, c.node) for c in facts.cpu.cpus}
    assert [by_id[i] for i in (0, 55, 56, 112, 223)] == [
        (0, 0, 0),
        (55, 0, 0),
        (56, 1, 1),
        (0, 0, 0),
        (111, 1, 1),
    ]


def _mask(cpus: tuple[int, ...]) -> str:
    """As the kernel writes it: words of 32 CPUs, the highest first."""
    return f"00000000,{sum(1 << cpu for cpu in cpus):08x}"


def _package(machine: Machine, socket: int) -> tuple[int, ...]:
    return tuple(sorted(c for s, cpus in machine.cores for c in cpus if s == socket))


def _ids(machine: Machine, socket: int, cpus: tuple[int, ...]) -> dict[str, str]:
    """Core ids that repeat in each socket and in each of its two dies."""
    first = cpus[0] % 4
    dies = {"die_id": str(first // 2), "core_id": str(first % 2)}
    return {"physical_package_id": str(socket), **dies}


def _text(cpus: tuple[int, ...]) -> str:
    return ",".join(map(str, cpus))


_TOPOLOGIES = {
    "new list": lambda m, s, c: {**_ids(m, s, c), "core_cpus_list": _text(c)},
    "new mask": lambda m, s, c: {**_ids(m, s, c), "core_cpus": _mask(c)},
    "old list": lambda m, s, c: {**_ids(m, s, c), "thread_siblings_list": _text(c)},
    "old mask": lambda m, s, c: {**_ids(m, s, c), "thread_siblings": _mask(c)},
    "ids": _ids,
    "no package id": lambda m, s, c: {
        "core_id": str(c[0] % 4),
        "core_cpus_list": _text(c),
        "package_cpus_list": _text(_package(m, s)),
    },
    "groups alone": lambda m, s, c: {
        "thread_siblings": _mask(c),
        "core_siblings": _mask(_package(m, s)),
    },
    "unknown ids": lambda m, s, c: {
        "physical_package_id": "-1",
        "core_id": "-1",
        "core_cpus": _mask(c),
        "package_cpus": _mask(_package(m, s)),
    },
}  # fmt: skip


@pytest.mark.parametrize("describe", _TOPOLOGIES.values(), ids=_TOPOLOGIES)
def test_cores_are_counted_with_whatever_names_a_kernel_has_for_them(agent, tmp_path, describe):
    """/proc/cpuinfo of ARM has no cores: sysfs alone can tell."""
    machine = Machine(regular(2, 4, 2), arm=True, ids=("0x41", 8, 0xD40, 1), describe=describe)
    facts = read(agent, machine.write(tmp_path))
    assert counts(facts) == (16, 16, 8, 2, 0)
    assert [c.core for c in facts.cpu.cpus] == [*range(8), *range(8)]


_GAPS = {
    "one CPU without topology": lambda m, s, c: {} if c[0] == 5 else _ids(m, s, c),
    "no sockets": lambda m, s, c: {"core_id": str(c[0] % 4)},
    "no cores": lambda m, s, c: {"physical_package_id": str(s)},
    "unknown ids": lambda m, s, c: {"physical_package_id": "-1", "core_id": "-1"},
}


@pytest.mark.parametrize("describe", _GAPS.values(), ids=_GAPS)
def test_what_sysfs_leaves_open_is_in_cpuinfo(agent, tmp_path, describe):
    machine = Machine(regular(2, 4, 2), describe=describe)
    facts = read(agent, machine.write(tmp_path))
    assert counts(facts) == (16, 16, 8, 2, 0)
    assert [c.core for c in facts.cpu.cpus] == [*range(8), *range(8)]


def test_cores_that_nobody_tells_apart_are_not_counted_as_one(agent, tmp_path):
    """-1 for every CPU, and no groups."""
    unknown = {"physical_package_id": "-1", "core_id": "-1"}
    machine = Machine(regular(2, 4, 1), arm=True, describe=lambda m, s, c: unknown)
    facts = read(agent, machine.write(tmp_path))
    assert ({c.core for c in facts.cpu.cpus}, of.count_usable_cores(facts)) == ({None}, 8)


def test_a_node_may_have_memory_and_no_cpu(agent, tmp_path):
    tree = MACHINES["sub-NUMA clusters and nodes of memory alone"].write(tmp_path)
    assert read(agent, tree).nodes[8] == NumaNode(8, (), 1024 * 1024, None)


@pytest.mark.parametrize(
    ("name", "allowed", "quota", "limit", "left", "mems"),
    [
        ("cgroup v2", (0, 1, 2, 3), 1.5, 1 << 30, (1 << 30) - 500_000_000, (0, 2, 3)),
        ("cgroup v1", (2, 6, 7), None, 4 << 30, 4 << 30, (1,)),
        ("cgroup v2, other periods", None, 2.5, 2 << 30, None, (0, 1)),
        ("cgroup v1, other periods", None, 2.5, 4 << 30, 4 << 30, None),
        ("offline CPUs", None, None, None, None, None),
    ],
)
def test_the_tightest_control_group_on_the_way_up_counts(
    agent, tmp_path, name, allowed, quota, limit, left, mems
):
    facts = read(agent, MACHINES[name].write(tmp_path))
    assert (facts.cpu.allowed, facts.cpu.quota) == (allowed, quota)
    assert (facts.mem.limit, facts.mem.limit_left, facts.mem.mems) == (limit, left, mems)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 16 * GIB),
        ({"limit": 6 * GIB}, 6 * GIB),
        ({"limit": 99 * GIB}, 16 * GIB),
        ({"mems": (1,)}, 8 * GIB),
        ({"mems": (0, 1)}, 16 * GIB),
        ({"mems": (1,), "limit": 3 * GIB}, 3 * GIB),
        ({"mems": (7,)}, 16 * GIB),  # no such node: nobody knows
        ({"total": None}, None),
        ({"total": None, "limit": 6 * GIB}, 6 * GIB),
    ],
)
def test_the_memory_that_is_ours_is_what_the_control_group_leaves(changes, expected):
    facts = part("mem", **changes)(two_nodes(8 * GIB, 8 * GIB)(clean()))
    assert of.usable_memory(facts) == expected


def test_a_rank_prefers_no_memory_that_it_may_not_have():
    facts = part("mem", mems=(0,))(two_nodes()(clean()))
    assert [p.node for p in core_pinning.place_ranks(facts, 2).parts] == [0, None]


def test_the_root_folder_is_told_with_links_on_the_way_resolved(agent, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    disk = probe_facts(agent, f"{tmp_path}/link/root").disk
    assert (disk.root, disk.real) == (f"{tmp_path}/link/root", f"{tmp_path.resolve()}/root")


def test_an_empty_machine_is_unknown_and_not_zero(agent, tmp_path):
    facts = read(agent, tmp_path)
    assert facts.cpu == CpuFacts("x86_64", "", "", None, None, frozenset(), (), None)
    assert (of.count_usable_cores(facts), isa.cpu_level(facts.cpu)) == (None, "")
    assert (facts.mem.total, facts.mem.available, facts.mem.limit) == (None, None, None)


# --- this machine --------------------------------------------------------------------------------


def test_this_machine_tells_about_itself(agent, tmp_path):
    facts = probe_facts(agent, str(tmp_path / "not" / "made" / "yet"))
    assert facts.host == "here"
    assert facts.agent == "python"
    assert facts.disk.root == str(tmp_path / "not" / "made" / "yet")
    assert facts.disk.writable is True
    assert not (tmp_path / "not").exists()
    assert facts.cpu.allowed
    assert set(facts.cpu.allowed) <= {c.id for c in facts.cpu.cpus}
    assert facts.mem.total and facts.mem.available and facts.mem.total >= facts.mem.available
    assert any(n.name == "lo" and "127.0.0.1" in n.addresses for n in facts.net.nics)
    assert facts.pythons
    assert facts.clock is not None
    assert abs(facts.clock.offset) <= facts.clock.uncertainty + 0.5


# --- hosts without python ------------------------------------------------------------------------

_SH = """:kernel
Linux 5.14.0
:arch
x86_64
:hostname
n1
:user
me
:uid
1001
:home
/home/me
:ssh
10.0.0.9 40000 10.0.0.1 22
:boot
abc-def
:mem
MemTotal:       2048 kB
MemAvailable:   1024 kB
:os
PRETTY_NAME="Rocky Linux 9.4"
ID="rocky"
ID_LIKE="rhel centos fedora"
:df
Filesystem     1024-blocks    Used Available Capacity Mounted on
/dev/sda1         41022688 9000000  32022688      22% /home
tmpfs                65536       0     65536       0% /dev/shm
:cpu
processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Xeon
physical id\t: 0
core id\t\t: 0
flags\t\t: avx2 fma

processor\t: 1
physical id\t: 0
core id\t\t: 0

processor\t: 2
physical id\t: 1
core id\t\t: 0
:end
"""


def test_plain_sh_tells_enough_for_a_verdict():
    facts = of.from_sh("n1", _SH)
    assert (facts.agent, facts.pythons, facts.clock) == ("sh", (), None)
    assert (facts.user, facts.uid, facts.home, facts.boot_id) == ("me", 1001, "/home/me", "abc-def")
    assert facts.os_ids == ("rocky", "rhel", "centos", "fedora")
    assert (facts.mem.total, facts.mem.available) == (2 << 20, 1 << 20)
    assert (facts.mem.shm_total, facts.mem.shm_free) == (64 << 20, 64 << 20)
    assert (facts.disk.root, facts.disk.free) == ("/home/me/.ipexctl", 32022688 * 1024)
    assert (facts.net.ssh_address, of.count_usable_cores(facts), isa.cpu_level(facts.cpu)) == (
        "10.0.0.1",
        2,
        "avx2",
    )


def test_sh_that_knows_nothing_leaves_everything_unknown():
    facts = of.from_sh("n1", ":kernel\n:mem\n:df\n:cpu\n:end\n")
    assert (facts.kernel, facts.uid, facts.mem.total, facts.disk.free) == ("", None, None, None)
    assert (facts.cpu.cpus, facts.cpu.allowed, of.count_usable_cores(facts)) == ((), None, None)


# --- hosts that send nonsense --------------------------------------------------------------------


def _raw() -> dict[str, Any]:
    return {"host": {}, "cpu": {}, "mem": {}, "disk": {}, "net": {}}


@pytest.mark.parametrize(
    "raw", [None, [], "x", 7, {}, _raw() | {"cpu": []}, _raw() | {"net": None}]
)
def test_what_is_no_answer_of_the_probe_is_the_hosts_failure(raw):
    with pytest.raises(HostFailed) as e:
        of.from_json("n1", raw)
    assert e.value.slug == "invalid-facts"
    assert e.value.what.startswith("n1: ")


@pytest.mark.parametrize(
    "junk", [None, [], {}, "\x1b[2J", -1, 1e400, True, [[]], [{}], "9" * 5000, [None]]
)
def test_junk_in_any_place_is_unknown(junk):
    parts = {
        "host": ("kernel", "uid", "os_ids", "home"),
        "cpu": ("flags", "cpus", "allowed", "quota", "family", "vendor"),
        "mem": ("total", "available", "shm_total", "limit"),
        "disk": ("root", "free", "noexec"),
        "net": ("nics", "ssh_address", "hostname_addresses", "default_nic"),
    }
    raw = {part: dict.fromkeys(names, junk) for part, names in parts.items()}
    inside = {kind: dict.fromkeys(vars(kind()), junk) for kind in (UserLimits, Load, Power, System)}
    known = {kind.__name__.lower(): one for kind, one in inside.items()}
    prefix = {"path": "/x", "packages": junk, "mpi": junk, "omp": junk, "ccl": junk}
    software = {**dict.fromkeys(vars(SoftwareFacts()), junk), "prefixes": [prefix, junk]}
    raw |= {"nodes": junk, "pythons": junk, "condition": known, "software": software}
    facts = of.from_json("n1", raw)
    assert (facts.uid, facts.mem.total, facts.cpu.cpus, facts.nodes) == (None, None, (), ())
    assert (facts.net.ssh_address, facts.net.nics, facts.pythons) == ("", (), ())
    found = facts.condition
    assert (found.limits, found.power.governors, found.load.runs) == (UserLimits(), (), ())
    assert facts.software and [p.path for p in facts.software.prefixes] == ["/x"]
    assert of.from_json("n1", _raw() | {"condition": junk}).condition == Condition()


def test_text_from_a_host_cannot_move_the_cursor():
    raw = _raw() | {"host": {"os_name": "De\x1b[2Jb\x07ian\u202e\r\n", "user": "[red]me[/red]"}}
    facts = of.from_json("n1", raw)
    assert (facts.os_name, facts.user) == ("De[2Jbian", "?red?me??red?")


def test_a_name_from_a_host_is_no_command_where_a_fix_has_it():
    raw = _raw() | {"net": {"hostname": "a'; rm -rf ~; '", "hostname_resolves": False}}
    facts = of.from_json("n1", raw)
    (finding,) = [f for f in run_all(CheckedHosts((facts,))) if f.id == "NET-005"]
    assert str(finding.fix).startswith("echo 'ADDRESS a???rm?-rf?????' | ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0-3,8", (0, 1, 2, 3, 8)),
        ("", ()),
        ("5", (5,)),
        ("0-999999999999", ()),
        ("3-1", ()),
        ("a-b", ()),
        ("1,,2", ()),
    ],
)
def test_a_cpu_list_is_read_or_refused(text, expected):
    assert cpu_list(text) == expected


# --- judgements over facts -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "level"),
    [
        ("", ""),
        ("sse2", "sse"),
        (V2 + " avx", "avx"),
        (AVX2, "avx2"),
        (AVX512, "avx512"),
        (AMX, "amx"),
    ],
)
def test_flags_become_a_level(flags, level):
    assert isa.cpu_level(replace(made.cpu(), flags=frozenset(flags.split()))) == level


@pytest.mark.parametrize(
    ("have", "minimum", "expected"),
    [
        ("amx", "avx2", True),
        ("avx2", "avx512", False),
        ("avx2", "avx2", True),
        ("", "avx2", False),
        ("neon", "avx2", False),
    ],
)
def test_a_level_serves_what_is_made_for_a_lower_one(have, minimum, expected):
    assert isa.at_least(have, minimum) is expected


_NICS = (
    Nic("lo", True, 65536, ("127.0.0.1",)),
    Nic("ens1", True, 1500, ("10.1.0.5",)),
    Nic("ens2", False, 1500, ("10.2.0.5",)),
    Nic("eth9", True, 1500, ("10.9.0.5",)),
)


@pytest.mark.parametrize(
    ("ssh", "default", "nics", "expected"),
    [
        ("10.0.0.1", "ens1", _NICS, "10.0.0.1"),
        ("127.0.0.1", "eth9", _NICS, "10.9.0.5"),
        ("", "ens2", _NICS, "10.1.0.5"),
        ("127.0.0.1", "", _NICS[:1], "127.0.0.1"),
        ("", "", (), ""),
    ],
)
def test_others_reach_a_host_where_we_did_unless_that_was_loopback(ssh, default, nics, expected):
    facts = made.facts()
    net = replace(facts.net, ssh_address=ssh, default_nic=default, nics=nics)
    assert of.peer_address(replace(facts, net=net)) == expected


_DUAL = Nic("ens1", True, 1500, ("2001:db8::5", "10.1.0.5"))


@pytest.mark.parametrize(
    ("ssh", "nics", "expected"),
    [
        ("fe80::1%ens1", (_DUAL, _NICS[3]), "10.1.0.5"),
        ("febf::1%ens1", (replace(_DUAL, addresses=("fe80::1", "fd00::5")),), "fd00::5"),
        ("fe80::1%ens1", (replace(_DUAL, addresses=()), _NICS[3]), "fe80::1"),
        ("fe80::1%ens1", (_NICS[3],), "fe80::1"),
        ("fe80::1", (_DUAL,), "fe80::1"),
        ("169.254.3.4", _NICS, "169.254.3.4"),
    ],
)
def test_a_link_local_address_stands_for_another_one_of_its_interface(ssh, nics, expected):
    rows = [[n.name, n.up, n.mtu, list(n.addresses), n.speed, n.duplex] for n in nics]
    address, _, zone = ssh.partition("%")
    raw = {**_raw(), "net": {"ssh_address": address, "ssh_nic": zone, "nics": rows}}
    assert of.peer_address(of.from_json("n1", raw)) == expected
