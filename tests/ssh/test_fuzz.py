"""Whatever a file or a host says: an answer or an error of ours, soon; never a traceback."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ipexctl.common.frames import encode_frame
from ipexctl.errors import HostFailed, IpexctlError, printable_text
from ipexctl.facts import host_facts
from ipexctl.inventory.inventory import Host
from ipexctl.machines.agent_start import start_host_agent
from ipexctl.machines.openssh.ssh_config import (
    Me,
    expand_path,
    for_another,
    included_files,
    parse_config,
    parse_jump,
    proxy_command,
    read_answer,
)
from ipexctl.machines.ssh.known_hosts import (
    KnownHosts,
    Standing,
    lookup_names,
    parse_known_hosts,
)
from ipexctl.machines.wire.frames import BadFrame, Decoder
from ipexctl.machines.wire.transport import Channel, ChannelTimeout

SOME = settings(
    max_examples=150,
    derandomize=True,
    database=None,
    deadline=5000,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
KEY = base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + b"k" * 32).decode()
ME = Me("ann", "/home/ann", 1000, "here", {"HOME": "/home/ann"})


def mixed(*words: str) -> st.SearchStrategy[str]:
    """Texts of these words and of anything."""
    part = st.sampled_from(words) | st.text(max_size=8)
    return st.lists(part, max_size=40).map("".join)


KNOWN = mixed(
    "node1", "[node1]:22", "*", "!", "?", ",", " ", "\n", "\t", "#", "|1|", "|", "AAAA=", KEY,
    "ssh-ed25519", "@revoked ", "@cert-authority ", "\0", "\x1b[31m",
)  # fmt: skip


@SOME
@given(KNOWN)
def test_known_hosts_of_any_text_are_read(text):
    known = KnownHosts(parse_known_hosts(text, "file"))
    names = lookup_names("node1", 22)
    verdict = known.judge(names, "ssh-ed25519", base64.b64decode(KEY))
    assert (verdict.standing is Standing.KNOWN) <= (KEY in text)
    known.types(names), known.has_authority(names)


@SOME
@given(KNOWN)
def test_a_line_of_nonsense_takes_nothing_from_the_others(text):
    nonsense = "".join(line + " #\n" for line in text.split("\n") if "@" not in line)
    known = KnownHosts(parse_known_hosts(nonsense + f"\nnode9 ssh-ed25519 {KEY}\n", "file"))
    verdict = known.judge(("node9",), "ssh-ed25519", base64.b64decode(KEY))
    assert verdict.standing is Standing.KNOWN


@SOME
@given(mixed(
    "host ", "hostname ", "port ", "22", "-1", "99999999999999", "user ", "identityfile ",
    "proxyjump ", "none", "%h", "%", "${HOME}", "~", "\n", ",", "@", "[", "]:", "certificatefile ",
))  # fmt: skip
def test_any_answer_of_ssh_g_is_read(text):
    answer = read_answer(text, "node1")
    assert answer.name == "node1"
    for value in (answer.hostname, *answer.identity_files):
        expand_path(value, answer, ME)
    proxy_command(answer, ME)
    for hop in answer.proxy_jump:
        parse_jump(hop)


@SOME
@given(mixed("Host ", "node*", "!node1", "\n", "HostName ", "%h.x", "Port ", "=", '"', "Include "))
def test_any_ssh_config_is_read(text):
    included_files(text)
    config = parse_config([text])
    config.host_class(Host("node1"))
    answer = read_answer(text, "node1")
    for_another(answer, config, "node2")


# --- frames --------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["id", "done", "error", "event", "what", "python"]), inner
        )
    ),
    max_leaves=12,
)
HEADERS = JSON.map(lambda value: json.dumps(value).encode())
RAW = st.binary(max_size=60)
PACKED = st.builds(
    lambda header, body: struct.pack(">II", len(header), len(body)) + header + body,
    HEADERS | RAW,
    RAW,
)
STREAM = st.lists(PACKED | RAW, max_size=6).map(b"".join)


@SOME
@given(STREAM, st.integers(1, 50))
def test_any_stream_gives_frames_or_a_bad_frame_however_it_was_cut(stream, size):
    def frames(pieces):
        decoder, found = Decoder(), []
        try:
            for piece in pieces:
                found += decoder.feed(piece)
        except BadFrame as e:
            return found, str(e)
        return found, ""

    whole = frames([stream])
    cut = frames([stream[i : i + size] for i in range(0, len(stream), size)])
    assert cut[1] == whole[1]
    assert whole[1] or cut[0] == whole[0]  # what came before nonsense may or may not be seen


class Said:
    """A channel on which everything was said already; b"..." as the marker asks for it."""

    def __init__(self, command: str, say: Callable[[bytes], bytes], size: int) -> None:
        marker = command.rpartition(" ")[2].encode()
        self.data, self.size = say(marker), size

    def write(self, data: bytes) -> None:
        return None

    def round_trip(self) -> float | None:
        return None

    def read(self, size: int, timeout: float | None = None) -> bytes:
        step = min(size, self.size)
        data, self.data = self.data[:step], self.data[step:]
        return data

    def stderr(self) -> bytes:
        return b"\x1b[31mno\x07"

    def exit_status(self, timeout: float) -> int | None:
        return 1

    def close(self) -> None:
        return None


class Hostile:
    def __init__(self, say: Callable[[bytes], bytes], size: int) -> None:
        self.say, self.size = say, size

    def open(self, host: Host, command: str, timeout: float) -> Channel:
        return Said(command, self.say, self.size)

    def close(self) -> None:
        return None


def hello(stream: bytes) -> Callable[[bytes], bytes]:
    return lambda marker: b"noise\n" + marker + b"-py\n" + stream


SH = mixed(
    ":kernel\n", ":mem\n", "MemTotal: 1 kB\n", ":cpu\n", "processor\t: 0\n", ":df\n", ":os\n",
    "/dev/x 1 2 3 4% /dev/shm\n", "ID=x\n", ":end\n", ":ssh\n", "\x1b[31m", "9" * 30,
)  # fmt: skip
GOOD_HELLO = encode_frame({"id": 0, "done": {"python": [3, 11], "path": "/usr/bin/python3"}})


@SOME
@given(STREAM, st.integers(1, 50), st.booleans())
def test_an_agent_that_says_anything_ends_in_an_answer_or_an_error(stream, size, greeted):
    stream = GOOD_HELLO + stream if greeted else stream
    try:
        agent = start_host_agent(Hostile(hello(stream), size), Host("n"))
        reply = agent.call("facts.probe.facts", total=30)
        host_facts.from_json("n", reply.done)
    except IpexctlError as e:
        assert printable_text(e.what + e.why + e.hint) == e.what + e.why + e.hint


@SOME
@given(SH)
def test_what_plain_sh_says_is_facts_or_an_error(text):
    agent = start_host_agent(
        Hostile(lambda marker: b"\n" + marker + b"-sh\n" + text.encode("utf-8", "replace"), 4096),
        Host("n"),
    )
    try:
        found = host_facts.from_sh("n", agent.hello.sh_text)
    except HostFailed:
        return
    assert "\x1b" not in f"{found}"


# --- talking for ever ----------------------------------------------------------------------------


class Dripping(Said):
    """Never ends, never stays silent."""

    def read(self, size: int, timeout: float | None = None) -> bytes:
        if timeout is not None and timeout <= 0:
            raise ChannelTimeout
        if self.data:
            return super().read(size, timeout)
        return self.more

    more = b"."


def dripping(say: Callable[[bytes], bytes], more: bytes) -> Hostile:
    class Forever(Hostile):
        def open(self, host: Host, command: str, timeout: float) -> Channel:
            channel = Dripping(command, self.say, 1 << 16)
            channel.more = more
            return channel

    return Forever(say, 1 << 16)


EVENT = encode_frame({"id": 1, "event": "alive"})


@pytest.mark.parametrize(
    ("say", "more", "words"),
    [
        (lambda marker: b"", b".", "do not respond in time|more than 1 MiB"),
        (hello(b"\0\0"), b"\0", "invalid reply"),
        (hello(GOOD_HELLO), EVENT, "no complete answer within"),
        (hello(GOOD_HELLO), EVENT * 999, "no complete answer within|more than 256 MiB"),
        (hello(GOOD_HELLO), struct.pack(">II", 9, 7 << 20), "no complete answer within"),
    ],
)
def test_a_host_that_talks_for_ever_comes_to_an_end(say, more, words):
    with pytest.raises(IpexctlError, match=words):
        start_host_agent(dripping(say, more), Host("n"), timeout=2.0).call(
            "facts.probe.facts", total=0.5
        )
