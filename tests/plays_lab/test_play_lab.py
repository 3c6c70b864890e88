"""Plays on real hosts, by an ordinary user: sudo, failures, interrupts, reruns."""

from __future__ import annotations

import hashlib
import random
import re
import shutil
import signal
import time
from pathlib import Path

import pytest

from ipexctl.common.waiting import wait_until
from ipexctl.lab import LabSpec
from tests.answering_terminal import answering
from tests.conftest import MakeLab
from tests.plays_lab.playing import HOSTS, Playing, interrupt, needs_sudo

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]
ROOT_STEPS = """\
name: limits
sudo: true
steps:
  - file: {path: /etc/security/limits.d/train.conf, content: "* - memlock unlimited\\n"}
    notify: tell
  - line: {path: /etc/hosts, line: "10.9.9.9 other"}
  - copy: {src: app.conf, dest: /opt/app.conf, mode: "0640", group: trainer}
  - sh: id -un > ~/me
    sudo: false
    name: own account
handlers:
  tell: [{sh: "echo told ${host} as $(id -un)"}]
"""


def test_what_check_says_is_what_then_changes_and_a_second_run_changes_nothing(hosts):
    needs_sudo()
    hosts.allow_sudo(HOSTS)
    hosts.on(
        "node02",
        "sh",
        "-c",
        "mkdir -p /opt; cp /etc/hosts /tmp/h; echo '10.9.9.9 other' >> /etc/hosts",
    )
    predicted = hosts.predicted_and_done(ROOT_STEPS)
    assert predicted[2, "node02"] == "ok" and predicted[2, "node01"] == "would change"
    assert (
        hosts.on("node03", "cat", "/etc/security/limits.d/train.conf") == "* - memlock unlimited\n"
    )
    assert hosts.on("node03", "stat", "-c", "%a %U %G", "/opt/app.conf") == "640 root trainer\n"
    assert Path(hosts.home("node01"), "me").read_text() == "trainer\n"
    again = hosts.run(ROOT_STEPS)
    assert "told" not in again.stdout
    assert re.findall(r"^(\d) .*?(\d) changed", again.stdout.replace("  ", ""), re.M) == [
        ("4", "4")
    ]


def test_sudo_that_asks_is_found_before_the_first_step_and_answered_once(hosts):
    needs_sudo()
    hosts.allow_sudo(["node01"])
    hosts.allow_sudo(HOSTS[1:], password="pa55-word")
    text = "steps:\n  - sh: touch ~/begun\n  - sh: id -un\n    sudo: true\n"
    refused = hosts.run(text)
    assert refused.returncode == 1
    assert "node02: failed" in refused.stdout and "--ask-sudo-pass" in refused.stdout
    assert Path(hosts.home("node01"), "begun").exists()
    assert not Path(hosts.home("node02"), "begun").exists()
    with answering(b"pa55-word\n") as terminal:
        done = hosts.run(text, "--ask-sudo-pass", stdin=terminal.fd)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(re.findall(r"^(node\d\d) \| root$", done.stdout, re.M)) == list(HOSTS)
    with answering(b"wrong-word\n") as terminal:
        done = hosts.run(text, "--ask-sudo-pass", stdin=terminal.fd)
    assert done.returncode == 1 and "password" in done.stdout
    assert "wrong-word" not in done.stdout + done.stderr
    hosts.allow_sudo(HOSTS)


def test_a_host_that_failed_gets_no_further_step_and_its_handlers_run(hosts):
    text = """\
steps:
  - file: {path: ~/c.conf, content: "1\\n"}
    notify: reload
  - sh: test ${host} != node02
    name: refuse node02
  - sh: touch ~/third
handlers:
  reload: [{sh: touch ~/reloaded}]
"""
    code, states = hosts.states(text)
    assert code == 1
    assert states[2, "node02"] == "failed" and (3, "node02") not in states
    assert states[3, "node01"] == "changed"
    assert [Path(hosts.home(h), "reloaded").exists() for h in HOSTS] == [True] * 4
    shown = hosts.run(text).stdout
    assert "node02: failed: refuse node02 (play.yaml:4)" in shown
    _, states = hosts.states("steps: [{sh: id}]\n", "-l", "@last-failed")
    assert {host for _, host in states} == {"node02"}


def test_any_errors_fatal_serial_retries_ignored_errors_conditions_and_patterns(hosts):
    fatal = "any_errors_fatal: true\nsteps:\n  - sh: test ${host} != node02\n  - sh: 'true'\n"
    _, states = hosts.states(fatal)
    assert {number for number, _ in states} == {1}
    serial = "serial: 1\nany_errors_fatal: true\nsteps:\n  - sh: test ${host} != node01\n"
    _, states = hosts.states(serial)
    assert states == {(1, "node01"): "failed"}
    text = """\
steps:
  - sh: echo x >> ~/tries; test $(wc -l < ~/tries) -ge 3
    retries: 2
    delay: 0.1
  - sh: "false"
    ignore_errors: true
  - sh: "true"
    when: {isa: amx}
  - sh: "true"
    on: node0[2-3]
"""
    code, states = hosts.states(text)
    assert code == 0
    assert {states[1, host] for host in HOSTS} == {"changed"}
    assert {states[2, host] for host in HOSTS} == {"ignored"}
    assert [states[3, host] for host in HOSTS] == ["changed", "skipped", "changed", "skipped"]
    assert {host for number, host in states if number == 4} == {"node02", "node03"}


def test_ctrl_c_ends_what_runs_on_the_hosts(hosts):
    process = hosts.start("steps:\n  - sh: touch ~/began; sleep 987\n")
    assert wait_until(lambda: all(Path(hosts.home(h), "began").exists() for h in HOSTS))
    interrupt(process)
    assert process.returncode == 130
    assert wait_until(lambda: not any(hosts.on(h, "pgrep", "-f", "sleep 987") for h in HOSTS))


def test_handlers_of_a_play_that_was_stopped_run_the_next_time(hosts):
    text = """\
steps:
  - file: {path: ~/pending.conf, content: "1\\n"}
    notify: reload
  - sh: touch ~/at-work; sleep ${seconds}
vars: {seconds: "986"}
handlers:
  reload: [{sh: touch ~/reloaded-late}]
"""
    process = hosts.start(text)
    assert wait_until(lambda: all(Path(hosts.home(h), "at-work").exists() for h in HOSTS))
    said = interrupt(process)
    assert "unreachable" not in said and "failed" not in said
    _, predicted = hosts.states(text, "--check", "-e", "seconds=0")
    assert {predicted[3, host] for host in HOSTS} == {"unknown"}
    again = hosts.run(text, "-e", "seconds=0", "-l", "node0[1-3]")
    assert "reload: notified on node[01-03]" in again.stdout
    late = [Path(hosts.home(h), "reloaded-late").exists() for h in HOSTS]
    assert late == [True, True, True, False]
    assert "notified" not in hosts.run(text, "-e", "seconds=0", "-l", HOSTS[0]).stdout
    assert Path(hosts.home("node04"), "at-work").exists()
    assert "notified on node04" in hosts.run(text, "-e", "seconds=0").stdout


def test_a_check_as_a_user_without_rights_foresees_the_failure(hosts):
    text = """\
steps:
  - file: {path: /etc/of-root, content: x}
  - file: {path: /etc, state: directory, mode: '0700'}
"""
    code, states = hosts.states(text, "--check")
    assert code == 1
    assert {states[n, host] for n in (1, 2) for host in HOSTS} == {"failed"}
    shown = hosts.run(text, "--check").stdout
    assert "/etc/of-root" in shown and "sudo: true" in shown


def test_steps_on_hosts_that_limit_leaves_out_are_skipped(hosts):
    text = "steps:\n  - sh: touch ~/one\n    on: node01\n  - sh: touch ~/two\n"
    code, states = hosts.states(text, "-l", "node02")
    assert (code, states) == (0, {(2, "node02"): "changed"})


def test_a_host_that_dies_is_unreachable_and_the_others_go_on(make_lab: MakeLab, tmp_path):
    lab = make_lab(LabSpec.plain(2, name="dying"))
    hosts = Playing(lab, tmp_path)
    text = "steps:\n  - sh: touch ~/began; sleep 4\n    name: work\n  - sh: touch ~/second\n"
    process = hosts.start(text)
    assert wait_until(lambda: Path(hosts.home("node02"), "began").exists())
    lab.fault("node02", "kill")
    out, _ = process.communicate(timeout=110)
    assert process.returncode == 4, out
    assert "node02: unreachable: work (play.yaml:2)" in out
    assert Path(hosts.home("node01"), "second").exists()


IDEMPOTENT = """\
steps:
  - file: {path: ~/t/a/b, state: directory, mode: "0750"}
  - copy: {src: tree, dest: ~/t/copied}
  - file: {path: ~/t/conf, content: "host=${host}\\n", mode: "0600"}
  - line: {path: ~/t/conf, line: "threads=4", regexp: "^threads="}
  - sh: "sleep 0.1; echo made > ~/t/made.new && mv ~/t/made.new ~/t/made"
    name: make
  - file: {path: ~/t/link, state: link, src: conf}
"""


@pytest.mark.parametrize("rounds", [3, pytest.param(20, marks=pytest.mark.soak)])
def test_killed_at_any_moment_and_run_again_it_ends_as_if_undisturbed(hosts, rounds):
    tree = hosts.folder / "tree"
    tree.mkdir(exist_ok=True)
    for i in range(40):
        (tree / f"f{i}").write_bytes(bytes([i]) * 20_000)
    began = time.monotonic()
    assert hosts.run(IDEMPOTENT).returncode == 0
    whole = time.monotonic() - began
    wanted = {h: tree_hash(hosts.home(h) / "t") for h in HOSTS}
    dice = random.Random(1)
    for i in range(rounds):
        for host in HOSTS:
            shutil.rmtree(hosts.home(host) / "t")
        process = hosts.start(IDEMPOTENT)
        time.sleep(dice.uniform(0.3, 1.0) * whole)
        process.send_signal(signal.SIGKILL if i % 2 else signal.SIGINT)
        process.communicate(timeout=30)
        again = hosts.run(IDEMPOTENT)
        assert again.returncode == 0, again.stdout + again.stderr
        assert {h: tree_hash(hosts.home(h) / "t") for h in HOSTS} == wanted


def tree_hash(top: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(top.rglob("*")):
        about = path.lstat()
        digest.update(f"{path.relative_to(top)} {about.st_mode:o}\n".encode())
        if path.is_symlink():
            digest.update(str(path.readlink()).encode())
        elif path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()
