"""Each check of one host sees its trouble alone, and nothing on a host that is well."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ipexctl.doctor.checks import all_checks, run_all
from ipexctl.doctor.report.cluster import CheckedHosts, install_command
from ipexctl.facts.facts import Facts
from tests import made
from tests.checks.cases import HARMLESS, ONE_HOST
from tests.checks.hosts import (
    GIB,
    ROWS,
    both,
    clean,
    findings,
    flags,
    part,
    python,
    seen,
    state,
    three,
    two_nodes,
    whole,
)
from tests.facts.machines import AVX2, V2


def test_clean_hosts_give_no_finding_at_all():
    assert seen(*three()) == []
    assert seen(clean()) == []


def test_a_host_that_tells_nothing_gives_no_finding_but_python():
    nothing = replace(made.cpu(), flags=frozenset(), cpus=(), arch="", allowed=None)
    unknown = dict.fromkeys(("total", "available", "swap_total", "shm_total", "shm_free"))
    facts: Facts = part("mem", **unknown)(replace(made.facts(), cpu=nothing, clock=None, libc=""))
    facts = part("disk", free=None, free_inodes=None, noexec=None, writable=None)(facts)
    assert [f[0] for f in seen(replace(facts, pythons=()))] == ["PY-001"]


@pytest.mark.parametrize("case", ONE_HOST, ids=str)
def test_one_trouble_gives_one_finding(case):
    (found,) = findings(case.change(clean()))
    said = (found.id, found.severity.value, found.host, found.evidence)
    assert said == (case.id, case.severity, "node01", case.evidence)
    assert all((found.title, found.why, found.fix))


@pytest.mark.parametrize("change", HARMLESS.values(), ids=HARMLESS)
def test_what_does_no_harm_is_no_finding(change):
    assert seen(change(clean())) == []


def fix_of(number: str, facts: Facts) -> str:
    return next(str(f.fix) for f in findings(facts) if f.id == number)


@pytest.mark.parametrize(
    "name", ["QEMU Virtual CPU version 2.5+", "Intel Xeon Processor (Skylake)"]
)
def test_a_guest_of_an_unnamed_processor_is_told_to_look_below_it(name):
    guest = flags(AVX2 + " hypervisor", model_name=name)(clean())
    real = flags(AVX2 + " hypervisor", model_name="Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.4GHz")
    assert "host-passthrough" in fix_of("CPU-002", guest)
    assert "fp32" in fix_of("CPU-002", real(clean()))
    assert "host-passthrough" not in fix_of("CPU-002", real(clean()))


def test_hidden_instructions_are_exposed_where_they_are_hidden():
    guest = part("cpu", flags=frozenset((AVX2 + " hypervisor").split()))(clean())
    bare = part("cpu", flags=frozenset(AVX2.split()))(clean())
    assert "host-passthrough" in fix_of("CPU-005", guest)
    assert "/proc/cmdline" not in fix_of("CPU-005", guest)
    assert "/proc/cmdline" in fix_of("CPU-005", bare)


def test_a_cpuset_that_leaves_a_small_part_of_the_memory_is_said():
    far = both(two_nodes(4 * GIB, 12 * GIB), part("cpu", allowed=(0, 1)), part("mem", mems=(0,)))
    (found,) = [f for f in findings(far(clean())) if f.id == "MEM-009"]
    assert found.evidence.startswith("4.0 GiB of 16 GiB: cpuset.mems ")
    assert found.evidence.endswith(" 0")
    assert "--cpuset-mems" in str(found.fix)


_READ_ONLY = [case for case in ONE_HOST if "read-only" in case.evidence]


@pytest.mark.parametrize("where", ["", "docker"])
@pytest.mark.parametrize("case", _READ_ONLY, ids=str)
def test_what_is_mounted_read_only_is_not_mended_by_mkdir_or_chmod(case, where):
    fix = fix_of(case.id, state("system", container=where)(case.change(clean())))
    assert not {"mkdir", "chmod", "install"} & set(fix.split())
    assert ("remount,rw" in fix) is not bool(where)
    assert len(_READ_ONLY) == 5


REAL = "Intel(R) Xeon(R) CPU E5-2650 v2 @ 2.60GHz"
QEMU = "QEMU Virtual CPU version 2.5+"


@pytest.mark.parametrize(
    ("cpu", "name", "exposed"),
    [
        (V2, "Made CPU", False),
        (V2 + " hypervisor", REAL, False),
        (V2 + " hypervisor", QEMU, True),
        ("sse sse2 hypervisor", QEMU, True),
        ("sse sse2 hypervisor", REAL, False),
        ("sse sse2", "Made CPU", False),
    ],
)
def test_what_a_processor_never_had_is_not_exposed(cpu, name, exposed):
    fix = fix_of("CPU-001", flags(cpu, model_name=name)(clean()))
    assert ("host-passthrough" in fix) is exposed
    assert "leave" in fix.split()


_DEBIAN = "sudo apt-get install -y --reinstall python3-minimal"
_PARTS = "python3.11-minimal libpython3.11-minimal libpython3.11-stdlib"


@pytest.mark.parametrize(
    ("path", "ids", "name", "fix"),
    [
        ("/usr/bin/python3", "debian", "Debian GNU/Linux 12 (bookworm)", f"{_DEBIAN} {_PARTS}"),
        ("/usr/bin/python3", "debian", "Something", _DEBIAN),
        (
            "/usr/bin/python3",
            "rocky",
            "Rocky Linux 9",
            "sudo dnf reinstall -y python3 python3-libs",
        ),
        ("/bin/python3", "sles", "SLES", "sudo zypper install -y --force python3 python3-base"),
        ("/opt/x/bin/python3", "debian", "", "sudo apt-get install -y python3 python3-venv"),
    ],
)
def test_a_python_that_is_there_and_broken_is_reinstalled(path, ids, name, fix):
    there = whole(pythons=(), tried=((path, "no"),), os_ids=(ids,), os_name=name)(clean())
    assert fix_of("PY-001", there) == fix


_ELSEWHERE = "use a folder on another disk: --root /path"


@pytest.mark.parametrize(
    ("there", "owner", "fix"),
    [
        (True, 0, "sudo chown -R trainer: /home/trainer/.ipexctl"),
        (True, None, "sudo chown -R trainer: /home/trainer/.ipexctl"),
        (True, 1000, "chmod -R u+rwX /home/trainer/.ipexctl"),
        (True, 1001, ""),
        (False, 0, "sudo install -d -m 700 -o trainer /home/trainer/.ipexctl"),
        (False, 1001, ""),
    ],
)
def test_a_folder_of_root_is_given_back_and_that_of_another_user_is_not(there, owner, fix):
    change = part("disk", writable=False, there=there, owner=owner)
    facts = part("disk", root="/home/trainer/.ipexctl")(change(whole(uid=1000)(clean())))
    assert fix_of("DISK-001", facts).splitlines() == [*filter(None, [fix]), _ELSEWHERE]


def test_what_a_cgroup_leaves_is_raised_where_the_cgroup_sets_it():
    limited = part("mem", limit=8 * GIB, limit_left=1 * GIB)(clean())
    first, *rest = fix_of("MEM-001", limited).splitlines()
    assert "limits.memory" in first and "ps -eo" in rest[0]
    assert "limits.memory" not in fix_of("MEM-001", part("mem", available=1 * GIB)(clean()))


@pytest.mark.parametrize("where", ["", "docker"])
def test_shared_memory_grows_where_it_can(where):
    small = both(part("mem", shm_total=1 << 20, shm_free=1 << 20), state("system", container=where))
    fix = fix_of("SHM-001", small(clean()))
    assert ("docker run" in fix, "mount" in fix) == (bool(where), not where)


def test_a_file_system_that_is_never_writable_is_not_remounted():
    image = part("disk", writable=False, read_only=True, filesystem="squashfs")(clean())
    fix = fix_of("DISK-001", image)
    assert "--root /path" in fix and "mount" not in fix


def test_permissions_of_a_folder_other_than_tmp_are_left_alone():
    assert "chmod" not in fix_of("TMP-001", part("tmp", root="/scratch", writable=False)(clean()))
    assert "mkdir -p /scratch" in fix_of(
        "TMP-001", part("tmp", root="/scratch", there=False)(clean())
    )


# --- the declarations ----------------------------------------------------------------------------


def test_every_severity_that_a_check_declares_is_seen_in_a_case():
    cases = {(c.id, c.severity) for c in ONE_HOST}
    elsewhere = {"NET", "SOFT", "MPI"}  # in test_stack_and_network.py
    hosts = [c for c in all_checks() if not c.cluster and c.family not in elsewhere]
    assert {(c.id, s.value) for c in hosts for s in c.severities} <= cases


def test_an_id_stands_for_one_check():
    ids = [c.id for c in all_checks()]
    assert sorted(set(ids)) == sorted(ids)


# --- texts ---------------------------------------------------------------------------------------


_CARRIED = "ipexctl install --python-from FOLDER"


@pytest.mark.parametrize(
    ("system", "ids", "minors", "expected"),
    [
        ("Debian GNU/Linux 10 (buster)", "debian", range(10, 14), _CARRIED),
        ("Debian GNU/Linux 11 (bullseye)", "debian", range(10, 14), _CARRIED),
        ("Debian GNU/Linux 12 (bookworm)", "debian", range(10, 14), "sudo apt-get"),
        ("Debian GNU/Linux 12 (bookworm)", "debian", range(12, 14), _CARRIED),
        ("Ubuntu 20.04.6 LTS", "ubuntu debian", range(9, 14), _CARRIED),
        ("Ubuntu 22.04.4 LTS", "ubuntu debian", range(10, 14), "sudo apt-get"),
        ("Ubuntu 24.04 LTS", "ubuntu debian", range(10, 14), "sudo apt-get"),
        ("Rocky Linux 8.9 (Green Obsidian)", "rocky rhel", range(9, 14), "sudo dnf python3.11"),
        ("Red Hat Enterprise Linux 9.4 (Plow)", "rhel", range(12, 14), "sudo dnf python3.12"),
        ("CentOS Linux 7 (Core)", "centos rhel", range(9, 14), _CARRIED),
        ("SUSE Linux Enterprise Server 15 SP5", "sles suse", range(9, 14), "sudo zypper python311"),
        ("openSUSE Leap 15.5", "opensuse-leap suse", range(12, 14), _CARRIED),
        ("Arch Linux", "arch", range(9, 14), _CARRIED),
    ],
)
def test_a_distribution_without_a_python_that_fits_is_not_asked_for_one(
    system, ids, minors, expected
):
    stock = next(row for row in ROWS if not row.ipex)
    row = replace(stock, pythons=tuple((3, minor) for minor in minors))
    facts = replace(clean(), os_name=system, os_ids=tuple(ids.split()), pythons=python(6))
    fix = next(str(f.fix) for f in run_all(CheckedHosts((facts,), rows=(row,))) if f.id == "PY-002")
    assert all(word in fix for word in expected.split())


def test_an_unknown_distribution_gets_all_three():
    fix = install_command(replace(clean(), os_ids=()), debian="a", rhel="b", suse="c")
    assert [line.split()[1] for line in fix.lines] == ["apt-get", "dnf", "zypper"]
