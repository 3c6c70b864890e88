"""Both sides have every field of a message: it is made by one, and the other reads it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from ipexctl.common import (
    attempt_record,
    checkpoint_reports,
    copy_messages,
    hub_orders,
    keeper_messages,
    restart_plan,
    run_events,
    run_orders,
    watch_orders,
)
from ipexctl.common.message import Marked, Message, has_type
from tests.speed.test_compress import orders
from tools.message_page import kinds_in

ROOT = Path(__file__).parents[2]
MODULES = (
    run_orders, watch_orders, run_events, hub_orders, checkpoint_reports, restart_plan,
    keeper_messages, attempt_record, copy_messages,
)  # fmt: skip
FAMILIES = [kind for module in MODULES for kind in kinds_in(module) if Marked in kind.__bases__]
MARKED = [kind for family in FAMILIES for kind in family.__subclasses__()]
KINDS = [kind for module in MODULES for kind in kinds_in(module) if kind.__match_args__]


def names_read() -> set[str]:
    """What some module of the product reads, as an attribute, an item or by its position."""
    found = {kind.__match_args__[0] for kind in MARKED}  # by which a message is known
    for path in (ROOT / "ipexctl").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found.add(node.attr)
            elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
                found.add(str(node.slice.value))
            elif isinstance(node, ast.MatchClass):
                kind = getattr(node.cls, "attr", getattr(node.cls, "id", ""))
                names = next((k.__match_args__ for k in KINDS if k.__name__ == kind), ())
                found |= {*names[: len(node.patterns)], *node.kwd_attrs}
    return found


READ = names_read()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_field_of_a_message_is_read(kind: type[Message]) -> None:
    assert [name for name in kind.__match_args__ if name not in READ] == []


def test_each_field_of_an_order_is_an_option_or_given() -> None:
    order = orders(timeout=9.0, stall_action="stop", ports=(4000, 4100), lives_on=True)
    assert order.run is not None
    later = {"host", "root", "spare", "returned", "woken"}  # for one host, or for a keeper
    later |= {"checkpoint_gap"}  # keepers know it from earlier attempts
    assert set(order.__match_args__) - vars(order).keys() == later
    assert set(order.run.__match_args__) == vars(order.run).keys()
    assert (order.run.timeout, order.run.stall_action, order.run.lives_on) == (9.0, "stop", True)
    assert order.check() is order, "an option and its field have one type"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("hub_orders.Look()", 'Missing positional argument "number"'),
        ("hub_orders.Look(1, why='x')", 'Unexpected keyword argument "why"'),
        ("hub_orders.Look('1')", 'incompatible type "str"; expected "int"'),
        ("hub_orders.Look(1).why", '"Look" has no attribute "why"'),
    ],
)
def test_a_field_that_one_side_lacks_is_an_error_of_mypy(tmp_path: Path, code, said) -> None:
    script = tmp_path / "one_side.py"
    script.write_text(f"from ipexctl.common import hub_orders\n\n{code}\n")
    words = ("-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"))
    cache = ("--cache-dir", str(tmp_path / "cache"))
    done = subprocess.run(
        [sys.executable, *words, *cache, str(script)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 1 and said in done.stdout, done.stdout + done.stderr


def test_a_message_without_a_field_is_not_made_and_not_read() -> None:
    with pytest.raises(TypeError, match="Look: number"):
        hub_orders.read_hub_order({"order": "look"})
    with pytest.raises(TypeError, match="Look: why"):
        hub_orders.Look(1, why="x")  # type: ignore[call-arg]


def test_messages_in_messages_are_read_and_written() -> None:
    end = run_events.RankExited(2, run_events.Exit(1, hints=("oom",)), "text")
    document = end.document()
    assert document["ended"] == {"code": 1, "hints": ["oom"]}
    read = run_events.read_run_event(document)
    assert isinstance(read, run_events.RankExited) and read.ended.code == 1
    host = run_orders.HostOfRun("a", "a", "/p", "e", "/p/bin", [0, 1], [], "a")
    order = run_orders.HubOrder([host], [], None, None, 45.0, "note", 10.0, False, "a")
    assert run_orders.HubOrder.read(order.document()) == order


@pytest.mark.parametrize("kind", MARKED, ids=lambda kind: kind.__name__)
def test_a_message_is_known_by_its_mark(kind: type[Marked]) -> None:
    (family,) = kind.__bases__
    said = kind(*("x" for name in kind.__match_args__ if not hasattr(kind, name))).document()
    assert family.kind_of(said) is kind
    assert family.any_of({"later": 1}) is None


def test_a_message_in_a_message_is_there_unless_it_may_be_none() -> None:
    for odd in (None, 7):
        with pytest.raises(TypeError):
            keeper_messages.Mine.read({"mine": odd})
    assert keeper_messages.Mine.read({"mine": {"over": None}}).mine.over is None
    assert watch_orders.Said.any_of({"ping": True}) == watch_orders.Ping()


@pytest.mark.parametrize(
    ("type_", "good", "bad"),
    [
        ("int", 3, True),
        ("bool", True, 1),
        ("float", 1, "1"),
        ("Line", "x", None),
        ("float | None", None, []),
        ("list[tuple[int | str, int]]", [[1, 2], ["a", 2]], [[1]]),
        ("tuple[str, ...]", ["a", "b"], ["a", 7]),
        ("dict[str, list[int]]", {"a": [1]}, {"a": 1}),
        ("Look", hub_orders.Look(1), {"number": 1}),
        ("Look", hub_orders.Look(1), hub_orders.Look("1")),  # type: ignore[arg-type]
    ],
)
def test_a_value_is_compared_with_an_annotation(type_: str, good: object, bad: object) -> None:
    assert has_type(good, type_)
    try:
        assert not has_type(bad, type_)
    except TypeError as e:
        assert "Look.number" in str(e)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_annotation_can_be_checked(kind: type[Message]) -> None:
    for type_ in kind._types.values():
        assert not has_type(NotImplemented, type_) or "Any" in type_
