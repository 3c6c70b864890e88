"""The plays that prepare hosts, on practice hosts, by an ordinary user with sudo; and reboots."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipexctl.common.waiting import wait_until
from ipexctl.lab import LabSpec
from tests.conftest import MakeLab
from tests.plays_lab.playing import HOSTS, SUDOERS, Playing, needs_sudo

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]
# Packages would come from an index, and vm.* belongs to this machine and not to a practice host.
OURS = ("--skip-tags", "packages,kernel")
LIMITS = "/etc/security/limits.d/90-training.conf"


def test_hosts_are_prepared_as_check_predicts_and_only_once(hosts: Playing):
    needs_sudo()
    hosts.allow_sudo(HOSTS)
    hosts.on("node02", "sh", "-c", f"echo 'trainer - memlock unlimited' > {LIMITS}")
    shown = hosts.run("prepare-debian", "--check", "--diff", *OURS)
    assert shown.returncode == 10 and "+trainer - nofile 65536" in shown.stdout
    assert hosts.on("node01", "sh", "-c", f"cat {LIMITS} 2>/dev/null; true") == ""
    predicted = hosts.predicted_and_done("prepare-debian", *OURS)
    assert {"ok", "would change"} <= set(predicted.values())
    for host in HOSTS:
        assert hosts.on(host, "sort", LIMITS).splitlines() == [
            "trainer - memlock unlimited", "trainer - nofile 65536", "trainer - nproc 65536",
        ]  # fmt: skip
        assert hosts.on(host, "cat", "/proc/sys/net/core/somaxconn") == "4096\n"
        ports = hosts.on(host, "cat", "/proc/sys/net/ipv4/ip_local_reserved_ports")
        assert ports == "29500-29600\n"
    code, again = hosts.states("prepare-debian", *OURS)
    assert code == 0 and set(again.values()) <= {"ok", "skipped"}
    code, again = hosts.states("prepare-debian", "--check", *OURS)
    assert code == 0 and set(again.values()) <= {"ok", "skipped"}


def test_a_preparation_for_another_system_changes_nothing(hosts: Playing):
    done = hosts.run("prepare-rhel", *OURS)
    assert done.returncode == 1
    assert "this play is for" in done.stdout
    assert hosts.run("prepare-rhel", "--check", *OURS).returncode == 1


def boot(hosts: Playing, host: str, command: str) -> None:
    """`systemctl reboot` of this host: what a practice host can show of one."""
    hosts.allow_sudo([host])
    lines = (
        "mkdir -p /opt/bin",
        f"printf '#!/bin/sh\\n{command}\\n' > /opt/bin/systemctl",
        "chmod 755 /opt/bin/systemctl",
        f"echo 'Defaults secure_path=/opt/bin:/usr/bin:/bin' >> {SUDOERS}",
        "tr 0-9 1-90 < /proc/sys/kernel/random/boot_id > /opt/boot_id",
    )
    hosts.on(host, "sh", "-ec", "\n".join(lines))


def test_a_reboot_waits_for_a_new_boot(hosts: Playing):
    needs_sudo()
    boot(hosts, "node01", "mount --bind /opt/boot_id /proc/sys/kernel/random/boot_id")
    text = "hosts: node01\nsteps:\n  - reboot: {timeout: 40s}\n  - sh: touch ~/after\n"
    code, states = hosts.states(text, "--check")
    assert (code, states[1, "node01"]) == (10, "would change")
    code, states = hosts.states(text)
    assert (code, states[1, "node01"]) == (0, "changed")
    assert Path(hosts.home("node01"), "after").exists()


def test_a_reboot_that_never_returns_fails_its_host_alone(make_lab: MakeLab, full_rung, tmp_path):
    needs_sudo()
    lab = make_lab(LabSpec.plain(2, name="reboots"))
    hosts = Playing(lab, tmp_path)
    boot(hosts, "node01", "touch /opt/rebooting")
    boot(hosts, "node02", "mount --bind /opt/boot_id /proc/sys/kernel/random/boot_id")
    text = "steps:\n  - reboot: {timeout: 12s}\n  - sh: touch ~/after\n"
    process = hosts.start(text)
    assert wait_until(
        lambda: hosts.on("node01", "sh", "-c", "ls /opt/rebooting 2>&1; true")[:4] == "/opt"
    )
    lab.fault("node01", "kill")
    out, _ = process.communicate(timeout=110)
    assert process.returncode in (1, 4), out
    assert "node01: failed: reboot (play.yaml:2)\n" in out and " 12 s" in out, out
    assert "--from" in out
    assert Path(hosts.home("node02"), "after").exists()
