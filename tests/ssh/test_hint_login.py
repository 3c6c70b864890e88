"""What is suggested after a failed login reaches the same account of the same host."""

from __future__ import annotations

import getpass
import socket

import pytest

from tests.cli import ipexctl


@pytest.mark.parametrize("transport", ["paramiko", "openssh"])
def test_the_hint_logs_in_as_the_hostfile_says(sshd, tmp_path, transport):
    (sshd.folder / "authorized_keys").write_text("")
    config, user, port = sshd.config("*"), getpass.getuser(), sshd.port
    config.write_text(config.read_text().replace(f"  Port {port}\n  User {user}\n", ""))
    hosts = tmp_path / "hosts"
    hosts.write_text(f"node3 address=127.0.0.1 user={user} port={port}\n")
    words = ("-f", str(hosts), "-F", str(config), "--transport", transport)
    done = ipexctl("doctor", *words, cwd=tmp_path)
    assert done.returncode == 4
    login = f" -F {config} -p {port} {user}@127.0.0.1"
    key = f" -i {sshd.folder}/id" if transport == "paramiko" else ""
    copy = f"ssh-copy-id{login.replace(' -p', f'{key} -p')}"
    wanted = [copy, *([f"ssh{login} true"] if transport == "openssh" else [])]
    shown = " ".join(done.stdout.split())
    assert [command for command in wanted if command not in shown] == []


def test_trust_suggests_the_same_ssh_configuration(tmp_path):
    """A host that says hello and then nothing of SSH's key exchange."""
    (tmp_path / "cfg").write_text("Host *\n  ConnectTimeout 1\n")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        (tmp_path / "hosts").write_text(f"node1 address=127.0.0.1 user=ann port={port}\n")
        done = ipexctl("trust", "-f", "hosts", "-F", "cfg", cwd=tmp_path)
    assert done.returncode == 4
    assert f"try: ssh -F cfg -v -p {port} ann@127.0.0.1 true" in done.stderr


@pytest.mark.parametrize("usual", ["daemon", ""])
def test_a_user_that_was_typed_may_have_no_account(sshd, tmp_path, usual):
    """sshd refuses the login in the same way as one without the right key."""
    config, user = sshd.config("n"), f"  User {getpass.getuser()}\n"
    other = f"  User {usual}\n" if usual else ""
    config.write_text(config.read_text().replace(user, other))
    done = ipexctl("doctor", "-H", "nobody-here@n", "-F", str(config), cwd=tmp_path)
    assert done.returncode == 4
    copy = f"ssh-copy-id -F {config} -i {sshd.folder}/id nobody-here@n"
    fixes = [line[6:] for line in done.stdout.splitlines() if line.startswith("  fix ")]
    if usual:
        again = f"ipexctl doctor -H n -F {config}"
        assert fixes == [again, f"# does n have an account nobody-here? if so: {copy}"]
    else:
        assert fixes == [f"{copy}   # if n has an account nobody-here"]
