"""Every command we suggest works with the options that the user gave."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import ipexctl
from ipexctl.base.host_outcome import HostDown
from ipexctl.cli.options import make_target
from ipexctl.common.env_answers import ProjectEnv
from ipexctl.errors import Unreachable
from ipexctl.facts.env_choice import EnvChoice
from ipexctl.inventory.inventory import Host
from ipexctl.machines.agent import Hello
from ipexctl.machines.openssh import login_command
from ipexctl.machines.ssh.openssh_transport import explain_ssh_error
from ipexctl.machines.suggested_commands import (
    install_command,
    merged_hints,
    other_pythons,
    spell_hint,
    suggest_command,
)
from ipexctl.machines.target import Target
from tests.cli import ipexctl as typed

FILE = Target(hostfile=Path("my hosts"), ssh_config=Path("cfg"), limit=("a,b",), exclude=("c",))
NAMES = Target(hosts=("node[1-2]", "b:4"))
OPENSSH = Target(hosts=("a",), transport="openssh")
WAY = "-f 'my hosts' -F cfg -l a,b -x c"


@pytest.mark.parametrize(
    ("target", "verb", "root", "expected"),
    [
        (Target(), "install", "~/.ipexctl", "ipexctl install"),
        (FILE, "trust", "/scratch/x", f"ipexctl trust {WAY}"),
        (FILE, "install", "/scratch/x", f"ipexctl install {WAY} --root /scratch/x"),
        (NAMES, "install", "~/.ipexctl", "ipexctl install -H 'node[1-2],b:4'"),
        (replace(NAMES, ask_pass=True, hosts=("a",)), "trust", "", "ipexctl trust -H a --ask-pass"),
        (OPENSSH, "doctor", "~/.ipexctl", "ipexctl doctor -H a --transport openssh"),
        (OPENSSH, "trust", "~/.ipexctl", "ipexctl trust -H a"),
    ],
)
def test_a_command_names_the_hosts_as_the_user_did(target, verb, root, expected):
    assert suggest_command(target, verb, root) == expected


def test_a_lock_of_another_folder_is_installed_from_there(tmp_path, monkeypatch):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ipexctl.lock").write_text("")
    monkeypatch.chdir(tmp_path / "two")
    target = Target(hostfile=Path("hosts"), configured=frozenset({"hostfile"}))
    here, there = (
        EnvChoice(ProjectEnv("", "", ""), "k", f"{tmp_path}/{name}/ipexctl.lock", shown=shown)
        for name, shown in (("two", "ipexctl.lock"), ("one", "../one/ipexctl.lock"))
    )
    assert install_command(target, here) == install_command(target, None) == "ipexctl install"
    typed = install_command(target, there)
    assert typed == f"cd ../one && ipexctl install -f {tmp_path}/two/hosts"
    assert spell_hint(typed, target) == typed


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("ipexctl install", f"ipexctl install {WAY}"),
        ("ipexctl install   # rebuilds it", f"ipexctl install {WAY}   # rebuilds it"),
        ("use gloo: ipexctl install, and unset X", f"use gloo: ipexctl install {WAY}, and unset X"),
        ("ipexctl doctor -v", f"ipexctl doctor {WAY} -v"),
        ("ipexctl trust -H node01", f"ipexctl trust {WAY}"),
        ("ipexctl trust -H a,b -F cfg", "ipexctl trust -H a,b -F cfg"),
        ("(ipexctl install --mpi none)", f"(ipexctl install {WAY} --mpi none)"),
        ("ipexctl install --stack stock   # a", f"ipexctl install {WAY} --stack stock   # a"),
        ("ipexctl install --stack ipex -f g", "ipexctl install --stack ipex -f g"),
        ("ipexctl env ls", f"ipexctl env ls {WAY}"),
        ("ipexctl stacks", "ipexctl stacks"),
        ("ipexctl ps -a", f"ipexctl ps -a {WAY}"),
        ("  ipexctl stop 2026-3f", f"  ipexctl stop 2026-3f {WAY}"),
        ("ipexctl attach bert", f"ipexctl attach bert {WAY}"),
        ("ipexctl logs @last --follow", f"ipexctl logs @last --hostfile{WAY[2:]} --follow"),
        ("ipexctl data push DIR --as x", f"ipexctl data push {WAY} DIR --as x"),
        ("ssh -v -p 2222 ann@a true", "ssh -F cfg -v -p 2222 ann@a true"),
        ("ssh -v node01 true", "ssh -F cfg -v node01 true"),
        ("ssh-copy-id ann@a\nssh-copy-id b", "ssh-copy-id -F cfg ann@a\nssh-copy-id -F cfg b"),
        ("ssh -G -F cfg node01", "ssh -G -F cfg node01"),
        ("ssh-add key", "ssh-add key"),
        ("ping 10.0.0.1", "ping 10.0.0.1"),
    ],
)
def test_a_hint_gets_what_its_author_could_not_know(said, expected):
    assert spell_hint(said, FILE) == expected


ANN = Host("node3", user="ann", port=2222, address="10.0.0.3")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (login_command.ssh_to(Host("node1"), "uptime"), "ssh node1 uptime"),
        (login_command.ssh_to(ANN, "uptime"), "ssh -p 2222 ann@10.0.0.3 uptime"),
        (login_command.ssh_to(ANN), "ssh -p 2222 ann@10.0.0.3"),
        (login_command.ssh_debug_command(ANN), "ssh -v -p 2222 ann@10.0.0.3 true"),
        (login_command.ssh_to(Host("localhost", local=True), "uptime"), "uptime"),
        (login_command.copy_id(ANN, "root"), "ssh-copy-id -p 2222 ann@10.0.0.3"),
        (login_command.copy_id(Host("node1"), "root"), "ssh-copy-id root@node1"),
        (login_command.copy_id(ANN, key="k"), "ssh-copy-id -i k -p 2222 ann@10.0.0.3"),
        (login_command.ssh_to(Host("a", user="a b"), "true"), "ssh 'a b@a' true"),
    ],
)
def test_a_login_has_the_user_port_and_address_of_the_hostfile(said, expected):
    assert said == expected


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("Connection reset by peer", "ssh -v -p 2222 ann@10.0.0.3 true"),
        ("Permission denied (publickey)", "ssh -p 2222 ann@10.0.0.3 true   # must work "),
        ("something new", "ssh -v -p 2222 ann@10.0.0.3 true"),
        ("No route to host", "ping -c 3 10.0.0.3"),
        ("Network is unreachable", "ip route get 10.0.0.3"),
        ("Connection timed out", "ping -c 3 10.0.0.3"),
        ("REMOTE HOST IDENTIFICATION HAS CHANGED", "ssh-keygen -R '[10.0.0.3]:2222'   # only"),
    ],
)
def test_what_ssh_itself_says_leads_to_the_same_login(said, hint):
    error = explain_ssh_error(ANN, 255, said)
    told = error if isinstance(error, Unreachable) else error.error
    assert told.what.startswith("node3: ")
    assert told.hint.startswith(hint)


_LOGIN = re.compile(r"(?<![\w-])(ssh|ssh-copy-id|scp|sftp|ssh-keyscan)( -\S+)* \{")


def test_no_place_builds_a_login_of_its_own():
    package = Path(ipexctl.__file__).parent
    made = [
        f"{path.relative_to(package)}:{node.lineno}"
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if _LOGIN.search(_template(node))
    ]
    assert made == []


def _template(node: ast.AST) -> str:
    """A string as written, and `{` for what is filled in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_template(part) or "{" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def test_without_options_a_hint_stays_as_it_is():
    assert [spell_hint(t, Target()) for t in ("ipexctl install", "ssh a")] == [
        "ipexctl install",
        "ssh a",
    ]


def test_hints_of_several_hosts_stand_there_once_and_not_by_hundreds():
    downs = [HostDown(f"n{i}", "unreachable", "", "", f"ping n{i // 2}") for i in range(12)]
    assert merged_hints(downs) == "ping n0\nping n1\nping n2\nping n3\n# and 2 more like these"
    assert merged_hints(downs[:2]) == "ping n0"


@pytest.mark.parametrize(
    ("asked", "answers", "told"),
    [
        ("", "/usr/bin/python3", []),
        ("/usr/bin/python3", "/usr/bin/python3", []),
        ("python3.11", "/usr/bin/python3.11", []),
        (
            "/opt/python9",
            "/usr/bin/python3",
            ["a: python=/opt/python9 was asked for, but /usr/bin/python3 is used"],
        ),
    ],
)
def test_another_python_than_the_one_named_is_not_taken_in_silence(asked, answers, told):
    agent = SimpleNamespace(host=Host("a", python=asked), hello=Hello("python", path=answers))
    assert list(other_pythons([agent])) == told


@pytest.mark.parametrize(("down", "names"), [("", "b"), ("[1-3]", "'b[1-3]'")])
def test_doctor_offers_its_command_without_hosts_that_are_down(tmp_path, down, names):
    """Port 1 of this machine refuses every connection."""
    text = f"a ansible_connection=local\nb{down} address=127.0.0.1 port=1\n"
    (tmp_path / "hosts").write_text(text)
    done = typed("doctor", "-f", "hosts", "--root", str(tmp_path / "root"), cwd=tmp_path)
    again = f"ipexctl doctor -x {names} -f hosts --root {tmp_path / 'root'}"
    assert f"\n  or {again}   # without {names.strip(chr(39))}\n" in done.stdout
    text = "b address=127.0.0.1 port=1\n"
    (tmp_path / "hosts").write_text(text)
    assert "-x b" not in typed("doctor", "-f", "hosts", cwd=tmp_path).stdout


def test_what_a_settings_file_says_is_not_typed_again():
    target = Target(Path("hosts"), ssh_config=Path("cfg"))
    assert suggest_command(target, "install") == "ipexctl install -f hosts -F cfg"
    known = replace(target, configured=frozenset({"hostfile", "ssh_config"}))
    assert suggest_command(known, "install") == "ipexctl install"
    assert suggest_command(replace(known, hosts=("a",)), "logs x") == "ipexctl logs x -H a"
    part = replace(target, configured=frozenset({"hostfile", "root"}))
    assert suggest_command(part, "ps", "/r") == "ipexctl ps -F cfg"


@pytest.mark.parametrize(
    ("settings", "variables", "expected"),
    [
        ('hostfile = "hosts"\n', {}, "ipexctl ps"),
        ("", {"IPEXCTL_HOSTFILE": "hosts"}, "ipexctl ps -f hosts"),
        ('root = "/r"\nhostfile = "hosts"\n', {}, "ipexctl ps"),
    ],
)
def test_a_variable_ends_with_its_shell_and_a_settings_file_stays(
    tmp_path, monkeypatch, settings, variables, expected
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("ipexctl.local.accepted_settings.is_accepted", lambda proposed: True)
    Path("hosts").write_text("a\n")
    Path("ipexctl.toml").write_text(settings)
    target = make_target(root="/r" if "root" in settings else "~/.ipexctl")
    assert suggest_command(target, "ps", "/r" if "root" in settings else "~/.ipexctl") == expected
