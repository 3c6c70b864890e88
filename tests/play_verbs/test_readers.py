"""What steps read: Ansible's output, a doctor's report, an Accelerate config, fetched files."""

from __future__ import annotations

import errno
from collections import Counter
from pathlib import Path

import pytest

from ipexctl.doctor.report.finding import Finding, Severity, do
from ipexctl.doctor.report.report import Report
from ipexctl.inventory.inventory import Host
from ipexctl.play.accelerate_options import config_options
from ipexctl.play.steps.fleet_steps.ansible_step import read_recap
from ipexctl.play.steps.fleet_steps.doctor_step import Doctor
from ipexctl.play.text.play_outcome import State
from ipexctl.run.watch.fetch_outputs import move_into

# as ansible-core 2.19 prints it
ANSIBLE = """\
PLAY [all] *********************************************************************

TASK [write a file] ************************************************************
changed: [node01]
fatal: [node02]: FAILED! => {"changed": false, "msg": "Destination /x not writable"}
fatal: [node03]: UNREACHABLE! => {"changed": false, "msg": "Host key verification failed."}

PLAY RECAP *********************************************************************
node01                     : ok=2    changed=1    unreachable=0    failed=0    skipped=0    rescued=0    ignored=0
node02                     : ok=1    changed=0    unreachable=0    failed=1    skipped=0    rescued=0    ignored=0
node03                     : ok=0    changed=0    unreachable=1    failed=0    skipped=0    rescued=0    ignored=0
"""  # noqa: E501


def test_the_recap_of_ansible_is_read():
    found = read_recap(ANSIBLE.splitlines())
    assert found["node01"] == Counter(ok=2, changed=1)
    assert found["node02"] == Counter(ok=1, failed=1)
    assert found["node03"] == Counter(unreachable=1)


@pytest.mark.parametrize(
    "text",
    [
        "ERROR! the playbook: site.yml could not be found\n",
        'ok: [node01] => {"msg": "node01 : ok=3 changed=0"}\nnode01 : ok=3 changed=0 failed=0\n',
    ],
)
def test_without_a_recap_nothing_is_known_of_hosts(text):
    assert read_recap(text.splitlines()) == {}


CONFIG = """\
compute_environment: LOCAL_MACHINE
distributed_type: MULTI_CPU
mixed_precision: bf16
num_machines: 4
num_processes: 16
use_cpu: true
mpirun_config: {mpirun_hostfile: /home/user/hostfile}
"""


def test_an_accelerate_config_fills_in_what_the_step_does_not_say(tmp_path):
    (tmp_path / "c.yaml").write_text(CONFIG)
    notes: list[str] = []
    found = config_options(tmp_path / "c.yaml", {}, "", notes.append)
    assert (found.n, found.ppn) == (16, 4)
    assert found.env == {"ACCELERATE_MIXED_PRECISION": "bf16", "ACCELERATE_USE_CPU": "true"}
    assert any("mpirun_hostfile" in note and "hosts of the play" in note for note in notes)

    notes.clear()
    own = {"ACCELERATE_MIXED_PRECISION": "no"}
    found = config_options(tmp_path / "c.yaml", own, "n: 2", notes.append)
    assert (found.n, found.ppn) == (None, None)
    assert "ACCELERATE_MIXED_PRECISION" not in found.env
    assert any("n: 2" in note for note in notes)


def test_files_that_are_in_dest_already_are_not_new(tmp_path):
    for text, moved in (("1", (2, [])), ("1", (0, [])), ("2", (1, ["loss.txt"]))):
        fetched = tmp_path / "outputs"
        (fetched / "@node02").mkdir(parents=True)
        (fetched / "loss.txt").write_text(text)
        (fetched / "@node02/same.txt").write_text("same")
        assert move_into(fetched, tmp_path / "results") == moved
        assert not fetched.exists()
    assert (tmp_path / "results/loss.txt").read_text() == "2"
    assert (tmp_path / "results/@node02/same.txt").read_text() == "same"


def test_a_dest_that_cannot_be_written_is_an_error_with_its_name(tmp_path):
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs/a").write_text("1")
    (tmp_path / "results").write_text("a file")
    with pytest.raises(OSError, match="results"):
        move_into(tmp_path / "outputs", tmp_path / "results")
    assert (tmp_path / "outputs/a").exists()


def test_no_link_in_dest_leads_a_file_out_of_it(tmp_path):
    (tmp_path / "outputs/sub").mkdir(parents=True)
    (tmp_path / "outputs/sub/a").write_text("new")
    (tmp_path / "outputs/b").write_text("new")
    (tmp_path / "results").mkdir()
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "results/b").symlink_to(tmp_path / "mine")
    (tmp_path / "results/sub").symlink_to(tmp_path)
    with pytest.raises(PermissionError):
        move_into(tmp_path / "outputs", tmp_path / "results")
    assert not (tmp_path / "a").exists()
    (tmp_path / "results/sub").unlink()
    assert move_into(tmp_path / "outputs", tmp_path / "results")[0] == 1
    assert (tmp_path / "results/sub/a").read_text() == "new"
    assert (tmp_path / "results/b").read_text() == "new"
    assert (tmp_path / "mine").read_text() == "mine"


def test_dest_may_be_on_another_disk(tmp_path, monkeypatch):
    replace = Path.replace

    def apart(path, to):
        if path.name != to.name and path.suffix == ".part":
            return replace(path, to)
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(Path, "replace", apart)
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs/a").write_text("1")
    assert move_into(tmp_path / "outputs", tmp_path / "results")[0] == 1
    assert [p.read_text() for p in (tmp_path / "results").iterdir()] == ["1"]
    assert not (tmp_path / "outputs").exists()


SLOW = "the disk is slow"


def finding(severity: Severity, host: str) -> Finding:
    return Finding("X-001", severity, host, SLOW, "12 MB/s", "", do("mount it"))


@pytest.mark.parametrize(
    ("severity", "on", "fail_on", "failed"),
    [
        (Severity.FAIL, "a", "fail", ["a"]),
        (Severity.WARN, "a", "fail", []),
        (Severity.WARN, "a", "warn", ["a"]),
        (Severity.NOTE, "a", "warn", []),
        (Severity.WARN, "", "warn", ["a", "b"]),  # about the hosts together
    ],
)
def test_doctor_fails_the_hosts_with_findings_of_the_severity(severity, on, fail_on, failed):
    report = Report((Host("a"), Host("b")), (), (), (), (finding(severity, on),), 0.1)
    results = {host: Doctor(fail_on=fail_on).judge_host(report, host) for host in ("a", "b")}
    assert [host for host, r in results.items() if r.state is State.FAILED] == failed
    for host in failed:
        assert (results[host].detail, results[host].hint) == (f"X-001 {SLOW}", "mount it")
    assert failed or results["a"].detail == (
        "1 warning: X-001" if severity is Severity.WARN else "no warnings"
    )
