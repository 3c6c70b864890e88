"""How a machine is set, read from trees of our own and from hosts that send nonsense."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ipexctl.base.host_answer import read_record
from ipexctl.common.tolerant_reads import read_text
from ipexctl.facts.cpu_frequency_facts import Power
from ipexctl.facts.facts import Condition, Facts
from ipexctl.facts.kernel_facts import Kernel
from ipexctl.facts.limits_facts import NO_LIMIT, Limit, UserLimits
from ipexctl.facts.load_facts import Load
from ipexctl.inventory.inventory import Host
from ipexctl.machines.agent import Agent
from ipexctl.machines.agent_start import start_host_agent
from ipexctl.machines.probe_host import probe_facts
from ipexctl.machines.wire.transport import LocalTransport
from ipexctl.remote.facts import name_servers, read_interfaces, read_load, read_system
from ipexctl.remote.facts.read_ports_and_firewalls import UFW_ENABLED
from tests.facts.machines import Machine, regular

_CPU = "sys/devices/system/cpu"
_FREQ = f"{_CPU}/cpufreq"


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    agent = start_host_agent(LocalTransport(), Host("here", local=True))
    yield agent
    agent.close()


def read(agent: Agent, tree: Path, files: dict[str, str]) -> Facts:
    machine = Machine(regular(1, 4, 1), files=files)
    return probe_facts(agent, fs=str(machine.write(tree)))


def test_frequencies_and_heat_are_read_from_all_policies_and_cores(agent, tmp_path):
    files = {
        f"{_FREQ}/policy0/scaling_driver": "intel_cpufreq",
        f"{_FREQ}/policy0/scaling_governor": "powersave",
        f"{_FREQ}/policy2/scaling_governor": "performance",
        f"{_FREQ}/policy0/scaling_max_freq": "2000000",
        f"{_FREQ}/policy0/cpuinfo_max_freq": "3800000",
        f"{_FREQ}/policy0/energy_performance_preference": "power",
        f"{_CPU}/intel_pstate/status": "passive",
        f"{_CPU}/intel_pstate/no_turbo": "1",
        f"{_CPU}/cpu0/thermal_throttle/core_throttle_count": "2",
        f"{_CPU}/cpu3/thermal_throttle/core_throttle_count": "5",
        f"{_CPU}/cpu0/thermal_throttle/package_throttle_count": "10",
    }
    assert read(agent, tmp_path, files).condition.power == Power(
        driver="intel_cpufreq",
        status="passive",
        governors=("performance", "powersave"),
        preferences=("power",),
        turbo=False,
        max_khz=2_000_000,
        hardware_khz=3_800_000,
        throttled=17,
    )


@pytest.mark.parametrize(("boost", "expected"), [("1", True), ("0", False)])
def test_processors_without_intel_pstate_tell_turbo_by_boost(agent, tmp_path, boost, expected):
    facts = read(agent, tmp_path, {f"{_FREQ}/boost": boost})
    assert facts.condition.power.turbo is expected


_NO_BOOST = {
    f"{_FREQ}/policy0/scaling_driver": "cppc_cpufreq",
    f"{_FREQ}/boost": "0",
    f"{_CPU}/cpu0/acpi_cppc/highest_perf": "280",
    f"{_CPU}/cpu0/acpi_cppc/nominal_perf": "280",
}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({f"{_CPU}/cpu0/acpi_cppc/highest_perf": "320"}, False),
        ({f"{_CPU}/cpu0/acpi_cppc/highest_perf": "320", f"{_FREQ}/boost": "1"}, True),
        ({f"{_CPU}/cpu0/acpi_cppc/nominal_perf": ""}, None),
        ({f"{_FREQ}/policy0/scaling_driver": "acpi-cpufreq"}, False),
    ],
)
def test_turbo_is_not_off_where_the_processor_has_none(agent, tmp_path, files, expected):
    """cppc_cpufreq has its switch on every machine, most often off."""
    power = read(agent, tmp_path, _NO_BOOST | files).condition.power
    assert power.turbo is expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"device": "", "speed": "25000", "duplex": "full"}, [25000, "full"]),
        ({"lower_eth0": "", "speed": "100", "duplex": "half"}, [100, "half"]),
        ({"device": "", "speed": "-1", "duplex": "unknown"}, [None, ""]),
        ({"device": "", "speed": "4294967295"}, [None, ""]),
        ({"device": ""}, [None, ""]),
        ({"speed": "10000", "duplex": "full"}, [None, ""]),  # veth, tun
    ],
)
def test_a_link_has_the_speed_of_its_card(tmp_path, files, expected):
    for name, text in files.items():
        (tmp_path / name).write_text(text + "\n")
    assert read_interfaces.read_link_speed(str(tmp_path), read_text) == expected


def test_kernel_switches_and_memory_are_read(agent, tmp_path):
    files = {
        "proc/meminfo": "MemTotal: 1000 kB\nSwapTotal: 500 kB\nSwapFree: 100 kB\n"
        "CommitLimit: 900 kB\nCommitted_AS: 800 kB\nHugePages_Total: 3\nHugepagesize: 2048 kB\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]",
        "proc/sys/kernel/numa_balancing": "1",
        "proc/sys/vm/zone_reclaim_mode": "1",
        "proc/sys/vm/overcommit_memory": "2",
        "proc/sys/vm/swappiness": "100",
        f"{_CPU}/smt/control": "forceoff",
        f"{_CPU}/present": "0-5",
        f"{_CPU}/online": "0-3",
    }
    facts = read(agent, tmp_path, files)
    assert facts.condition.kernel == Kernel(
        thp="never",
        numa_balancing=1,
        zone_reclaim=1,
        overcommit=2,
        swappiness=100,
    )
    mem = facts.mem
    assert (mem.swap_total, mem.swap_free, mem.huge) == (500 << 10, 100 << 10, 6 << 20)
    assert (mem.commit_limit, mem.committed) == (900 << 10, 800 << 10)
    cpu = facts.cpu
    assert (cpu.offline, cpu.smt) == ((4, 5), "forceoff")


@pytest.mark.parametrize(
    ("files", "kill", "remove"),
    [
        ({"run/systemd/system/x": ""}, False, True),
        ({"etc/systemd/logind.conf": "KillUserProcesses=yes\n"}, None, None),
        (
            {
                "run/systemd/system/x": "",
                "usr/lib/systemd/logind.conf": "[Login]\nKillUserProcesses=no\nRemoveIPC=no\n",
                "etc/systemd/logind.conf": "[Login]\n#RemoveIPC=yes\nKillUserProcesses = yes\n",
            },
            True,
            False,
        ),
        (
            {
                "run/systemd/system/x": "",
                "etc/systemd/logind.conf.d/10-a.conf": "RemoveIPC=no\n",
                "etc/systemd/logind.conf.d/20-b.conf": "RemoveIPC=true\n",
                "etc/systemd/logind.conf.d/30-c.conf.bak": "RemoveIPC=no\n",
            },
            False,
            True,
        ),
    ],
)
def test_the_last_file_of_logind_decides(agent, tmp_path, files, kill, remove):
    system = read(agent, tmp_path, files).condition.system
    assert (system.kill_user_processes, system.remove_ipc) == (kill, remove)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, ""),
        ({".dockerenv": ""}, "docker"),
        ({"run/.containerenv": ""}, "podman"),
        ({"proc/1/cgroup": "0::/kubepods.slice/pod7\n"}, "kubernetes"),
        ({"proc/1/cgroup": "4:memory:/lxc/box\n"}, "lxc"),
        ({"proc/1/cgroup": "0::/init.scope\n"}, ""),
        ({"proc/1/cgroup": "0::/\n", "run/systemd/container": "lxc\n"}, "lxc"),
        ({"run/systemd/container": "systemd-nspawn"}, "systemd-nspawn"),
        ({".dockerenv": "", "run/systemd/container": "ipexctl lab"}, "ipexctl lab"),
        ({"run/systemd/container": "wsl\n"}, ""),  # SYS-008 tells of it
    ],
)
def test_a_container_is_known_by_what_its_runtime_leaves(agent, tmp_path, files, expected):
    assert read(agent, tmp_path, files).condition.system.container == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((), ""),
        (("SINGULARITY_CONTAINER",), "singularity"),
        (("SINGULARITY_CONTAINER", "APPTAINER_CONTAINER"), "apptainer"),
    ],
)
def test_a_container_from_an_image_file_is_known_by_its_environment(names, expected):
    assert (
        read_system._container("/nowhere", lambda path: "", dict.fromkeys(names, "x")) == expected
    )


def test_the_tightest_limit_of_processes_counts(agent, tmp_path):
    files = {
        "proc/self/cgroup": "0::/a/b\n",
        "proc/mounts": "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
        "sys/fs/cgroup/a/pids.max": "512",
        "sys/fs/cgroup/a/b/pids.max": "max",
    }
    assert read(agent, tmp_path, files).condition.limits.pids == 512


def test_this_machine_tells_its_limits_and_its_temporary_folder(agent):
    facts = probe_facts(agent)
    limits = facts.condition.limits
    assert limits.nofile and 0 < limits.nofile.soft <= limits.nofile.hard
    assert limits.file_size and limits.nproc and limits.stack
    assert facts.condition.system.bits == 64
    assert facts.tmp and facts.tmp.there and facts.tmp.writable
    assert facts.home_disk and facts.home_disk.filesystem


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ([1024, 4096], Limit(1024, 4096)),
        ([8, -1], Limit(8, NO_LIMIT)),
        ([-1, -1], Limit(NO_LIMIT, NO_LIMIT)),
        ([1 << 63, 1 << 63], Limit(NO_LIMIT, NO_LIMIT)),
        ([1], None),
        ([-5, 7], None),
        (["a", 7], None),
        ("12", None),
        (None, None),
    ],
)
def test_a_limit_is_two_numbers_or_unknown(raw, expected):
    got = read_record(Condition, {"limits": {"nofile": raw}}).limits
    assert got == replace(UserLimits(), nofile=expected)


# --- load ----------------------------------------------------------------------------------------


def test_load_and_pressure_are_read(agent, tmp_path):
    files = {
        "proc/loadavg": "197.25 150.00 120.50 3/420 99",
        "proc/stat": "cpu 1 2 3 4\nprocs_running 3\nprocs_blocked 5\n",
        "proc/pressure/cpu": "some avg10=98.10 avg60=9.00 avg300=1.00 total=1\n",
        "proc/pressure/memory": "some avg10=9.00 avg60=0.00 avg300=0.00 total=1\n"
        "full avg10=12.50 avg60=0.00 avg300=0.00 total=1\n",
    }
    load = read(agent, tmp_path, files).condition.load
    assert load == Load((197.25, 150.0, 120.5), None, (), 5, 98.1, 12.5)


def test_a_kernel_without_pressure_says_nothing_about_it(agent, tmp_path):
    assert read(agent, tmp_path, {"proc/loadavg": "junk"}).condition.load == Load()


@pytest.fixture
def burners(tmp_path):
    """Three processes that compute, under a name of their own."""
    program = tmp_path / "burner"
    program.symlink_to(sys.executable)
    argv = [str(program), "-ISc", "print(flush=True)\nwhile True: pass"]
    running = [subprocess.Popen(argv, stdout=subprocess.PIPE) for _ in range(3)]
    try:
        for process in running:
            assert process.stdout and process.stdout.readline()
        yield
    finally:
        for process in running:
            process.kill()
            process.communicate()


@pytest.mark.usefixtures("burners")
def test_who_computes_on_a_busy_host_is_named_and_we_are_not(monkeypatch):
    monkeypatch.setattr(read_load, "TOP", 99)  # others may compute here, too
    monkeypatch.setattr(read_load, "LOOK", 1.0)

    def busy(path: str) -> str:
        return "99.0 99.0 99.0 9/99 9" if path == "/proc/loadavg" else read_text(path)

    begun = read_load.begin_load_sample(busy, "", True)
    assert os.getpid() not in begun["look"]["programs"]
    end = time.monotonic() + 0.3
    while time.monotonic() < end:  # we compute, too
        pass
    found = read_load.finish_load_sample(busy, "", begun)
    assert found["busy"] > 0
    assert "burner" in [name for name, _ in found["top"]]


def test_an_idle_host_is_not_looked_at_twice():
    def idle(path: str) -> str:
        return "0.0 0.0 0.0 1/99 9" if path == "/proc/loadavg" else read_text(path)

    begun = read_load.begin_load_sample(idle, "", True)
    assert begun["look"] is None
    assert read_load.finish_load_sample(idle, "", begun)["busy"] is None


# --- name servers --------------------------------------------------------------------------------


def test_a_name_server_whose_address_cannot_be_encoded_is_one_that_does_not_respond():
    files = {"/etc/resolv.conf": "nameserver 10..1\n"}
    queries = name_servers.query_name_servers(lambda path: files.get(path, ""))
    [[address, configured, responds, why]] = name_servers.collect_dns_answers(queries)
    assert (address, configured, responds) == ("10..1", True, False)
    assert "label" in why


# --- AMX -----------------------------------------------------------------------------------------

_FILTER = """
import ctypes, struct, sys
from ipexctl.remote.facts import read_cpu
libc = ctypes.CDLL(None, use_errno=True)
number = int(sys.argv[1])
refuse, allow = (0x06, 0, 0, 0x50000 | number), (0x06, 0, 0, 0x7FFF0000)
rules = [(0x20, 0, 0, 0), (0x15, 0, 1, 158), refuse, allow]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(rules), ctypes.addressof(code)))
if number:
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, program) == 0, ctypes.get_errno()
print(read_cpu.amx_kernel())
"""


_KERNEL = [int(n) for n in re.findall(r"\d+", os.uname().release)[:2]]
_KNOWS = pytest.mark.skipif(_KERNEL < [5, 16], reason="this kernel may not know AMX")


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="arch_prctl is x86's")
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (errno.EINVAL, {"False"}),  # what a kernel answers that does not know the question
        (errno.EPERM, {"None"}),  # what a filter of system calls answers
        (errno.ENOSYS, {"None"}),
        pytest.param(0, {"True", "None"}, marks=_KNOWS),  # with AMX or without
    ],
)
def test_the_kernel_is_asked_for_amx_itself(error, expected):
    argv = [sys.executable, "-c", _FILTER, str(error)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert done.stdout.strip() in expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# /etc/ufw/ufw.conf\nENABLED=yes\nLOGLEVEL=low\n", True),
        ('ENABLED="yes"\n', True),
        ("LOGLEVEL=low\nENABLED=YES", True),
        ("enabled='yes'\n", True),
        ("#ENABLED=yes\nENABLED=no\n", False),
        ("", False),
    ],
)
def test_ufw_is_found_active_however_its_settings_are_spelled(text, expected):
    assert bool(UFW_ENABLED.search(text)) is expected
