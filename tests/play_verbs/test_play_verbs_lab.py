"""Plays that install, train and clean up: real sshd, real mpirun, real torch."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ipexctl.machines.target import Target, read_inventory
from ipexctl.play.ansible_program import Playbook, run_playbook
from ipexctl.play.steps.fleet_steps.ansible_step import read_recap
from tests.play_verbs.conftest import HOSTS, Player

TRAIN = """\
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
sums = torch.ones(4)
dist.all_reduce(sums)
rank = dist.get_rank()
os.makedirs("out", exist_ok=True)
open(f"out/rank{rank}.txt", "w").write(f"{sums[0]:.0f} {os.environ['WORD']}")
print("sum", int(sums[0]), sys.argv[1:], flush=True)
dist.destroy_process_group()
"""


@pytest.mark.timeout(1800)
def test_a_play_installs_runs_and_brings_back_what_ranks_wrote(player: Player):
    """The environment is built under a root of its own, from files that the hosts have."""
    link = "mkdir -m 700 ~/.play && cp -al ~/.ipexctl/blobs ~/.play/blobs"
    for host in HOSTS:
        assert player.lab.run_in(host, ["/bin/sh", "-c", link], user="trainer").returncode == 0
    player.file("train.py", TRAIN)
    player.file(
        "life.yaml",
        "vars: {lr: '0.1'}\n"
        "steps:\n"
        "  - install: {stack: stock}\n"
        "  - run: {script: train.py, n: 4, ppn: 2, args: [--lr, '${lr}'], env: {WORD: hello},\n"
        "          outputs: out, merge: true}\n"
        "  - fetch: {files: out, dest: results, merge: true}\n",
    )
    words = ("play", "life.yaml", "--root", "~/.play")

    def states(*options: str) -> list:
        played = player.command(*words, "--json", *options)
        assert played.out, played.err
        return [played.code, *({*hosts.values()} for hosts in played.steps.values())]

    try:
        check = states("--check")
        assert check == [10, {"would change"}, {"unknown"}, {"unknown"}]
        assert not (player.folder / "results").exists()

        first = player.command(*words, "-e", "lr=0.5")
        assert first.code == 0, first.out + first.err
        for rank, host in enumerate(["node01", "node01", "node02", "node02"]):
            assert f"{host} | r0{rank} | sum 4 ['--lr', '0.5']" in first.out
            assert (player.folder / f"results/out/rank{rank}.txt").read_text() == "4 hello"
        assert "ok=0   changed=3" in first.out

        assert states("--check", "-t", "all")[:2] == [11, {"ok"}]
        assert states() == [0, {"ok"}, {"changed"}, {"ok"}]
    finally:
        for host in HOSTS:
            player.lab.run_in(host, ["/bin/sh", "-c", "rm -r ~/.play"], user="trainer", timeout=600)


@pytest.mark.timeout(1800)
def test_the_shipped_plays_check_train_and_tear_down(player: Player):
    player.file("train.py", TRAIN)
    player.file("ipexctl.toml", '[run.env]\nWORD = "configured"\n')

    def states(*words: str) -> list:
        played = player.command("play", *words, "--json")
        assert played.out, played.err
        return [played.code, *({*hosts.values()} for hosts in played.steps.values())]

    for _ in range(2):
        assert states("train") == [0, {"ok"}, {"ok"}, {"changed"}]
    runs = sorted((player.folder / ".ipexctl/runs").iterdir())
    assert len(runs) == 2
    assert (runs[0] / "outputs/out/rank0.txt").read_text() == "4 configured"

    assert states("nightly-check", "-e", "level=quick", "-e", "fail_on=fail") == [0, {"ok"}]
    assert states("teardown", "--check") == [10, {"would change"}, {"ok"}]
    assert states("teardown") == [0, {"changed"}, {"ok"}]
    assert states("teardown") == [0, {"ok"}, {"ok"}]


def test_a_script_that_fails_fails_the_step_with_its_place_and_its_last_words(player: Player):
    player.file(
        "train.py",
        "import os\nif os.environ['RANK'] == '1': raise ValueError('the data is bad')\n"
        "import time; time.sleep(60)\n",
    )
    steps = "  - run: {script: train.py, ppn: 1}\n    name: tune\n  - sh: touch ~/reached\n"
    failed = player.play(steps)
    assert failed.code == 1
    assert "node02: failed: tune (p.yaml:2)" in failed.out
    assert "ValueError: " in failed.out
    assert "node01: failed: tune (p.yaml:2)" in failed.out
    assert "first on node02" in failed.out
    for host in HOSTS:
        assert player.lab.run_in(host, ["test", "-e", "/home/trainer/reached"]).returncode


def test_runs_that_detach_are_pruned_when_they_have_ended(player: Player):
    player.file("train.py", "print('up', flush=True)\n")
    for _ in range(2):
        assert player.states("  - run: {script: train.py, ppn: 1, detach: true}\n") == [
            0, "changed",
        ]  # fmt: skip
        assert player.command("wait", "@last").code == 0
    prune = "  - prune: {runs: 1}\n"
    assert player.states(prune, "--check") == [10, "would change"]
    assert player.states(prune) == [0, "changed"]
    assert player.states(prune, "--check") == [0, "ok"]
    assert player.states(prune) == [0, "ok"]


def test_a_command_in_the_environment_and_environments_nobody_needs(player: Player):
    command = "  - env: {exec: [python3, -c, 'import torch; print(torch.__version__)']%s}\n"
    played = player.play(command % "")
    assert played.code == 0
    for host in HOSTS:
        assert f"{host} | 2." in played.out
    assert player.states(command % "") == [0, "changed"]
    assert player.states(command % ", changes: false") == [0, "ok"]
    assert player.states(command % "", "--check") == [11, "unknown"]
    bad = "  - env: {exec: [python3, -c, 'raise SystemExit(3)']}\n"
    assert player.states(bad) == [1, "failed"]
    assert player.states("  - env: {rm: unused}\n") == [0, "ok"]
    assert player.states("  - env: {rm: [0123456789abcdef]}\n") == [0, "ok"]


# --- the user's own Ansible -----------------------------------------------------------------------

SITE = """\
- hosts: all
  gather_facts: false
  tasks:
    - name: write a file
      copy: {content: "{{ word }} {{ inventory_hostname }}\\n", dest: "~/ansible-was-here"}
    - name: break
      command: /bin/false
      when: fail_on is defined and inventory_hostname == fail_on
"""


@pytest.fixture
def ansible(player: Player) -> Player:
    program = shutil.which("ansible-playbook", path=os.environ.get("ANSIBLE_BIN"))
    program = program or shutil.which("ansible-playbook")
    if not program:
        pytest.skip("there is no ansible-playbook; ANSIBLE_BIN names its folder")
    home = player.folder / "home"
    home.mkdir()
    player.file("site.yml", SITE)
    path = f"{Path(program).parent}:{os.environ['PATH']}"
    temporary = {"ANSIBLE_LOCAL_TEMP": str(home), "ANSIBLE_HOME": str(home)}
    return replace(player, env={"PATH": path, **temporary})


@pytest.mark.timeout(1800)
def test_the_users_own_playbook_runs_on_our_hosts_with_our_keys(ansible: Player):
    step = "  - ansible: {playbook: site.yml, extra: {word: hello}}\n"
    try:
        # `break` is skipped everywhere, and what Ansible skips in check mode is not known
        assert ansible.states(step, "--check") == [10, "would change"]
        played = ansible.play(step)
        assert played.code == 0, played.out + played.err
        assert "all | TASK " in played.out and "2 changed" in played.out
        assert "discovered Python" not in played.out  # it is the one that ipexctl found
        for host in HOSTS:
            said = ansible.lab.run_in(host, ["cat", "/home/trainer/ansible-was-here"]).stdout
            said = said.decode() if isinstance(said, bytes) else said
            assert said == f"hello {host}\n"
        assert ansible.states(step) == [0, "ok"]
        assert ansible.states(step, "--check") == [11, "unknown"]

        step = "  - ansible: {playbook: site.yml, extra: {word: hello, fail_on: node02}}\n"
        failed = ansible.play(step, "--json")
        assert failed.code == 1
        assert failed.steps["ansible"] == {"node01": "ok", "node02": "failed"}
        assert "non-zero" in failed.out
    finally:
        for host in HOSTS:
            ansible.lab.run_in(host, ["rm", "-f", "/home/trainer/ansible-was-here"])


@pytest.mark.timeout(1800)
def test_ansible_refuses_a_host_key_that_nobody_has_accepted(ansible: Player, monkeypatch):
    """Also where the user's ansible.cfg turns the check off. A play asks each host before, so here
    the program is started without one."""
    for name, value in ansible.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(ansible.folder)
    ansible.file("ansible.cfg", "[defaults]\nhost_key_checking = False\n")
    text = re.sub(r"(?i)(UserKnownHostsFile).*", r"\1 none", ansible.lab.ssh_config.read_text())
    for config, unreachable in ((ansible.lab.ssh_config, 0), (ansible.file("config", text), 1)):
        target = Target(ansible.lab.hostfile, ssh_config=config, limit=HOSTS)
        lines: list[str] = []
        book = Playbook(Path("site.yml"), {"word": "hello"}, check=True)
        run_playbook(book, target, read_inventory(target), lines.append)
        recap = read_recap(lines)
        assert [recap[host]["unreachable"] for host in HOSTS] == [unreachable] * 2, lines
        assert unreachable == any("Host key verification failed" in line for line in lines)
