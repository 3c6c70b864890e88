"""Jump hosts with `--transport openssh`: their keys are checked as the hosts' own are."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from ipexctl.errors import HostKeyUnknown, Unreachable
from ipexctl.inventory.inventory import Host
from ipexctl.machines.ssh.openssh_transport import OpenSshTransport
from ipexctl.machines.ssh.paramiko_transport import SshTransport


def opened(config: Path, name: str = "n") -> bytes:
    transport = OpenSshTransport((Host(name),), config)
    with closing(transport.open(Host(name), "echo $SSH_CONNECTION | cut -d' ' -f4", 30)) as channel:
        return channel.read(100, 10)


def test_a_host_behind_a_jump_host_is_reached(way):
    config, inner, outer = way
    files = [sshd.folder / "known_hosts" for sshd in (inner, outer)]
    before = [file.read_text() for file in files]
    assert opened(config) == b"%d\n" % inner.port
    assert [file.read_text() for file in files] == before


def test_an_unknown_key_of_a_jump_host_is_refused_and_not_written(way):
    config, inner, outer = way
    known = outer.folder / "known_hosts"
    known.write_text("")
    with pytest.raises(HostKeyUnknown) as e:
        opened(config)
    assert f"[127.0.0.1]:{outer.port}" in e.value.why
    assert known.read_text() == ""
    assert inner.log.count("Connection from") == 0


def test_loopback_is_no_reason_to_trust_a_host(sshd, tmp_path):
    config = sshd.config("n", known="", more="  NoHostAuthenticationForLocalhost yes\n")
    with pytest.raises(HostKeyUnknown):
        opened(config)


def test_of_two_jump_hosts_both_are_checked(way, make_sshd):
    config, inner, outer = way
    first = make_sshd()
    first.config("first")
    text = config.read_text() + (first.folder / "ssh_config").read_text()
    config.write_text(text.replace("Host login\n", "Host login\n  ProxyJump first\n"))
    assert opened(config) == b"%d\n" % inner.port
    assert first.log.count("Accepted publickey") == 1
    (first.folder / "known_hosts").write_text("")
    with pytest.raises(HostKeyUnknown):
        opened(config)


def test_a_jump_to_itself_by_a_line_for_all_hosts_is_none(way):
    config, inner, _ = way
    config.write_text(config.read_text() + "Host *\n  ProxyJump login\n")
    assert opened(config) == b"%d\n" % inner.port


@pytest.mark.parametrize("kind", [OpenSshTransport, SshTransport])
def test_jump_hosts_in_circles_are_refused(tmp_path, kind):
    config = tmp_path / "config"
    config.write_text("Host a\n ProxyJump b\nHost b\n ProxyJump a\nHost n\n ProxyJump a\n")
    with pytest.raises(Unreachable, match="circular"):
        kind((Host("n"),), config).open(Host("n"), "true", 30)
