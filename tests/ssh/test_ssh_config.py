"""What `ssh -G` says about each host, and what is read in the text of ssh_config itself."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ipexctl.errors import InputError, NotHere
from ipexctl.inventory.inventory import Host
from ipexctl.machines.openssh.ssh_config import (
    Answer,
    Me,
    expand,
    parse_jump,
    proxy_command,
    read_answer,
)
from ipexctl.machines.ssh.config import SshConfig

needs_ssh = pytest.mark.skipif(not shutil.which("ssh"), reason="needs the OpenSSH client")


@pytest.fixture
def config_file(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / "ssh_config"
        path.write_text(text)
        return path

    return write


@needs_ssh
def test_the_user_and_port_of_one_host_are_no_other_hosts(config_file):
    path = config_file(
        "Host special\n Port 2201\nHost *\n User carol\nMatch user bob\n IdentitiesOnly yes\n"
    )
    hosts = [
        Host("node1", user="ann", port=2222),
        Host("node2"),
        Host("node3", address="10.0.0.3", port=7),
        Host("node4", user="bob"),
        Host("special", user="ann"),
        Host("special", user="bob", port=7),
    ]
    answers = SshConfig(path).answers(hosts).values()
    assert [(a.name, a.hostname, a.user, a.port, a.identities_only) for a in answers] == [
        ("node1", "node1", "ann", 2222, False),
        ("node2", "node2", "carol", 22, False),
        ("node3", "10.0.0.3", "carol", 7, False),
        ("node4", "node4", "bob", 22, True),
        ("special", "special", "ann", 2201, False),
        ("special", "special", "bob", 7, True),
    ]


@needs_ssh
def test_a_mistake_in_ssh_config_is_told_in_the_words_of_ssh(config_file):
    path = config_file("Host a\n Nonsense yes\n")
    with pytest.raises(InputError) as e:
        SshConfig(path).answers([Host("a")])
    assert (e.value.slug, "line 2: " in e.value.why) == ("ssh-config-invalid", True)
    assert "nonsense" in e.value.why


def test_a_file_that_isnt_there_is_refused(tmp_path):
    with pytest.raises(InputError) as e:
        SshConfig(tmp_path / "none.conf")
    assert e.value.slug == "ssh-config-missing"
    assert f"{tmp_path}/none.conf" in e.value.what


@pytest.fixture
def without_ssh(tmp_path, monkeypatch):
    """No ssh program, and no files of the system's or the developer's own."""
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    monkeypatch.setattr("ipexctl.machines.ssh.config.SYSTEM_CONFIG", tmp_path / "none")


def test_without_the_ssh_program_a_hostfile_says_all(without_ssh):
    config = SshConfig(Path("none"))
    hosts = [Host("node1", user="ann", port=2222), Host("node2", address="10.0.0.2")]
    answers = config.answers(hosts)
    assert [(a.name, a.hostname, a.user, a.port) for a in answers.values()] == [
        ("node1", "node1", "ann", 2222),
        ("node2", "10.0.0.2", config.me.user, 22),
    ]
    assert "~/.ssh/id_ed25519" in answers[hosts[0]].identity_files


def test_ssh_config_needs_the_ssh_program(config_file, without_ssh):
    config = SshConfig(config_file("Host a\n User x\n"))
    with pytest.raises(NotHere) as e:
        config.answers([Host("a")])
    assert (e.value.slug, e.value.hint) == ("ssh-program-missing", "apt install openssh-client")


def test_numbers_that_only_look_like_some_leave_the_defaults():
    answer = read_answer("port ²\nconnecttimeout ³\n", "node1")
    assert (answer.port, answer.connect_timeout) == (22, None)


def test_files_that_include_each_other_are_read_once(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"Include {tmp_path}/?\nHost {name}1 {name}2\n")
    assert SshConfig(tmp_path / "b").names() == ("b1", "b2", "a1", "a2")


ANSWER = Answer("N1", "n1.example", "ann", port=2201, host_key_alias="")
ME = Me("bob", "/home/bob", 1000, "desk.example", {"X": "/x"})


@pytest.mark.parametrize(
    ("value", "expanded"),
    [
        ("~/.ssh/%r@%h-%p-%n", "/home/bob/.ssh/ann@n1.example-2201-N1"),
        ("%d/%u/%i/%k/%l/%L", "/home/bob/bob/1000/N1/desk.example/desk"),
        ("${X}/${Y}/%%h/%Q", "/x//%h/%Q"),
        ("/~/a", "/~/a"),
    ],
)
def test_tokens_are_expanded_like_ssh_does(value, expanded):
    assert expand(value, ANSWER, ME) == expanded


@pytest.mark.parametrize(
    ("value", "command"),
    [
        ("~/bin/way %r@%h:%p", "~/bin/way ann@n1.example:2201"),
        ("way ${X:-x} '${X}' ~ %%h", "way ${X:-x} '${X}' ~ %h"),
        ("~", "~"),
    ],
)
def test_a_proxy_command_is_the_shells_but_for_the_tokens(value, command):
    assert proxy_command(replace(ANSWER, proxy_command=value), ME) == command


@needs_ssh
def test_a_proxy_command_says_what_it_says_under_ssh(config_file, tmp_path, monkeypatch):
    monkeypatch.setenv("MINE", "a b")
    monkeypatch.setenv("SHELL", "/bin/sh")
    out = tmp_path / "out"
    words = "\"${MINE}\" '${MINE}' ${NONE:-none} ~ %h %p %%h"
    command = f"printf '[%%s]' {words} | tee {out}"  # ssh ends it when its output ends
    path = config_file(f"Host *\n HostName 10.0.0.9\n ProxyCommand {command}\n")
    config = SshConfig(path)
    [answer] = config.answers([Host("node1")]).values()
    real = ["ssh", "-n", "-F", path, "node1"]
    subprocess.run(real, capture_output=True, check=False)
    expected = out.read_text()
    ours = ["/bin/sh", "-c", f"exec {proxy_command(answer, config.me)}"]
    assert subprocess.run(ours, capture_output=True, text=True, check=True).stdout == expected
    assert expected.startswith("[a b][${MINE}][none]")


@pytest.mark.parametrize(
    ("hop", "parsed"),
    [
        ("login", ("login", "", 0)),
        ("ann@login:2222", ("login", "ann", 2222)),
        ("ssh://ann@login:2222", ("login", "ann", 2222)),
        ("ann@[::1]:2222", ("::1", "ann", 2222)),
        ("::1", ("::1", "", 0)),
        ("login:²", ("login", "", 0)),
        (f"login:{'9' * 5000}", ("login", "", 0)),
    ],
)
def test_a_jump_host_is_read_like_ssh_does(hop, parsed):
    assert parse_jump(hop) == parsed


def test_a_user_that_is_in_no_database_is_no_crash(tmp_path, monkeypatch):
    """As in a container with --user 12345; ssh itself refuses to start there."""

    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr("pwd.getpwuid", unknown)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("USER", raising=False)
    monkeypatch.delenv("LOGNAME", raising=False)
    config = SshConfig(Path("none"))
    [answer] = config.answers([Host("n")]).values()
    assert (answer.hostname, answer.port, answer.user) == ("n", 22, str(os.getuid()))
    assert config.me.home == str(tmp_path)
    (tmp_path / "config").write_text("Host n\n  Port 2222\n")
    with pytest.raises(NotHere, match="refuses to run"):
        SshConfig(tmp_path / "config").answers([Host("n")])
