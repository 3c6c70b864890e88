"""Shapes as the host itself sees them."""

from __future__ import annotations

import os

import pytest

from ipexctl.errors import InputError
from ipexctl.lab import HostSpec, LabSpec
from ipexctl.lab.cluster.lab_spec import parse_hosts, parse_shape, parse_size
from tests.practice_hosts import start_lab
from tests.simulated_cpu import cpu, simulate_cpuinfo

CPUS = os.cpu_count() or 1

SHAPES = (
    ("amx", "nic=ens3,shm=64k"),
    ("avx512-bf16", "nic=eth0+ens3,disk=24m"),
    ("avx512", ""),
    ("avx2", ""),
    ("sse", "disk=16m"),
)


@pytest.fixture(scope="module")
def shaped(lab_root, tmp_path_factory):
    hosts = [parse_shape(HostSpec(covers=cpu(isa)), words) for isa, words in SHAPES]
    folder = tmp_path_factory.mktemp("covers")
    (folder / "node").mkdir()
    (folder / "node/online").write_text("0-7\n")
    (folder / "cpuinfo").write_text("model name: another\n")
    places = {"node": "/sys/devices/system/node", "cpuinfo": "/proc/cpuinfo"}
    covers = tuple((place, str(folder / name)) for name, place in places.items())
    hosts.append(HostSpec(covers=covers))
    lab = start_lab(LabSpec(name="shaped", hosts=tuple(hosts)), lab_root)
    yield lab
    lab.down()


@pytest.mark.parametrize(
    ("host", "command", "said"),
    [
        ("node01", "grep -c amx_tile /proc/cpuinfo", CPUS),
        ("node02", "grep -c avx512_bf16 /proc/cpuinfo; grep -c amx /proc/cpuinfo", f"{CPUS} 0"),
        ("node03", "grep -c avx512_vnni /proc/cpuinfo; grep -c bf16 /proc/cpuinfo", f"{CPUS} 0"),
        ("node04", "grep -c avx2 /proc/cpuinfo; grep -c avx512f /proc/cpuinfo", f"{CPUS} 0"),
        ("node05", "grep -c sse4_2 /proc/cpuinfo; grep -c avx /proc/cpuinfo", f"{CPUS} 0"),
        ("node01", "grep -c ^processor /proc/cpuinfo", CPUS),
        ("node01", "grep -m1 -o '8480+' /proc/cpuinfo", "8480+"),
        ("node01", "ls /sys/class/net", "ens3 lo"),
        ("node02", "ls /sys/class/net", "ens3 eth0 lo"),
        ("node01", "df --output=size -B1 /dev/shm | tail -1", 65536),
        ("node02", "command -v python3", "/usr/bin/python3"),
        ("node05", "pwd; ls -A", "/home/trainer"),
        ("node05", "touch x && rm x && echo mine", "mine"),
        ("node06", "cat /proc/cpuinfo", "model name: another"),
        ("node06", "ls /sys/devices/system/node; cat /sys/devices/system/node/*", "online 0-7"),
        ("node02", "head -c 32m /dev/zero > big; echo $?; rm big", 1),
    ],
)
def test_a_host_sees_the_shape_that_was_asked_for(shaped, host, command, said):
    done = shaped.run_in(host, ["sh", "-c", command], user="trainer")
    assert " ".join(done.stdout.split()) == str(said), done.stderr


def test_a_disk_is_a_file_system_of_its_own(shaped):
    argv = ["findmnt", "-no", "FSTYPE", "-T", shaped.hosts["node05"].home]
    kind = shaped.run_in("node05", argv).stdout.strip()
    assert kind == ("ext4" if shaped.rung == "full" else "tmpfs")


def test_a_link_rate_slows_what_a_host_sends(make_lab):
    hosts = (HostSpec(rate="20mbit"), HostSpec())
    lab = make_lab(LabSpec(name="slow", hosts=hosts))
    qdisc = lab.run_in("node01", ["tc", "qdisc", "show", "dev", "eth0"]).stdout
    assert "tbf" in qdisc and "rate 20Mbit" in qdisc
    assert "tbf" not in lab.run_in("node02", ["tc", "qdisc", "show", "dev", "eth0"]).stdout


def test_another_isa_keeps_the_real_processors():
    real = "processor\t: 0\nmodel name\t: Real\ncpu MHz\t\t: 1\nbugs\t\t: mds\nflags\t\t: fpu\n\n"
    made = simulate_cpuinfo(real + real.replace(": 0", ": 1"), "avx2").strip().split("\n\n")
    assert [block.splitlines()[0] for block in made] == ["processor\t: 0", "processor\t: 1"]
    for block in made:
        assert "E5-2680 v4" in block and " avx2 " in block and "cpu MHz\t\t: 1" in block
        assert "mds" not in block and "Real" not in block


@pytest.mark.parametrize(
    ("text", "size"), [("64k", 65536), ("200M", 200 << 20), ("2g", 2 << 30), ("512", 512)]
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("count", "options", "message"),
    [
        (1, ["node02:nic=ens3"], "no host 'node02'"),
        (1, ["node01:shm"], "unknown shape 'shm'"),
        (1, ["node01:shm=much"], "'much' is not a size"),
        (1, ["node01:sockets=2"], "unknown shape 'sockets=2'"),
        (1, ["node01:nic=lo"], "'lo' is not a valid network card"),
        (1, ["node01:nic=eth0+eth0"], "different names"),
        (1, ["node01:home=/x"], "unknown shape 'home=/x'"),
        (1, ["node01:rate=fast"], "'fast' is not a valid link rate"),
        (1, ["node01:disk=1k"], "the disk must be at least 8 MiB"),
        (0, [], "a lab must have 1 to 200 hosts, not 0"),
    ],
)
def test_wrong_words_are_refused_with_the_reason(count, options, message):
    with pytest.raises(InputError, match=message):
        LabSpec(hosts=parse_hosts(count, options)).checked()


def test_options_make_hosts():
    assert parse_hosts(3, ["node02:nic=ens3+eth1,shm=64m"]) == (
        HostSpec(name="node01"),
        HostSpec(name="node02", nics=("ens3", "eth1"), shm=64 << 20),
        HostSpec(name="node03"),
    )
