"""Ciphers, MACs and key exchanges: what ssh_config allows, and nothing that is broken."""

from __future__ import annotations

import paramiko
import pytest

from ipexctl.errors import Unreachable
from tests.ssh.test_connect import refusal, say


@pytest.fixture
def offers(monkeypatch):
    """What each connection offered, as (ciphers, MACs, key exchanges)."""
    seen = []
    start = paramiko.Transport.start_client

    def noted(self, *args, **kwargs):
        seen.append((self._preferred_ciphers, self._preferred_macs, self._preferred_kex))
        return start(self, *args, **kwargs)

    monkeypatch.setattr(paramiko.Transport, "start_client", noted)
    return seen


def test_what_is_broken_is_not_offered(sshd, transport, offers):
    assert say(transport(sshd.config("n"), "n"), "n", "echo hi") == b"hi\n"
    ((ciphers, macs, kex),) = offers
    assert not [a for a in (*ciphers, *macs) if "3des" in a or "md5" in a]
    assert ciphers[0] == "aes128-gcm@openssh.com"
    assert kex and set(kex) <= set(paramiko.Transport._preferred_kex)


def test_the_algorithms_of_ssh_config_are_honoured(sshd, transport, offers):
    lines = (
        "  Ciphers aes256-ctr,chacha20-poly1305@openssh.com\n"
        "  MACs hmac-sha2-512-etm@openssh.com\n  KexAlgorithms curve25519-sha256\n"
    )
    assert say(transport(sshd.config("n", more=lines), "n"), "n", "echo hi") == b"hi\n"
    assert offers == [
        (("aes256-ctr",), ("hmac-sha2-512-etm@openssh.com",), ("curve25519-sha256@libssh.org",))
    ]


@pytest.mark.parametrize(
    "line",
    [
        "Ciphers chacha20-poly1305@openssh.com",
        "MACs umac-128@openssh.com",
        "KexAlgorithms sntrup761x25519-sha512@openssh.com",
        "Ciphers 3des-cbc",
    ],
)
def test_where_nothing_is_left_none_is_offered(sshd, transport, line):
    error = refusal(transport(sshd.config("n", more=f"  {line}\n"), "n"), "n", Unreachable)
    assert error.slug == "ssh-algorithms-differ"
    assert error.hint.startswith("--transport openssh")


def test_a_list_that_only_adds_or_removes_is_as_ssh_reads_it(sshd, transport, offers):
    config = sshd.config("n", more="  Ciphers -aes128-*\n")
    assert say(transport(config, "n"), "n", "echo hi") == b"hi\n"
    ((ciphers, _, _),) = offers
    assert ciphers
    assert not [a for a in ciphers if a.startswith("aes128")]
