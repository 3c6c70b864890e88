"""One command on a host: bytes both ways, its end, and the end of the connection."""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import socket
import subprocess
import threading
from contextlib import closing, suppress

import paramiko
import pytest

from ipexctl.common.waiting import wait_until
from ipexctl.errors import Unreachable
from ipexctl.inventory.inventory import Host
from ipexctl.machines.agent_start import start_host_agent
from ipexctl.machines.ssh.channel import limit_buffer
from ipexctl.machines.wire.transport import ChannelTimeout
from tests.processes import gone

PATIENCE = 30.0
MIB = 1 << 20


@pytest.fixture
def run(sshd, transport):
    """run(command) -> the channel"""
    ssh = transport(sshd.config("n"), "n")
    return lambda command: ssh.open(Host("n"), command, PATIENCE)


def everything(channel) -> bytes:
    parts = []
    while data := channel.read(1 << 16, PATIENCE):
        parts.append(data)
    return b"".join(parts)


@pytest.mark.parametrize("options", [(), ("RekeyLimit 300K",)])
def test_five_mebibytes_come_back_whole_while_stderr_makes_noise(make_sshd, transport, options):
    """Also while the two ends agree on new keys again and again."""
    sshd = make_sshd(*options)
    sent = os.urandom(5 * MIB)
    noise = "(i=0; while [ $i -lt 60 ]; do head -c 65536 /dev/zero >&2; i=$((i+1)); done)"
    command = f"{noise} & head -c {len(sent)}; wait"
    channel = transport(sshd.config("n"), "n").open(Host("n"), command, PATIENCE)
    writer = threading.Thread(target=channel.write, args=(sent,))
    writer.start()
    got = everything(channel)
    writer.join(PATIENCE)
    assert hashlib.sha256(got).digest() == hashlib.sha256(sent).digest()
    assert channel.exit_status(PATIENCE) == 0
    assert channel.stderr() == bytes(65536)


def test_noise_on_stderr_alone_does_not_stop_the_command(run):
    """8 MiB is four times the window, and nobody reads stdout meanwhile."""
    channel = run(f"head -c {8 * MIB} /dev/zero >&2; echo end >&2; echo done")
    assert everything(channel) == b"done\n"
    assert wait_until(lambda: channel.stderr().endswith(b"end\n"))
    assert len(channel.stderr()) == 65536


def test_a_read_without_data_times_out_and_nothing_is_lost(run):
    channel = run("exec cat")
    with pytest.raises(ChannelTimeout):
        channel.read(10, 0.1)
    channel.write(b"hello")
    assert (channel.read(3, PATIENCE), channel.read(3, PATIENCE)) == (b"hel", b"lo")
    with pytest.raises(ChannelTimeout):
        channel.read(10, 0.0)


@pytest.mark.parametrize(("command", "status"), [("true", 0), ("exit 7", 7), ("kill -9 $$", None)])
def test_the_exit_status_is_told(run, command, status):
    channel = run(command)
    assert (everything(channel), channel.exit_status(5.0)) == (b"", status)


def test_closing_ends_the_command_through_its_stdin(run, tmp_path):
    ended = tmp_path / "ended"
    channel = run(f"cat > /dev/null; touch {ended}")
    channel.close()
    assert wait_until(ended.exists)


def test_writing_to_a_command_that_has_ended_is_an_error(run):
    channel = run("true")
    assert everything(channel) == b""
    with pytest.raises(OSError):
        for _ in range(1000):
            channel.write(bytes(MIB))


def test_a_connection_that_dies_ends_reads_and_writes(run, sshd):
    channel = run("echo $PPID; exec sleep 600")
    server = int(channel.read(100, PATIENCE))
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(channel.read(10, PATIENCE)))
    reader.start()
    os.kill(server, signal.SIGKILL)
    reader.join(PATIENCE)
    assert read == [b""]
    with pytest.raises(OSError):
        for _ in range(1000):
            channel.write(bytes(MIB))
    assert channel.exit_status(0.1) is None


def test_each_open_is_one_connection_with_one_session(sshd, transport):
    ssh = transport(sshd.config("n"), "n")
    for _ in range(2):
        channel = ssh.open(Host("n"), "echo hello", PATIENCE)
        assert everything(channel) == b"hello\n"
        channel.close()
    log = sshd.log
    counts = [log.count(words) for words in ("Connection from", "Starting session", "Accepted pub")]
    assert counts == [2, 2, 2]


def test_nothing_is_left_after_close(sshd, transport):
    ssh = transport(sshd.config("n"), "n")
    before = threading.active_count()
    for _ in range(3):
        ssh.open(Host("n"), "exec sleep 600", PATIENCE)
    ssh.close()
    assert wait_until(lambda: threading.active_count() <= before)


def test_an_interpreter_with_open_connections_ends_at_once(sshd):
    code = (
        "import sys; from pathlib import Path; from ipexctl.inventory.inventory import Host;"
        "from ipexctl.machines.ssh.paramiko_transport import SshTransport;"
        "t = SshTransport((Host('n'),), Path(sys.argv[1]));"
        "c = t.open(Host('n'), 'exec cat', 20); c.write(b'x'); assert c.read(1, 20) == b'x'"
    )
    argv = [os.sys.executable, "-c", code, str(sshd.config("n"))]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# --- the agent -----------------------------------------------------------------------------------


def test_a_python_that_hangs_is_not_left_on_a_host(sshd, transport, tmp_path):
    python, pids = tmp_path / "python3", tmp_path / "pids"
    python.write_text(f"#!/bin/sh\nsleep 321 & echo $$ $! >>{pids}; wait\n")
    python.chmod(0o755)
    host = Host("n", python=str(python))
    with closing(start_host_agent(transport(sshd.config("n"), "n"), host, timeout=6.0)) as agent:
        assert str(python) in agent.hello.passed
        assert agent.hello.started != str(python)
    left = pids.read_text().split()
    assert len(left) == 4  # it was started, and asked again
    assert [pid for pid in left if not gone(int(pid))] == []


@pytest.mark.soak
@pytest.mark.lab
def test_an_unplugged_host_ends_the_connection(make_lab, transport):
    from ipexctl.lab import LabSpec

    lab = make_lab(LabSpec.plain(1, name="unplugged"))
    channel = transport(lab.ssh_config, "node01").open(Host("node01"), "exec cat", PATIENCE)
    lab.fault("node01", "unplug")
    channel.write(b"x")
    assert channel.read(10, 90.0) == b""


def test_a_server_that_sends_more_than_its_window_ends_the_connection():
    channel = paramiko.Channel(1)
    channel.in_window_size = 1000
    channel.in_buffer.feed(b"x" * 10)
    limit_buffer(channel)
    channel.in_buffer.feed(b"x" * 1990)
    with pytest.raises(paramiko.SSHException, match="window"):
        channel.in_buffer.feed(b"x")
    assert len(channel.in_buffer.read(3000)) == 2000


def test_a_packet_without_end_is_refused(transport, tmp_path):
    """Before the login: whoever answers there is not known yet."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def flood() -> None:
            wire, _ = server.accept()
            with wire, suppress(OSError):
                wire.sendall(b"SSH-2.0-x\r\n" + (0x7FFFFFFC).to_bytes(4, "big"))
                while True:
                    wire.sendall(bytes(1 << 16))

        threading.Thread(target=flood, daemon=True).start()
        config = tmp_path / "config"
        config.write_text(f"Host n\n HostName 127.0.0.1\n Port {server.getsockname()[1]}\n")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(Unreachable):
            transport(config, "n").host_key(Host("n"), 10)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 << 10
