"""Fetched, sent and unpacked at the same time: nothing waits for what is still to come."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ipexctl.errors import HostFailed
from ipexctl.machines.agent import Agent
from tests.install.conftest import Builder, Shop, make_wheel, until
from tests.install.test_relay import BLOBS, HERE, Site, site
from tests.packages.served import Fault, Served, served

__all__ = ["site"]

KEY = "a" * 16


@pytest.fixture
def index(shop: Shop) -> Iterator[Served]:
    with served(shop.wheels) as found:
        yield found


def numpy_of(shop: Shop) -> str:
    return next(shop.wheels.glob("numpy-*")).name


def from_index(index: Served) -> tuple[str, ...]:
    return ("--index-url", index.index)


NO_FOLDERS = {"PIP_FIND_LINKS": "", "PIP_NO_INDEX": ""}


def test_a_host_unpacks_the_first_wheel_while_another_is_still_fetched(
    shop: Shop, index: Served
) -> None:
    assert shop.install(*from_index(index), **NO_FOLDERS).code == 0  # now the sizes are locked
    for folder in (shop.root, shop.folder / "cache"):
        shutil.rmtree(folder)
    index.faults[numpy_of(shop)] = Fault("silent", times=9)
    process = shop.start(*from_index(index), environ=NO_FOLDERS)
    try:
        until(
            lambda: list(shop.root.glob("envs/.work-*/env/lib/python3*/site-packages/torch.py")), 30
        )
        assert not list(shop.root.glob("envs/.work-*/env/lib/python3*/site-packages/numpy.py"))
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


# --- the host's side -----------------------------------------------------------------------------


@pytest.fixture
def wheels(shop: Shop) -> tuple[Path, Path]:
    made = [
        make_wheel(shop.folder, name, "1.0", {f"{name}.py": b"x = 1\n"}) for name in ("one", "two")
    ]
    return made[0], made[1]


def begin(builder: Builder, wheels: tuple[Path, Path]) -> int:
    """A build; of its wheels only the first one is here."""
    header = builder.header(KEY, *wheels)
    builder.blob_of(wheels[1]).unlink()
    number = builder.agent.start_beside("install.environments.build", header)
    until(lambda: builder.building("lib/python3*/site-packages/one.py"))
    return number


def ended(agent: Agent, number: int) -> bool:
    return agent.wait(number).done.flag("changed")


def test_a_build_goes_on_when_the_wheel_comes(builder: Builder, wheels: tuple[Path, Path]) -> None:
    number = begin(builder, wheels)
    assert not builder.building("lib/python3*/site-packages/two.py")
    builder.blob(wheels[1])
    assert ended(builder.agent, number)
    assert builder.says(KEY, "import one, two; print(one.x + two.x)") == "2"


STOPS = [
    ({"abort": True}, "the controller stopped sending"),
    ({"all": True}, "two-1.0-py3-none-any.whl was received, but has disappeared"),
]


@pytest.mark.parametrize(("said", "why"), STOPS)
def test_a_build_whose_wheel_does_not_come_leaves_nothing(
    builder: Builder, wheels: tuple[Path, Path], said: dict[str, bool], why: str
) -> None:
    number = begin(builder, wheels)
    builder.agent.feed(number, said)
    with pytest.raises(HostFailed, match=why):
        ended(builder.agent, number)
    assert not builder.env(KEY).exists() and not builder.building()


def test_what_runs_beside_other_calls_is_heard_when_it_has_ended_before(
    builder: Builder, wheels: tuple[Path, Path]
) -> None:
    number = begin(builder, wheels)
    builder.agent.feed(number, {"abort": True})
    until(lambda: not builder.building())
    assert builder.agent.call("blobs.blobs.have", {"root": str(builder.shop.root), "blobs": []})
    with pytest.raises(HostFailed, match="stopped sending"):
        ended(builder.agent, number)


def test_a_host_that_wants_nothing_gives_to_one_that_does(site: Site) -> None:
    assert site.bring(site.relay(a=HERE), "a").sent
    carrier = site.relay(a=HERE, b=HERE)
    carrier.offer(site.agents["a"], str(site.root("a")), BLOBS)
    moved = site.bring(carrier, "b")
    assert (bool(moved.passed), moved.sent) == (True, 0)
