"""How long the hub of a run that is over waits for the other hosts."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ipexctl.remote.hub.hub import STOP_WAIT, Hub


@pytest.mark.parametrize(
    ("begun", "connected", "waits"),
    [
        (False, set(), []),  # stopped before any host knew where the hub is
        (False, {"b"}, [STOP_WAIT]),
        (True, set(), [STOP_WAIT]),  # a connection that was dropped may come back
    ],
)
def test_the_hub_waits_for_hosts_that_may_have_something_to_report(
    begun: bool, connected: set[str], waits: list[float]
) -> None:
    waited, closed = list[float](), list[bool]()
    hub = SimpleNamespace(
        name="a", swept={"b": 1}, judge=SimpleNamespace(begun=begun),
        all_swept=SimpleNamespace(wait=waited.append),
        link=SimpleNamespace(connected=lambda: connected, close=lambda: closed.append(True)),
    )  # fmt: skip
    assert Hub.finish(hub, 2) == {"a": 2, "b": 1}
    assert (waited, closed) == (waits, [True])
