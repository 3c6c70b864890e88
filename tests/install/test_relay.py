"""Hosts that give each other the files: one host is sent them."""

from __future__ import annotations

import hashlib
import os
import random
import socket
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ipexctl.base.blob import Blob
from ipexctl.blobs import blob_relay
from ipexctl.blobs.blob_relay import Carrier, Moved, fetch_there
from ipexctl.blobs.blob_store import Room, missing_blobs, need_room
from ipexctl.blobs.tls_keys import make_keys
from ipexctl.common.port_answers import PortOpened
from ipexctl.errors import HostFailed, Unreachable
from ipexctl.inventory.inventory import Host
from ipexctl.lab import LabSpec
from ipexctl.machines.agent import Agent
from ipexctl.machines.agent_start import start_host_agent
from ipexctl.machines.fleet import fan_out
from ipexctl.machines.wire.transport import LocalTransport
from ipexctl.remote.connection import peer_tls
from tests.conftest import MakeLab
from tests.install.conftest import Shop
from tests.install.over_ssh import install, stock

CONTENTS = [random.Random(n).randbytes(n) for n in (5 << 20, 1000)]
BLOBS = [
    Blob(f"{i}.whl", hashlib.sha256(data).hexdigest(), len(data)) for i, data in enumerate(CONTENTS)
]
SIZE = sum(b.size for b in BLOBS)
HERE = "127.0.0.1"
NOWHERE = "255.255.255.255"  # TCP knows at once that it goes nowhere, and nothing is sent
KEYS = make_keys()


def read(blob: Blob, offset: int, size: int) -> bytes:
    return CONTENTS[BLOBS.index(blob)][offset : offset + size]


class Site:
    """Agents with roots of their own, all of them on this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.agents: dict[str, Agent] = {}
        self.said: list[str] = []
        self.steps: list[str] = []

    def add(self, *names: str) -> None:
        for name in names:
            self.agents[name] = start_host_agent(LocalTransport(), Host(name, local=True))

    def root(self, name: str) -> Path:
        return self.folder / "roots" / name

    def relay(self, **reached_at: str) -> Carrier:
        self.add(*(name for name in reached_at if name not in self.agents))
        return Carrier(read, reached_at, self.said.append)

    def bring(self, carrier: Carrier, name: str, root: Path | None = None) -> Moved:
        place = root or self.root(name)
        place.parent.mkdir(exist_ok=True)
        tell = lambda text, done, total: self.steps.append(f"{name}: {text}")  # noqa: E731
        moved = carrier.bring(self.agents[name], str(place), BLOBS, tell)
        assert missing_blobs(self.agents[name], str(place), BLOBS) == ()
        for blob, data in zip(BLOBS, CONTENTS, strict=True):
            there = place / "blobs" / "sha256" / blob.sha256[:2] / blob.sha256
            assert there.read_bytes() == data
        return moved


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(blob_relay, "LEAST", 1)
    found = Site(tmp_path)
    yield found
    for agent in found.agents.values():
        agent.close()


SENT, PASSED = Moved(sent=SIZE), Moved(passed=SIZE)
ELSEWHERE = "this machine sends them"


def total(moved: Mapping[Host, object]) -> Moved:
    found = [one for one in moved.values() if isinstance(one, Moved)]
    assert len(found) == len(moved)
    return sum(found, Moved())


def test_one_of_five_hosts_is_sent_the_files_and_the_others_get_them_from_each_other(
    site: Site,
) -> None:
    names = [Host(n) for n in "abcde"]
    carrier = site.relay(**{h.name: HERE for h in names})
    moved = fan_out(names, lambda h: site.bring(carrier, h.name))
    assert total(moved) == Moved(sent=SIZE, passed=4 * SIZE)
    assert site.said == []
    givers = {step.rpartition(" from ")[2] for step in site.steps if " from " in step}
    assert len(givers) > 1  # not all from the first one
    assert set("abcde") >= givers


def test_a_few_bytes_are_sent_to_every_host(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob_relay, "LEAST", SIZE + 1)
    carrier = site.relay(a=HERE, b=HERE)
    assert [site.bring(carrier, n) for n in "ab"] == [SENT, SENT]


def test_a_host_that_has_the_files_gets_nothing(site: Site) -> None:
    carrier = site.relay(a=HERE, b=HERE, c=HERE)
    assert [site.bring(carrier, n) for n in "aab"] == [SENT, Moved(), PASSED]


def test_one_home_of_two_hosts_is_filled_once(site: Site) -> None:
    hosts = [Host(n) for n in "abc"]
    carrier = site.relay(a=HERE, b=HERE, c=HERE)
    moved = fan_out(hosts, lambda h: site.bring(carrier, h.name, site.root("all")))
    assert total(moved) == SENT


# where others reach the hosts -> who is sent the files, what is said
UNREACHED = [
    ("", []),
    (
        NOWHERE,
        [f"b did not receive everything from a (Network is unreachable): {ELSEWHERE}"],
    ),
]


@pytest.mark.parametrize(("address", "said"), UNREACHED)
def test_where_hosts_do_not_reach_each_other_all_are_sent_the_files(
    site: Site, address: str, said: list[str]
) -> None:
    carrier = site.relay(a=address, b=address, c=address)
    assert [site.bring(carrier, n) for n in "abc"] == [SENT] * 3
    assert site.said == said


def test_a_giver_that_is_gone_costs_one_host_a_try_and_what_this_machine_sends_it(
    site: Site,
) -> None:
    carrier = site.relay(a=HERE, b=HERE, c=HERE, d=HERE, e=HERE, f=HERE)
    assert [site.bring(carrier, n) for n in "ab"] == [SENT, PASSED]
    site.agents["a"].close()
    site.agents["b"].close()
    assert [site.bring(carrier, n) for n in "cdef"] == [SENT, SENT, PASSED, PASSED]
    assert site.said == [f"c did not receive everything from a (Connection refused): {ELSEWHERE}"]


def test_a_first_giver_that_dies_costs_only_its_turn(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first host ends when the second one asks it: the others still get theirs from hosts."""
    fetch = blob_relay.fetch_there

    def dies(agent: Agent, *words: Any, **more: Any) -> int:
        if site.agents["a"] in asked:
            site.agents["a"].close()
            asked.remove(site.agents["a"])
        return fetch(agent, *words, **more)

    carrier = site.relay(a=HERE, b=HERE, c=HERE, d=HERE)
    assert site.bring(carrier, "a") == SENT
    asked = [site.agents["a"]]
    monkeypatch.setattr(blob_relay, "fetch_there", dies)
    names = [Host(n) for n in "bcd"]
    moved = fan_out(names, lambda h: site.bring(carrier, h.name))
    assert total(moved) == Moved(sent=SIZE, passed=2 * SIZE)


def test_a_host_that_is_lost_while_it_gets_the_files_does_not_cost_the_giver(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch = blob_relay.fetch_there

    def cut(agent: Agent, *words: Any, **more: Any) -> int:
        if agent is site.agents["b"]:
            agent.close()
        return fetch(agent, *words, **more)

    monkeypatch.setattr(blob_relay, "fetch_there", cut)
    carrier = site.relay(a=HERE, b=HERE, c=HERE)
    site.bring(carrier, "a")
    with pytest.raises(Unreachable):
        site.bring(carrier, "b")
    assert site.bring(carrier, "c") == PASSED


def test_a_host_is_sent_what_is_here_while_the_rest_is_fetched(site: Site) -> None:
    here = {BLOBS[1].sha256}
    site.add("a")
    push = Carrier(read, is_here=lambda blob: blob.sha256 in here)
    place = site.root("a")
    place.parent.mkdir(exist_ok=True)

    def tell(what: str, done: int, total: int) -> None:
        if done >= BLOBS[1].size:  # it has that one
            here.add(BLOBS[0].sha256)

    assert push.bring(site.agents["a"], str(place), BLOBS, tell) == SENT


def test_what_a_host_gives_is_not_trusted(site: Site) -> None:
    carrier = site.relay(a=HERE, b=HERE, c=HERE)
    assert site.bring(carrier, "a") == SENT
    damaged = site.root("a") / "blobs" / "sha256" / BLOBS[0].sha256[:2] / BLOBS[0].sha256
    damaged.write_bytes(CONTENTS[0][:-1] + b"?")
    moved = site.bring(carrier, "b")
    assert moved.sent >= BLOBS[0].size
    (note,) = site.said
    assert note.startswith("b ") and " a (" in note and note.endswith(ELSEWHERE)


def test_a_giver_that_hangs_up_is_asked_once_for_a_file(site: Site) -> None:
    asked: list[bytes] = []

    def hang_up() -> None:
        while True:
            guest, _ = server.accept()
            with suppress(OSError), context.wrap_socket(guest, server_side=True) as tls:
                asked.append(tls.recv(65536).partition(b"\r")[0])

    with socket.create_server((HERE, 0)) as server:
        carrier = site.relay(a=HERE, b=HERE)
        context = peer_tls.make_tls_context(carrier._make_keys(), True)
        threading.Thread(target=hang_up, daemon=True).start()
        carrier._givers["a"] = f"https://{HERE}:{server.getsockname()[1]}"
        carrier._turns.join("a", BLOBS, [])
        carrier._turns.gives("a")
        assert site.bring(carrier, "b") == SENT
    assert len(asked) == len(set(asked)) > 0
    assert site.said[0].startswith("b ") and " a (" in site.said[0]


def test_a_full_disk_is_told_as_such(site: Site, tmp_path: Path) -> None:
    site.add("b")
    site.root("b").parent.mkdir()
    with pytest.raises(HostFailed) as refused:
        need_room(site.agents["b"], str(site.root("b")), Room(1 << 60, 1))
    assert refused.value.slug == "no-space"


def test_the_proxy_of_a_host_is_not_asked_for_another_host(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    carrier = site.relay(a=HERE, b=HERE)
    assert [site.bring(carrier, n) for n in "ab"] == [SENT, PASSED]


def test_the_last_host_opens_no_port(site: Site) -> None:
    carrier = site.relay(a=HERE, b=HERE)
    for name in "ab":
        site.bring(carrier, name)
    assert [listening(site.agents[n]) for n in "ab"] == [1, 0]


def listening(agent: Agent) -> int:
    """How many sockets the agent's process listens on."""
    shell = agent.channel._process.pid  # type: ignore[attr-defined]
    children = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
    links = [link for pid in (shell, *children) for link in Path(f"/proc/{pid}/fd").iterdir()]
    targets = {os.readlink(link) for link in links}
    count = 0
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            count += words[3] == "0A" and f"socket:[{words[9]}]" in targets
    return count


# --- the port ------------------------------------------------------------------------------------


@pytest.fixture
def port(site: Site) -> int:
    """Of a host that has both blobs and gives the first one."""
    carrier = site.relay(a=HERE)
    site.bring(carrier, "a")
    asked = {"root": str(site.root("a")), "wanted": [BLOBS[0].sha256], "keys": KEYS}
    return site.agents["a"].call("blobs.blob_server.open", asked).done.read(PortOpened).port


def get(port: int, path: str, **headers: str) -> tuple[int, bytes]:
    asked = urllib.request.Request(f"https://{HERE}:{port}{path}", headers=headers)
    context = peer_tls.make_tls_context(KEYS, False)
    try:
        with urllib.request.urlopen(asked, timeout=10, context=context) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as e:
        with e:
            return e.code, b""


SHA, OTHER = BLOBS[0].sha256, BLOBS[1].sha256
ASKED: list[tuple[str, dict[str, str], int, Callable[[bytes], bytes]]] = [
    (f"/{SHA}", {}, 200, lambda data: data),
    (f"/{SHA}", {"Range": "bytes=1000-"}, 206, lambda data: data[1000:]),
    (f"/{SHA}", {"Range": f"bytes={len(CONTENTS[0])}-"}, 416, lambda data: b""),
    (f"/{SHA}", {"Range": "bytes=-5"}, 200, lambda data: data),
    (f"/{OTHER}", {}, 404, lambda data: b""),
    (f"/{'e' * 64}/{SHA}", {}, 404, lambda data: b""),
    (f"/../{SHA}", {}, 404, lambda data: b""),
    ("//etc/passwd", {}, 404, lambda data: b""),
    ("/é/".encode().decode("latin-1"), {}, 404, lambda data: b""),
    ("/", {}, 404, lambda data: b""),
]  # fmt: skip


@pytest.mark.parametrize(("path", "headers", "status", "content"), ASKED)
def test_a_host_gives_what_was_named(
    port: int, path: str, headers: dict[str, str], status: int,
    content: Callable[[bytes], bytes],
) -> None:  # fmt: skip
    asked = path.encode("latin-1").decode("ascii", "ignore")
    assert get(port, asked, **headers) == (status, content(CONTENTS[0]))


def wire_to(port: int) -> ssl.SSLSocket:
    context = peer_tls.make_tls_context(KEYS, False)
    return context.wrap_socket(socket.create_connection((HERE, port), 10))


def answer_to(wire: socket.socket, path: str) -> bytes:
    """All that comes, until the other end closes."""
    came = b""
    with suppress(OSError):
        wire.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        while data := wire.recv(65536):
            came += data
    return came


def without_certificate(wire: socket.socket) -> socket.socket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(wire)


def of_another_command(wire: socket.socket) -> socket.socket:
    context = peer_tls.make_tls_context(make_keys(), False)
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(wire)


@pytest.mark.parametrize("dressed", [lambda wire: wire, without_certificate, of_another_command])
def test_who_has_no_certificate_of_this_command_gets_nothing(
    port: int, dressed: Callable[[socket.socket], socket.socket]
) -> None:
    """It has seen on the network what others ask for."""
    with socket.create_connection((HERE, port), 10) as wire:
        try:
            came = answer_to(dressed(wire), f"/{SHA}")
        except ssl.SSLError:
            came = b""
    assert b" 200 " not in came.partition(b"\n")[0]
    assert CONTENTS[0][:64] not in came
    assert get(port, f"/{SHA}") == (200, CONTENTS[0])


def test_a_host_takes_nothing_from_who_lacks_the_key_of_the_command(port: int, site: Site) -> None:
    site.add("b")
    with pytest.raises(HostFailed) as told:
        fetch_there(
            site.agents["b"], str(site.root("b")), BLOBS[:1], f"https://{HERE}:{port}",
            lambda n: None, make_keys(),
        )  # fmt: skip
    assert told.value.why == "the other end's certificate is not from this command"


def test_a_file_of_another_size_than_was_said_is_not_kept(port: int, site: Site) -> None:
    site.add("b")
    blob = replace(BLOBS[0], size=BLOBS[0].size + 1)
    with pytest.raises(HostFailed) as told:
        fetch_there(
            site.agents["b"], str(site.root("b")), [blob], f"https://{HERE}:{port}",
            lambda n: None, KEYS,
        )  # fmt: skip
    assert told.value.slug == "damaged"
    assert list(site.root("b").glob("blobs/sha256/*/*")) == []


def test_other_words_than_get_and_nonsense_get_nothing(port: int) -> None:
    long = b"GET /" + b"a" * 70000
    for words in (b"POST /%s", b"DELETE /%s", b"\xff\x00 %s", long + b"%s"):
        with wire_to(port) as wire:
            wire.sendall(words % SHA.encode() + b" HTTP/1.0\r\n\r\n")
            answer = b""
            with suppress(OSError):
                answer = wire.recv(65536)
        assert b" 200 " not in answer.partition(b"\n")[0]
        assert CONTENTS[0][:64] not in answer
    assert get(port, f"/{SHA}")[0] == 200


def test_connections_that_ask_for_nothing_keep_nobody_from_a_file(port: int) -> None:
    """Only 32 at once: those that do not show a certificate are ended after 5 s."""
    wires = [socket.create_connection((HERE, port), 10) for _ in range(32)]
    wires[1].sendall(b"\x16\x03\x01\x02")  # drips
    try:
        assert get(port, f"/{SHA}") == (200, CONTENTS[0])
        assert wires[1].recv(1) == b""
    finally:
        for wire in wires:
            wire.close()


def test_who_gets_a_file_is_not_ended_for_others(port: int) -> None:
    """They take it slowly: its beginning fills what the kernel holds for them."""
    context = peer_tls.make_tls_context(KEYS, False)
    wires: list[ssl.SSLSocket] = []
    try:
        for _ in range(32):
            slow = socket.socket()
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.settimeout(20)
            slow.connect((HERE, port))
            wires.append(context.wrap_socket(slow))
            wires[-1].sendall(f"GET /{SHA} HTTP/1.0\r\n\r\n".encode())
            assert wires[-1].recv(12) == b"HTTP/1.1 200"
        with socket.create_connection((HERE, port), 10) as late:
            assert late.recv(1) == b""  # closed
        rest = b"".join(iter(lambda: wires[0].recv(1 << 20), b""))
        assert rest.partition(b"\r\n\r\n")[2] == CONTENTS[0]
    finally:
        for wire in wires:
            wire.close()


# --- over SSH ------------------------------------------------------------------------------------


@pytest.mark.lab
def test_hosts_over_ssh_give_each_other_the_files_and_are_sent_them_behind_a_firewall(
    shop: Shop, make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blob_relay, "LEAST", 1 << 20)
    stock(shop, copied=2 << 20)
    lab = make_lab(LabSpec.plain(3, name="relay"))

    def bytes_of(*words: str) -> tuple[int, int]:
        done = install(shop, lab, *words)
        assert (done.code, done.states) == (0, ["changed"] * 3), done.err
        return done.document["bytes_sent"], done.document["bytes_between_hosts"]

    sent, passed = bytes_of()
    assert sent > 2 << 20
    assert passed == 2 * sent
    assert bytes_of("--root", "~/b", "--no-relay") == (3 * sent, 0)
    for host in lab.hosts:
        ports = "echo 29501 29599 > /proc/sys/net/ipv4/ip_local_port_range"
        blocked = f"{ports} && ip rule add ipproto 6 dport 29501-29599 prohibit"
        assert lab.run_in(host, ["sh", "-c", blocked]).returncode == 0
    assert bytes_of("--root", "~/c") == (3 * sent, 0)
