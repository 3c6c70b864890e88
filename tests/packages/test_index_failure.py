"""What an index's failure is told as: its own words, its name, and a next step that can help."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ipexctl.errors import InputError
from ipexctl.packages.indexes import Indexes
from ipexctl.packages.resolver import resolve_stack
from tests.packages.served import Fault, Served, served
from tests.packages.test_logins import STACK, for_uv
from tests.packages.test_resolve_ipex import World
from tests.packages.test_resolve_needs import asked


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "served").mkdir()
    with served(tmp_path / "served") as told:
        yield told


AGAIN = "run the same command again"
ANSWERS = [
    ("403", Fault("status", 403, 99), "403 Forbidden", AGAIN),
    ("404", Fault(""), "was not found", "--extra-index-url URL or --find-links"),
    ("503", Fault("status", 503, 99), "503 Service Unavailable", AGAIN),
    ("stall", Fault("silent", 0, 99), "timed out", AGAIN),
]


@pytest.mark.parametrize(("_title", "fault", "why", "hint"), ANSWERS)
def test_each_answer_is_told_apart(
    server: Served, tmp_path: Path, _title: str, fault: Fault, why: str, hint: str
) -> None:
    if fault.kind:
        server.faults["/simple/torch/"] = fault
    row = replace(STACK.row, torch_index=server.index, links="", ipex="", flat=())
    environ = {**for_uv(tmp_path), "UV_HTTP_TIMEOUT": "1", "UV_HTTP_RETRIES": "0"}
    secret = server.index.replace("://", "://me:hidden@")
    with pytest.raises(InputError) as refused:
        resolve_stack([replace(STACK, row=row)], Indexes(secret), environ)
    told = refused.value
    assert why in told.why and hint in told.hint
    assert "hidden" not in told.why + told.hint
    assert "127.0.0.1" in told.why


def test_uvs_own_hint_is_kept(world: World) -> None:
    stacks = world.stacks("ipex-2.7.0-gloo", "3.12", backend="gloo")
    with pytest.raises(InputError) as refused:
        resolve_stack(stacks, world.indexes(), world.environ(), asked(world, "sdist"))
    assert "Wheels are required for `sdist`" in refused.value.why


def test_a_new_lock_keeps_the_old_ones_versions_while_they_fit(world: World) -> None:
    stacks = world.stacks("ipex-2.7.0-gloo", "3.12", backend="gloo")
    extra = asked(world, "accelerate")
    before = {"accelerate": "1.1", "torch": "2.7.0+cpu", "helper": "9"}
    kept = resolve_stack(stacks, world.indexes(), world.environ(), extra, before)
    assert kept.lock.version("accelerate") == "1.1"
    newest = resolve_stack(stacks, world.indexes(), world.environ(), extra)
    assert newest.lock.version("accelerate") == "1.2"
    narrow = replace(extra, requirements=("accelerate>=1.2",))
    found = resolve_stack(stacks, world.indexes(), world.environ(), narrow, before)
    assert found.lock.version("accelerate") == "1.2"
