"""The host's side of a measurement: a port for a moment, streams with the token alone."""

from __future__ import annotations

import socket
import time

import pytest

from ipexctl.machines.agent import Agent
from ipexctl.remote.facts import network_rates

TOKEN = "0123456789abcdef"
ABOUT = {"token": TOKEN, "seconds": 0.1}
PORTS = [42000, 42015]


def _ask(agent: Agent, op: str, **asked: object) -> dict:
    return dict(agent.call(f"facts.network_rates.{op}", {**ABOUT, **asked}).done)


def _listen(agent: Agent, **asked: object) -> int:
    return int(_ask(agent, "listen", streams=2, **asked)["port"])


def test_each_network_has_its_turn_and_a_rate_and_the_port_is_closed_then(agent):
    port = _listen(agent)
    targets = [[1, 1, "127.0.0.1", port], [0, 0, "127.0.0.2", port]]
    assert _ask(agent, "send", targets=targets) == {"errors": []}
    rates = _ask(agent, "rates", port=port)["rates"]
    assert [number for number, _ in rates] == [0, 1]
    assert all(rate > 1e6 for _, rate in rates)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 5)
    assert _ask(agent, "rates", port=port) == {"rates": []}


def test_only_what_comes_with_the_token_counts(agent):
    port = _listen(agent)
    with socket.create_connection(("127.0.0.1", port), 5) as guest:
        guest.sendall(b"x" * 10_000)
        assert _closes(guest)
    _ask(agent, "send", token="f" * len(TOKEN), targets=[[0, 0, "127.0.0.1", port]])
    assert _ask(agent, "rates", port=port) == {"rates": []}


def _closes(guest: socket.socket) -> bool:
    try:
        return guest.recv(1) == b""
    except ConnectionResetError:  # with data that was not read
        return True


def test_a_port_of_the_range_is_taken(agent):
    taken = [_listen(agent, ports=PORTS) for _ in range(3)]
    assert len({*taken}) == 3 and all(PORTS[0] <= port <= PORTS[1] for port in taken)
    for port in taken:
        _ask(agent, "rates", port=port)


def test_a_closed_port_is_an_error_of_that_network(agent):
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = server.getsockname()[1]
    port = _listen(agent)
    targets = [[0, 0, "127.0.0.1", closed], [1, 1, "127.0.0.1", port]]
    (error,) = _ask(agent, "send", targets=targets)["errors"]
    assert error[0] == 0 and error[1]
    assert [number for number, _ in _ask(agent, "rates", port=port)["rates"]] == [1]


def test_a_port_that_nobody_closes_is_closed_in_time(monkeypatch):
    monkeypatch.setattr(network_rates, "OPEN", 0.1)
    port = network_rates.op_listen(None, {**ABOUT, "streams": 1})["port"]
    time.sleep(0.4)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 5)


def test_strangers_do_not_pile_up(agent):
    port = _listen(agent)
    guests = [socket.create_connection(("127.0.0.1", port), 5) for _ in range(20)]
    guests[-1].settimeout(5)
    assert _closes(guests[-1])
    for guest in guests:
        guest.close()
    assert _ask(agent, "rates", port=port) == {"rates": []}


@pytest.mark.parametrize(
    ("marks", "rate"),
    [
        ([], 0),
        ([(0.0, 0)], 0),
        ([(i / 100, i * 1000) for i in range(21)], 800_000),
        ([(0.0, 0), (0.1, 1000), (0.2, 1000), (0.3, 1000)], 80_000),  # then it stalls
    ],
)
def test_the_best_stretch_counts(marks, rate):
    assert network_rates._best(marks, 0.1) == pytest.approx(rate)
