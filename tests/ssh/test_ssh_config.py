"""One `ssh -G` per class of hosts must say what one per host says."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ipexctl.errors import InputError, NotHere
from ipexctl.inventory.inventory import Host
from ipexctl.machines.openssh.ssh_config import (
    Me,
    SshSettings,
    expand_path,
    parse_config,
    parse_jump,
    proxy_command,
    read_answer,
)
from ipexctl.machines.ssh.config import SshConfig

NAMES = ("node1", "node2", "NODE3", "gpu1", "gpu2", "login", "10.0.0.7", "::1", "fe80::1%eth0")

CONFIGS = {
    "nothing": "",
    "a comment and an unknown host": "# Host node1\nHost other\n  User x\n",
    "plain": "Host node1\n HostName 10.0.0.1\n User ann\n Port 2201\nHost *\n User bob\n",
    "first value wins": "User ann\nHost node*\n User bob\n Port 1\nHost node1\n Port 2\n",
    "negated": "Host node* !node2\n User ann\n Port 2201\nHost !node1 *\n IdentitiesOnly yes\n",
    "only negated": "Host !node1\n User ann\n",
    "question mark": "Host node?\n User ann\nHost gpu??\n User bob\n",
    "names with the host in them": "Host n* N*\n HostName %h.Cluster.LOCAL\nHost gpu*\n"
    " HostName %h-x%%y\n",
    "keywords in any case, = and tabs": 'HOST\tnode1\n\tUSER="ann"\n  port = 2201\n'
    "hOsT=gpu1\nuser=bob\n",
    "one host's own name for all": 'Host node*\n HostName "node1"\n',
    "quotes": 'Host "node1" "gpu*"\n IdentityFile "~/.ssh/my key"\n',
    "a comma is no separator": "Host node1,node2\n User ann\n",
    "case matters": "Host NODE*\n User ann\n",
    "identities": "Host node*\n IdentityFile ~/.ssh/%r@%h\n IdentityFile /k/%d\n"
    " IdentityAgent none\nHost *\n IdentityFile ~/.ssh/all\n IdentityAgent $MY_AGENT\n"
    " CertificateFile ~/c-%n\n",
    "jumps": "Host node2\n ProxyJump none\nHost node*\n ProxyJump ann@login:2222,gpu1\n"
    "Host gpu*\n ProxyCommand nc %h %p\n",
    "files": "Host node*\n UserKnownHostsFile /a /b\n GlobalKnownHostsFile none\n"
    " HostKeyAlias cluster\n RevokedHostKeys /r\n",
    "files named by the host": "UserKnownHostsFile /known/%h\n",
    "timeouts and families": "Host gpu*\n ConnectTimeout 7\n AddressFamily inet6\n",
    "times": "Host gpu*\n ConnectTimeout 1m30s\nHost *\n ConnectTimeout none\n",
    "the first proxy counts": "Host node1\n ProxyCommand none\nHost gpu1\n ProxyJump none\n"
    "Host node* gpu*\n ProxyJump bastion\nHost *\n ProxyCommand nc %h %p\n",
    "match": "Host gpu1\n User ann\nMatch host node1\n User bob\nMatch all\n Port 2201\n",
    "match exec": 'Match exec "test %n = node2"\n User carl\n',
    "ipv6": "Host ::1 fe80::*\n User ann\n",
    "an address": "Host 10.0.0.?\n User ann\n HostName 10.0.1.7\n",
    "include": "Include {folder}/inc/*.conf\nHost node1\n User late\nHost *\n Port 2299\n",
    "include inside a Host": "Host node*\n Include {folder}/inc/one.conf\n Port 2299\nHost *\n"
    " User late\n",
    "include of nothing": "Host node*\n Include {folder}/inc/none-*.conf\n User ann\n",
    "an unknown word that is ignored": "IgnoreUnknown Foo*\nFooBar x\nHost node1\n User ann\n",
    "canonical names": "CanonicalizeHostname no\nHost node1\n User ann\n",
}
INCLUDED = {
    "one.conf": "User inner\nHost node2\n Port 2202\nHost gpu*\n User gpu\n",
    "two.conf": "Host node1 gpu2\n HostName %h.two\n Include {folder}/inc/deep/x\n",
    "deep/x": "IdentitiesOnly yes\nHost gpu2\n Port 2203\n",
}

needs_ssh = pytest.mark.skipif(not shutil.which("ssh"), reason="needs the OpenSSH client")


@pytest.fixture
def config_file(tmp_path):
    def write(text: str) -> Path:
        for name, included in INCLUDED.items():
            path = tmp_path / "inc" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(included.replace("{folder}", str(tmp_path)))
        path = tmp_path / "ssh_config"
        path.write_text(text.replace("{folder}", str(tmp_path)))
        return path

    return write


def real_answer(path: Path, name: str) -> SshSettings:
    argv = ["ssh", "-G", "-T", "-F", str(path), "--", name]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return read_answer(done.stdout, name)


@needs_ssh
@pytest.mark.parametrize("which", CONFIGS)
def test_every_host_gets_what_ssh_itself_says(config_file, which):
    path = config_file(CONFIGS[which])
    answers = SshConfig(path).answers([Host(name) for name in NAMES])
    assert {h.name: a for h, a in answers.items()} == {n: real_answer(path, n) for n in NAMES}


@needs_ssh
@pytest.mark.parametrize(
    ("which", "calls"),
    [
        ("nothing", 1),
        ("plain", 2),
        ("names with the host in them", 6),
        ("jumps", 4),
        ("include", 5),
        ("match", 9),
        ("files named by the host", 9),
    ],
)
def test_ssh_is_asked_once_per_class_of_hosts(config_file, tmp_path, monkeypatch, which, calls):
    log = tmp_path / "calls"
    counting = tmp_path / "bin" / "ssh"
    counting.parent.mkdir()
    counting.write_text(f'#!/bin/sh\necho x >> {log}\nexec {shutil.which("ssh")} "$@"\n')
    counting.chmod(counting.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{counting.parent}:/usr/bin:/bin")
    SshConfig(config_file(CONFIGS[which])).answers([Host(name) for name in NAMES])
    assert len(log.read_text().split()) == calls


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


def test_an_include_with_a_variable_is_left_to_ssh():
    assert [parse_config([f"Include {word}\n"]).plain for word in ("x", "${X}/x")] == [True, False]


ANSWER = SshSettings("N1", "n1.example", "ann", port=2201, host_key_alias="")
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
    assert expand_path(value, ANSWER, ME) == expanded


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
