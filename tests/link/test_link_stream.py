"""Messages over connections that are cut anywhere: each arrives once and in order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipexctl.remote.connection.link_stream import (
    BEAT,
    HEAD,
    HELLO,
    LIMIT,
    MESSAGE,
    MESSAGES,
    BadRecord,
    RecordDecoder,
    Stream,
    decode_message,
    encode_message,
    pack_frame,
)


class Side:
    """One end: what the link's thread does with a stream, without sockets."""

    def __init__(self, token: bytes) -> None:
        self.stream = Stream(token)
        self.sent: list[int] = []
        self.taken: list[int] = []

    def send(self) -> None:
        self.sent.append(len(self.sent))
        assert self.stream.put(encode_message(self.sent[-1]))

    def connect(self) -> None:
        self.decoder = RecordDecoder()
        self.resumed = False
        self.out = bytearray(self.stream.hello(""))

    def write(self, limit: int) -> None:
        if self.resumed:
            self.out += self.stream.next_bytes(limit)

    def receive(self, data: bytes) -> None:
        for kind, number, body in self.decoder.feed(data):
            if kind == HELLO:
                self.stream.resume(number, body)
                self.resumed = True
            elif kind == BEAT:
                self.stream.take_acknowledgement(number)
            elif self.stream.is_new(number):
                self.taken.append(decode_message(body))
        self.out += self.stream.beat()


def move(a: Side, b: Side, count: int) -> None:
    data = bytes(a.out[:count])
    del a.out[:count]
    if data:
        b.receive(data)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 1), st.just(0)),
        st.tuples(st.just("write"), st.integers(0, 1), st.integers(1, 200)),
        st.tuples(st.just("move"), st.integers(0, 1), st.integers(1, 120)),
        st.tuples(st.just("cut"), st.just(0), st.just(0)),
    ),
    max_size=120,
)


@given(STEPS)
def test_every_message_arrives_once_and_in_order(steps: list[tuple[str, int, int]]) -> None:
    sides = Side(b"a"), Side(b"b")

    def connect() -> None:
        for side in sides:
            side.connect()

    connect()
    for what, which, count in steps:
        one, other = sides[which], sides[1 - which]
        if what == "send":
            one.send()
        elif what == "write":
            one.write(count)
        elif what == "move":
            move(one, other, count)
        else:
            connect()  # whatever was on its way is lost
    for _ in range(4):
        for one, other in (sides, sides[::-1]):
            one.write(1 << 20)
            move(one, other, len(one.out))
    assert sides[0].taken == sides[1].sent
    assert sides[1].taken == sides[0].sent
    assert not sides[0].stream.pending() and not sides[1].stream.pending()
    assert (sides[0].stream.size, sides[1].stream.size) == (0, 0)


@given(st.binary(max_size=200))
def test_bytes_of_another_protocol_are_bad_or_incomplete(data: bytes) -> None:
    decoder = RecordDecoder()
    try:
        found = list(decoder.feed(data))
    except BadRecord:
        return
    assert b"".join(pack_frame(*f) for f in found) + decoder.rest == data


@pytest.mark.parametrize(
    "data",
    [HEAD.pack(MESSAGE, 1, LIMIT + 1), HEAD.pack(0, 1, 0), HEAD.pack(9, 1, 0), b"GET / HTTP/1"],
)
def test_a_frame_that_is_too_large_or_of_no_kind_is_bad_before_it_is_read(data: bytes) -> None:
    with pytest.raises(BadRecord):
        list(RecordDecoder().feed(data + bytes(HEAD.size)))


def connected(count: int) -> Stream:
    """With so many messages written to the first connection."""
    stream = Stream(b"a")
    for number in range(count):
        stream.put(encode_message(number))
    stream.resume(0, b"b")
    stream.next_bytes(1 << 20)
    return stream


def test_what_was_not_sent_cannot_be_acknowledged() -> None:
    stream = connected(2)
    stream.take_acknowledgement(1)
    stream.put(encode_message("not written yet"))
    with pytest.raises(BadRecord):
        stream.take_acknowledgement(3)
    stream.take_acknowledgement(2)
    with pytest.raises(BadRecord):
        stream.take_acknowledgement(3)


@pytest.mark.parametrize(("number", "token"), [(3, b"b"), (0, b"b"), (2, b"c"), (2, b"")])
def test_a_process_that_started_again_cannot_go_on_in_its_place(number: int, token: bytes) -> None:
    """It would have another token, and not know what was acknowledged."""
    stream = connected(2)
    stream.take_acknowledgement(1)
    with pytest.raises(BadRecord):
        stream.resume(number, token)
    stream.resume(2, b"b")
    assert not stream.pending()


def test_a_gap_is_bad_and_a_repetition_is_dropped() -> None:
    stream = Stream(b"a")
    assert [stream.is_new(n) for n in (1, 2, 2, 1, 3)] == [True, True, False, False, True]
    with pytest.raises(BadRecord):
        stream.is_new(5)


def test_what_waits_is_limited() -> None:
    many = Stream(b"a")
    assert all(many.put(b"1") for _ in range(MESSAGES))
    assert not many.put(b"1")
    large = Stream(b"a")
    assert [large.put(bytes(LIMIT)) for _ in range(16)] == [True] * 15 + [False]
    large.resume(3, b"b")
    assert large.put(bytes(LIMIT))
