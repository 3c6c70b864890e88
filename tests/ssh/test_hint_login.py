"""What is suggested after a failed login reaches the same account of the same host."""

from __future__ import annotations

import getpass

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
    wanted = f"ssh{login} true" if transport == "openssh" else f"ssh-copy-id{login}"
    assert wanted in " ".join(done.stdout.split())
