"""A host whose ssh_config needs more than Paramiko can takes the ssh program, with a note."""

from __future__ import annotations

import base64
import subprocess
import time
from pathlib import Path

import pytest

from ipexctl.common.waiting import wait_until
from ipexctl.errors import HostKeyChanged, Unreachable
from ipexctl.inventory.inventory import Host
from ipexctl.machines.ssh.dial import CUT_OFF, Dropped, retry_dropped
from ipexctl.machines.ssh.secrets import Secrets
from ipexctl.machines.ssh.transport_choice import choose_transport
from tests.processes import listens
from tests.ssh.conftest import keygen
from tests.ssh.test_connect import refusal, say

KERBEROS = "  GSSAPIAuthentication yes\n"


@pytest.fixture
def choice():
    """choice(config, *names): the transport, and the notes about it."""
    opened = []

    def make(config: Path, *names: str, secrets: Secrets | None = None):
        notes: list[str] = []
        hosts = tuple(Host(name) for name in names)
        secrets = secrets or Secrets(terminal=False)
        opened.append(choose_transport(hosts, config, secrets, notes.append))
        return opened[-1], notes

    yield make
    for one in opened:
        one.close()


def certified(make_sshd, tmp_path, *signing: str):
    """A sshd that shows a certificate, and the public key of whoever signed it."""
    authority, key = tmp_path / "authority", tmp_path / "certified"
    keygen(authority)
    keygen(key)
    argv = ["ssh-keygen", "-q", "-s", str(authority), "-I", "rack 1", "-h", *signing]
    subprocess.run([*argv, f"{key}.pub"], check=True, capture_output=True)
    sshd = make_sshd(f"HostKey {key}", f"HostCertificate {key}-cert.pub")
    return sshd, " ".join((tmp_path / "authority.pub").read_text().split()[:2])


def test_a_host_with_a_certificate_takes_ssh_and_the_others_do_not(
    make_sshd, sshd, choice, tmp_path
):
    vouched, authority = certified(make_sshd, tmp_path, "-n", "node1")
    more = "  HostKeyAlias node1\n"
    config = vouched.config("a", "b", known=f"@cert-authority node1 {authority}\n", more=more)
    config.write_text(config.read_text() + sshd.config("n").read_text())
    ssh, notes = choice(config, "a", "n", "b")
    assert [say(ssh, name, f"echo {name}") for name in "anb"] == [b"a\n", b"n\n", b"b\n"]
    need = "@cert-authority in known_hosts"
    assert notes == [f"a,b: connected by the ssh program, because of {need}"]


@pytest.mark.parametrize("signing", [("-n", "node2"), ("-n", "node1", "-V", "20200101:20210101")])
def test_a_certificate_that_does_not_hold_is_refused(make_sshd, choice, tmp_path, signing):
    sshd, authority = certified(make_sshd, tmp_path, *signing)
    known = f"@cert-authority node1 {authority}\n"
    ssh, _ = choice(sshd.config("n", known=known, more="  HostKeyAlias node1\n"), "n")
    error = refusal(ssh, "n", HostKeyChanged)
    assert error.slug == "host-certificate-invalid"
    assert "Certificate invalid: " in error.why
    assert "publickey" not in sshd.log


def test_a_revoked_authority_vouches_for_no_host(make_sshd, choice, tmp_path):
    sshd, authority = certified(make_sshd, tmp_path)
    known = f"@cert-authority * {authority}\n@revoked * {authority}\n"
    ssh, _ = choice(sshd.config("n", known=known), "n")
    assert refusal(ssh, "n", HostKeyChanged).slug == "host-key-revoked"
    assert "publickey" not in sshd.log


@pytest.mark.parametrize("form", ["list", "krl"])
def test_revoked_host_keys_of_ssh_config_hold(sshd, choice, tmp_path, form):
    revoked = tmp_path / "revoked"
    if form == "list":
        revoked.write_text(f"# gone\n{sshd.host_key}\n")
    else:
        argv = ["ssh-keygen", "-q", "-k", "-f", str(revoked), f"{sshd.folder}/host_key.pub"]
        subprocess.run(argv, check=True, capture_output=True)
    config = sshd.config("n", more=f"  RevokedHostKeys {revoked}\n")
    ssh, notes = choice(config, "n")
    assert notes == ["n: connected by the ssh program, because of RevokedHostKeys"]
    refusal(ssh, "n", HostKeyChanged)
    typed = Secrets(ask_pass=True, ask=lambda prompt: "x", terminal=True)
    by_password, notes = choice(config, "n", secrets=typed)
    error = refusal(by_password, "n", Unreachable)
    assert (error.slug, notes) == ("revoked-keys-unreadable", [])
    assert "publickey" not in sshd.log


def test_a_host_behind_such_a_host_takes_ssh_too(way, choice):
    config, _, outer = way
    known = outer.folder / "known_hosts"
    known.write_text(f"{outer.known_line}@cert-authority [127.0.0.1]:* {outer.host_key}\n")
    ssh, notes = choice(config, "n")
    assert say(ssh, "n", "echo hello") == b"hello\n"
    assert notes == ["n: connected by the ssh program, because of @cert-authority in known_hosts"]


def test_a_connection_that_ssh_shares_is_used_while_it_is_open(sshd, choice, tmp_path):
    """As after a login with a second factor: the key itself no longer lets in."""
    socket = tmp_path / "shared"
    config = sshd.config("n", more=f"  ControlPath {socket}\n")
    assert choice(config, "n")[1] == []
    words = tmp_path / "words"
    argv = ["ssh", "-E", str(words), "-F", str(config), "-M", "-N", "n"]
    master = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
    try:
        assert wait_until(lambda: listens(socket, 0.5) or master.poll() is not None, 300)
        assert master.poll() is None, words.read_text()
        (sshd.folder / "authorized_keys").write_text("")
        ssh, notes = choice(config, "n")
        assert say(ssh, "n", "echo hello") == b"hello\n"
        assert notes == ["n: connected by the ssh program, because of ControlMaster"]
    finally:
        master.kill()
        master.wait()


@pytest.mark.parametrize(("code", "count"), [(0, 1), (1, 0)])
def test_kerberos_counts_with_a_ticket_alone(sshd, choice, tmp_path, monkeypatch, code, count):
    klist = tmp_path / "bin" / "klist"
    klist.parent.mkdir()
    klist.write_text(f"#!/bin/sh\nexit {code}\n")
    klist.chmod(0o755)
    monkeypatch.setenv("PATH", f"{klist.parent}:/usr/bin:/bin")
    ssh, notes = choice(sshd.config("n", more=KERBEROS), "n")
    assert len(notes) == count
    assert say(ssh, "n", "echo hello") == b"hello\n"  # ssh takes the key where Kerberos does not do


@pytest.mark.parametrize(
    "line",
    [
        "PKCS11Provider /none.so",
        "HostbasedAuthentication yes",
        "Ciphers chacha20-poly1305@openssh.com",
    ],
)
def test_settings_that_only_ssh_knows(sshd, choice, line):
    ssh, notes = choice(sshd.config("n", more=f"  {line}\n"), "n")
    assert say(ssh, "n", "echo hello") == b"hello\n"
    assert notes == [f"n: connected by the ssh program, because of {line.split()[0]}"]


def test_a_key_on_a_device_takes_ssh_where_ssh_config_names_it(sshd, choice, tmp_path):
    kind = b"sk-ssh-ed25519@openssh.com"
    parts = (kind, b"k" * 32, b"ssh:")
    blob = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    key = tmp_path / "id_device"
    key.write_text("not for us\n")
    key.chmod(0o600)
    key.with_suffix(".pub").write_text(f"{kind.decode()} {base64.b64encode(blob).decode()}\n")
    _, notes = choice(sshd.config("n", more=f"  IdentityFile {key}\n"), "n")
    assert notes == ["n: connected by the ssh program, because of a key on a FIDO device"]


@pytest.mark.parametrize(
    ("slug", "told"), [(CUT_OFF, "connection-dropped"), ("no-route", "no-route")]
)
def test_an_attempt_that_the_deadline_cuts_off_hides_no_earlier_reason(
    slug: str, told: str
) -> None:
    attempts = iter([Dropped(Host("a"), ""), Unreachable("a: later", slug=slug)])

    def attempt() -> None:
        raise next(attempts)

    with pytest.raises(Unreachable) as e:
        retry_dropped(attempt, time.monotonic() + 60.0)
    assert e.value.slug == told
