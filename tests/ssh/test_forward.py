"""Connections through a jump host: many at once, each ending when it likes."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from paramiko import Message, SSHException
from paramiko.common import cMSG_CHANNEL_CLOSE, cMSG_CHANNEL_DATA, cMSG_CHANNEL_EOF

from ipexctl.machines.ssh.channel import InOrder
from tests.ssh.conftest import jump_config
from tests.ssh.test_connect import PATIENCE, say


def test_a_host_that_ends_does_not_cut_off_the_others_behind_its_jump_host(
    make_sshd, transport, tmp_path
):
    inner, outer = make_sshd("MaxStartups 100"), make_sshd("MaxSessions 100")
    config = tmp_path / "config"
    config.write_text(jump_config(inner, outer).replace("Host n\n", "Host n?\n"))
    names = [f"n{i}" for i in range(4)]
    ssh = transport(config, *names)

    def often(name):
        return [say(ssh, name, f"echo {name} {i}") for i in range(10)]

    with ThreadPoolExecutor(len(names)) as pool:
        heard = list(pool.map(often, names))
    assert heard == [[f"{name} {i}\n".encode() for i in range(10)] for name in names]
    assert "nonexistent channel" not in outer.log
    assert outer.log.count("Accepted publickey") == 1


def test_nothing_is_sent_on_a_channel_after_its_close():
    """The first sender is held up inside, while others come with a CLOSE and with what is late."""
    sent, entered, go_on = [], threading.Event(), threading.Event()

    class Slow:
        def _send_user_message(self, message):
            entered.set()
            assert go_on.wait(PATIENCE)
            sent.append(message.asbytes())

    def message(kind):
        one = Message()
        one.add_byte(kind)
        one.add_int(7)
        return one

    channel = InOrder(Slow())
    first = threading.Thread(target=channel._send_user_message, args=(message(cMSG_CHANNEL_DATA),))
    first.start()
    assert entered.wait(PATIENCE)
    channel._send_user_message(message(cMSG_CHANNEL_CLOSE))  # returns: the first one sends it
    channel._send_user_message(message(cMSG_CHANNEL_EOF))
    assert not sent
    go_on.set()
    first.join(PATIENCE)
    assert [data[:1] for data in sent] == [cMSG_CHANNEL_DATA, cMSG_CHANNEL_CLOSE]


def test_a_sender_that_fails_does_not_silence_the_channel():
    sent = []

    class Odd:
        def _send_user_message(self, message):
            if not sent:
                sent.append("failed")
                raise SSHException("key exchange")
            sent.append(message.asbytes())

    channel = InOrder(Odd())
    with pytest.raises(SSHException):
        channel._send_user_message(Message(cMSG_CHANNEL_DATA))
    channel._send_user_message(Message(cMSG_CHANNEL_EOF))
    assert sent == ["failed", cMSG_CHANNEL_EOF]
