"""Over a real sshd: who is let in, who is refused, and what is said about it."""

from __future__ import annotations

import base64
import getpass
import re
import resource
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import pytest

from ipexctl.errors import HostKeyChanged, HostKeyUnknown, InputError, Unreachable
from ipexctl.inventory.hostfile_text import parse_hosts
from ipexctl.inventory.inventory import Host
from ipexctl.machines.fleet import fan_out
from ipexctl.machines.ssh.known_hosts import key_fingerprint
from ipexctl.machines.ssh.openssh_transport import OpenSshTransport
from ipexctl.machines.ssh.paramiko_transport import SshTransport
from tests.ssh.conftest import free_port, keygen, ssh_add

PATIENCE = 120.0


def say(transport, name, command, timeout=PATIENCE) -> bytes:
    """All the command prints."""
    channel = transport.open(Host(name), command, timeout)
    said = b""
    while data := channel.read(65536, PATIENCE):
        said += data
    channel.close()
    return said


def refusal(transport, name, kind=Unreachable, timeout=PATIENCE):
    with pytest.raises(kind) as e:
        transport.open(Host(name), "true", timeout)
    assert type(e.value) is kind
    return e.value


# --- host keys -----------------------------------------------------------------------------------


def test_a_user_and_a_port_of_the_hostfile_go_first(sshd, transport):
    config = sshd.config("node1").read_text().replace(str(sshd.port), "1")
    path = sshd.folder / "other"
    path.write_text(config.replace("User ", "User nobody-"))
    host = Host("node1", user=getpass.getuser(), port=sshd.port)
    channel = transport(path).open(host, "echo hello", PATIENCE)
    assert channel.read(100, PATIENCE) == b"hello\n"


@pytest.mark.parametrize("more", ["", "  StrictHostKeyChecking no\n"])
def test_an_unknown_key_is_refused_with_its_fingerprint_before_any_login(sshd, transport, more):
    error = refusal(transport(sshd.config("n", known="", more=more), "n"), "n", HostKeyUnknown)
    printed = subprocess.run(
        ["ssh-keygen", "-lf", f"{sshd.folder}/host_key.pub"], capture_output=True, text=True
    ).stdout.split()[1]
    assert (error.slug, error.why, error.hint) == (
        "host-key-unknown",
        f"ssh-ed25519 {printed}",
        "ipexctl trust -H n",
    )
    assert "publickey" not in sshd.log and "user" not in sshd.log.lower()


def test_a_changed_key_is_refused_and_the_hint_removes_the_old_line(sshd, transport, tmp_path):
    keygen(tmp_path / "old")
    old = " ".join((tmp_path / "old.pub").read_text().split()[:2])
    name = f"[127.0.0.1]:{sshd.port}"
    config = sshd.config("n", known=f"# mine\n{name} {old}\n")
    error = refusal(transport(config, "n"), "n", HostKeyChanged)
    known = sshd.folder / "known_hosts"
    was = key_fingerprint(base64.b64decode(old.split()[1]))
    now = key_fingerprint(base64.b64decode(sshd.host_key.split()[1]))
    assert error.slug == "host-key-changed"
    assert [word in error.why.splitlines()[0] for word in (now, was, f"{known}:2")] == [True] * 3
    assert error.hint.startswith(f"ssh-keygen -R '{name}' -f {known}")
    assert "publickey" not in sshd.log
    subprocess.run(error.hint, shell=True, check=True, capture_output=True)
    refusal(transport(config, "n"), "n", HostKeyUnknown)


@pytest.mark.parametrize("first", [True, False])
def test_a_revoked_key_is_refused_wherever_it_stands(sshd, transport, first):
    lines = [f"@revoked * {sshd.host_key}\n", sshd.known_line]
    config = sshd.config("n", known="".join(lines if first else lines[::-1]))
    error = refusal(transport(config, "n"), "n", HostKeyChanged)
    assert error.slug == "host-key-revoked"


def test_hashed_names_and_lines_of_other_kinds_are_read(sshd, transport):
    config = sshd.config("n")
    known = sshd.folder / "known_hosts"
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(known)], check=True, capture_output=True)
    assert "127.0.0.1" not in known.read_text()
    known.write_text(f"@cert-authority * {sshd.host_key}\nnonsense\n" + known.read_text())
    assert say(transport(config, "n"), "n", "echo hello") == b"hello\n"


def test_the_host_shows_the_key_that_is_known(make_sshd, transport, tmp_path):
    key = tmp_path / "second"
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", str(key)],
        check=True,
        stdin=subprocess.DEVNULL,
    )
    sshd = make_sshd(f"HostKey {key}")
    ecdsa = " ".join(key.with_suffix(".pub").read_text().split()[:2])
    config = sshd.config("n", known=f"[127.0.0.1]:{sshd.port} {ecdsa}\n")
    assert say(transport(config, "n"), "n", "echo hello") == b"hello\n"


def test_a_host_key_alias_is_looked_up(sshd, transport):
    config = sshd.config("n", known=f"cluster {sshd.host_key}\n", more="  HostKeyAlias cluster\n")
    assert say(transport(config, "n"), "n", "echo hello") == b"hello\n"


# --- jumps ---------------------------------------------------------------------------------------


def test_a_host_behind_a_jump_host_is_reached(way, transport):
    config, inner, outer = way
    ssh = transport(config, "n")
    assert say(ssh, "n", "echo $SSH_CONNECTION | cut -d' ' -f4") == b"%d\n" % inner.port
    assert say(ssh, "n", "echo again") == b"again\n"
    assert outer.log.count("Accepted publickey") == 1  # one way in for everybody
    assert outer.log.count("Starting session") == 0


def test_an_unknown_key_of_the_jump_host_is_told_by_its_own_name(way, transport):
    config, inner, outer = way
    (outer.folder / "known_hosts").write_text("")
    error = refusal(transport(config, "n"), "n", HostKeyUnknown)
    assert (error.slug, error.what.split(":")[0]) == ("host-key-unknown", "login")


def test_what_the_jump_host_cannot_reach_is_told(way, transport):
    config, inner, outer = way
    inner.stop()
    error = refusal(transport(config, "n"), "n")
    assert error.slug == "jump-host-cannot-reach"
    assert error.what.endswith(f"127.0.0.1:{inner.port}")


def test_a_proxy_command_carries_the_connection(sshd, transport):
    nc = (
        "python3 -c 'import socket,os,sys,threading as t; s=socket.create_connection((sys.argv[1],"
        'int(sys.argv[2])));f=lambda r,w:[w(d) for d in iter(r,b"")];'
        "t.Thread(target=f,args=(lambda:os.read(0,9999),s.sendall),daemon=True).start();"
        "f(lambda:s.recv(9999),lambda d:os.write(1,d))' %%h %%p"
    )
    config = sshd.config("n", more=f"  ProxyCommand {nc.replace('%%', '%')}\n")
    assert say(transport(config, "n"), "n", "echo hello") == b"hello\n"


# --- logging in ----------------------------------------------------------------------------------


def test_a_key_that_isnt_allowed_is_named(sshd, transport):
    (sshd.folder / "authorized_keys").write_text("")
    user = getpass.getuser()
    error = refusal(transport(sshd.config("n"), "n"), "n")
    assert (error.slug, error.why, error.hint) == (
        "login-failed",
        f"tried: {sshd.folder}/id",
        f"ssh-copy-id -i {sshd.folder}/id {user}@n",  # without it, only a usual name is found
    )


def test_a_host_that_wants_a_password_is_told_apart(make_sshd, transport):
    sshd = make_sshd("PubkeyAuthentication no", "PasswordAuthentication yes")
    error = refusal(transport(sshd.config("n"), "n"), "n")
    assert (error.slug, error.hint) == ("login-failed", "--ask-pass")
    assert "accepts: password" in error.why


def test_every_key_is_tried_in_turn(sshd, transport):
    keygen(sshd.folder / "other")
    config = sshd.config("n", more=f"Host *\n  IdentityFile {sshd.folder}/other\n")
    text = config.read_text().replace(f"IdentityFile {sshd.folder}/id", "IdentityFile /none", 1)
    config.write_text(text + f"  IdentityFile {sshd.folder}/id\n")
    assert say(transport(config, "n"), "n", "echo hello") == b"hello\n"
    assert sshd.log.count("Failed publickey") == 1


def test_a_key_with_a_passphrase_needs_the_agent(sshd, transport):
    argv = ["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", f"{sshd.folder}/id"]
    subprocess.run(argv, check=True)
    error = refusal(transport(sshd.config("n"), "n"), "n")
    assert (error.slug, f"{sshd.folder}/id " in error.why) == ("login-failed", True)
    assert error.hint == f"ssh-add {sshd.folder}/id"


@pytest.mark.parametrize("authority_is_known", [True, False])
def test_the_certificate_beside_a_key_is_shown_first(
    make_sshd, transport, tmp_path, authority_is_known
):
    keygen(tmp_path / "ca")
    trusted = (f"TrustedUserCAKeys {tmp_path}/ca.pub",) if authority_is_known else ()
    sshd = make_sshd(*trusted)
    argv = ["ssh-keygen", "-q", "-s", f"{tmp_path}/ca", "-I", "x", "-n", getpass.getuser()]
    subprocess.run([*argv, f"{sshd.folder}/id.pub"], check=True, capture_output=True)
    if authority_is_known:
        (sshd.folder / "authorized_keys").write_text("")
    assert say(transport(sshd.config("n"), "n"), "n", "echo hello") == b"hello\n"
    accepted = "ED25519-CERT" if authority_is_known else "ED25519"
    assert f"ssh2: {accepted} " in sshd.log.partition("Accepted publickey")[2]


def test_a_key_that_others_can_read_is_not_used(sshd, transport):
    (sshd.folder / "id").chmod(0o644)
    error = refusal(transport(sshd.config("n"), "n"), "n")
    assert f"chmod 600 {sshd.folder}/id" in error.why


@pytest.mark.parametrize("only", ["yes", "no"])
def test_the_agent_holds_the_key(sshd, transport, ssh_agent, only):
    ssh_add(ssh_agent, sshd.folder / "id")
    (sshd.folder / "id").unlink()  # only id.pub is left, which names the agent's key
    text = sshd.config("n").read_text().replace("IdentitiesOnly yes", f"IdentitiesOnly {only}")
    config = sshd.folder / "ssh_config"
    config.write_text(text + f"  IdentityAgent {ssh_agent['SSH_AUTH_SOCK']}\n")
    names = [f"n{i}" for i in range(4)]
    config.write_text(config.read_text().replace("Host n\n", f"Host {' '.join(names)}\n"))
    ssh = transport(config, *names)
    said = fan_out([Host(n) for n in names], lambda h: say(ssh, h.name, f"echo {h.name}"))
    assert [*said.values()] == [f"{n}\n".encode() for n in names]


def test_the_agents_other_keys_are_left_alone_when_ssh_config_says_so(sshd, transport, ssh_agent):
    ssh_add(ssh_agent, sshd.folder / "id")
    for name in ("id", "id.pub"):
        (sshd.folder / name).unlink()
    config = sshd.config("n", more=f"  IdentityAgent {ssh_agent['SSH_AUTH_SOCK']}\n")
    error = refusal(transport(config, "n"), "n")
    assert (error.slug, error.why.splitlines()[1].split(": ")[1]) == (
        "login-failed",
        f"{sshd.folder}/id",
    )


def three_useless_keys(sshd, ssh_agent, only):
    """An ssh_config with three keys that nobody allows, before the one that would be let in."""
    names = [sshd.folder / f"useless{i}" for i in range(3)]
    for name in names:
        keygen(name)
    config = sshd.config("n")
    files = "".join(f"  IdentityFile {name}\n" for name in names)
    text = config.read_text().replace(f"  IdentityFile {sshd.folder}/id\n", files)
    text = text.replace("IdentitiesOnly yes", f"IdentitiesOnly {only}")
    config.write_text(text + f"  IdentityAgent {ssh_agent['SSH_AUTH_SOCK']}\n")
    return config


def test_the_agents_keys_go_before_those_that_are_files_only(make_sshd, transport, ssh_agent):
    sshd = make_sshd("MaxAuthTries 3")
    ssh_add(ssh_agent, sshd.folder / "id")
    config = three_useless_keys(sshd, ssh_agent, "no")
    assert say(transport(config, "n"), "n", "echo hello") == b"hello\n"
    assert "Failed publickey" not in sshd.log


def test_a_host_that_hangs_up_before_all_keys_were_tried_is_told(make_sshd, transport, ssh_agent):
    sshd = make_sshd("MaxAuthTries 3")
    config = three_useless_keys(sshd, ssh_agent, "yes")
    config.write_text(config.read_text() + f"  IdentityFile {sshd.folder}/id\n")
    error = refusal(transport(config, "n"), "n")
    assert (error.slug, "3 keys" in error.what) == ("login-hung-up", True)
    assert error.why.splitlines()[1] == f"not tried: {sshd.folder}/id"
    assert "IdentitiesOnly" in error.hint


def test_a_certificate_that_ssh_config_names_goes_first(sshd, transport, ssh_agent, tmp_path):
    for name in ("ca", "other"):
        keygen(tmp_path / name)
    argv = ["ssh-keygen", "-q", "-s", f"{tmp_path}/ca", "-I", "x", "-n", "somebody"]
    subprocess.run([*argv, f"{sshd.folder}/id.pub"], check=True, capture_output=True)
    ssh_add(ssh_agent, tmp_path / "other")
    config = sshd.config("n", more=f"  CertificateFile {sshd.folder}/id-cert.pub\n")
    text = config.read_text().replace("IdentitiesOnly yes", "IdentitiesOnly no")
    config.write_text(text + f"  IdentityAgent {ssh_agent['SSH_AUTH_SOCK']}\n")
    assert say(transport(config, "n"), "n", "echo hello") == b"hello\n"
    tried = re.findall("(?:Failed|Accepted) publickey for .* ssh2: (\\S+)", sshd.log)
    assert tried == ["ED25519-CERT", "ED25519", "ED25519"]


# --- the network ---------------------------------------------------------------------------------


@contextmanager
def port_that(serve) -> Iterator[int]:
    """A port of ours; `serve` gets every connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def loop() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

        threading.Thread(target=loop, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def config_for(tmp_path, port):
    path = tmp_path / "config"
    path.write_text(f"Host n\n HostName 127.0.0.1\n Port {port}\n UserKnownHostsFile none\n")
    return path


@pytest.mark.parametrize(
    ("banner", "then", "slug", "said"),
    [
        (b"", "waits", "no-ssh-banner", "PORT"),
        (b"SSH-2.0-stuck\r\n", "waits", "key-exchange-timeout", ""),
        (b"220 mail.example ESMTP\r\n", "closes", "not-ssh", "220 mail.example ESMTP"),
        (b"Not allowed at this time\r\n", "closes", "ssh-penalty", ""),  # and is not asked again
        (b"", "closes", "connection-dropped", ""),
        (b"Exceeded MaxStartups\r\n", "closes", "connection-dropped", ""),
        (b"", "refuses", "connection-refused", "PORT"),
    ],
)
def test_what_listens_and_is_no_sshd_is_told_by_the_deadline(
    transport, tmp_path, banner, then, slug, said
):
    calls = []

    def serve(connection):
        calls.append(banner)
        connection.sendall(banner)
        while then == "waits" and connection.recv(1 << 16):
            pass
        connection.close()

    started = time.monotonic()
    with port_that(serve) as port:
        port = free_port() if then == "refuses" else port
        error = refusal(transport(config_for(tmp_path, port), "n"), "n", timeout=2.0)
    assert error.slug == slug
    assert said.replace("PORT", str(port)) in error.what + error.why
    assert (len(calls) > 1) is (slug == "connection-dropped")
    assert time.monotonic() - started < PATIENCE


def test_a_name_that_does_not_resolve_is_told(transport):
    error = refusal(transport(None, "no-such-host.invalid"), "no-such-host.invalid", timeout=30)
    assert error.slug == "name-not-resolved"


def test_an_option_never_gets_past_the_border_or_ssh(transport, tmp_path):
    """The border refuses such a name; should one get past it, ssh -G takes it for a name too."""
    marker = tmp_path / "touched"
    name = f"-oProxyCommand=touch {marker}"
    with pytest.raises(InputError):
        parse_hosts((name,))
    with suppress(InputError):
        transport(None, name)
    assert not marker.exists()


@pytest.mark.parametrize("kind", [SshTransport, OpenSshTransport])
def test_twenty_at_once_get_through_a_small_door(make_sshd, kind):
    sshd = make_sshd("MaxStartups 3:80:4")
    names = [f"n{i}" for i in range(20)]
    hosts = tuple(Host(n) for n in names)
    with closing(kind(hosts, sshd.config(*names))) as ssh:
        said = fan_out(hosts, lambda h: say(ssh, h.name, f"echo {h.name}", 60.0))
    assert [*said.values()] == [f"{n}\n".encode() for n in names]
    assert "MaxStartups" in sshd.log  # the door was really too small


def test_many_hosts_get_the_files_that_their_connections_open(sshd, transport):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        transport(sshd.config("n*"), *(f"n{i}" for i in range(200)))
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 200 * 3 + 64
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_it_closes_while_a_connection_is_made(sshd, transport, monkeypatch):
    """As by Ctrl-C in the moment before the keys are exchanged."""
    ssh = transport(sshd.config("node1"))
    there, goes_on = threading.Event(), threading.Event()

    def waits(self, deadline):
        there.set()
        goes_on.wait(PATIENCE)
        raise Unreachable("closed", slug="closed")

    monkeypatch.setattr("ipexctl.machines.ssh.link.SshLink.exchange_keys", waits)
    thread = threading.Thread(target=refusal, args=(ssh, "node1"))
    thread.start()
    try:
        assert there.wait(PATIENCE)
        ssh.close()
    finally:
        goes_on.set()
        thread.join(PATIENCE)
    assert not thread.is_alive()
