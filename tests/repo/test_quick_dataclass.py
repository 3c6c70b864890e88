"""The dataclass of ipexctl does what the one of the standard library does."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import threading
from collections.abc import Callable
from dataclasses import field
from typing import Any

import pytest

from ipexctl.quick_dataclass import dataclass


def classes(make: Any) -> list[type]:
    @make(frozen=True)
    class Point:
        x: int
        y: int = 2
        tags: list[str] = field(default_factory=list, compare=False)
        secret: str = field(default="", repr=False)
        table: dict[str, int] = field(default_factory=dict, hash=False, repr=False)

    @make(frozen=True)
    class Named(Point):
        """With a docstring."""

        name: str = "n"

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError(self.x)

    @make
    class Counter:
        count: int = 0
        log: list[int] = field(default_factory=list, init=False)
        fixed: str = field(default="f", init=False)

    @make(eq=False)
    class Own:
        a: Any

        def __repr__(self) -> str:
            return "own"

    @make(frozen=True)
    class Hashed:
        a: int

        def __hash__(self) -> int:
            return 7

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Hashed)

    @make(frozen=True)
    class Empty:
        pass

    class Below(Point):
        """No dataclass itself."""

    return [Point, Named, Counter, Own, Hashed, Empty, Below]


DEEDS: list[Callable[..., Any]] = [
    lambda p, n, c, *_: [repr(p(1)), repr(n(1, 3, name="z")), repr(c(4)), p(1, 2, ["a"], "s").tags],
    lambda p, n, *_: (p(1) == p(1, 2, ["other"]), p(1) == p(2), p(1) == n(1)),
    lambda p, n, *_: (hash(p(1)) == hash(p(1, 2, ["z"])), len({p(1), p(1), p(2), n(1)})),
    lambda p, *_: setattr(p(1), "x", 3),
    lambda p, *_: setattr(p(1), "other", 3),
    lambda p, *_: delattr(p(1), "x"),
    lambda *all_: setattr(all_[-1](1), "x", 3),
    lambda *all_: [setattr(all_[-1](1), "other", 3), repr(all_[-1](1))],
    lambda p, n, *_: n(-1),
    lambda p, *_: p(),
    lambda p, *_: p(1, z=3),
    lambda p, *_: p(1, 2, [], "", 5),
    lambda p, n, c, *_: [c(1).log is not c(1).log, c(3).fixed, c(count=2) == c(2), hash(c(1))],
    lambda p, n, c, *_: c(1, 2),
    lambda p, n, c, o, *_: [repr(o(1)), o(1) == o(1), isinstance(hash(o(1)), int)],
    lambda p, n, c, o, h, *_: [hash(h(1)), h(1) == h(2), repr(h(1))],
    lambda p, n, c, o, h, e, *_: [e() == e(), hash(e()) == hash(e()), repr(e())],
    lambda p, n, *_: [f.name for f in dataclasses.fields(n)] + [dataclasses.is_dataclass(n)],
    lambda p, n, *_: [dataclasses.asdict(dataclasses.replace(n(1, 5), name="q")), n.__match_args__],
    lambda p, *_: [copy.deepcopy(p(1, 2, ["a"])).tags, copy.copy(p(1)) == p(1)],
]  # fmt: skip


@pytest.mark.parametrize("deed", DEEDS)
def test_it_does_what_the_original_does(deed: Callable[..., Any]) -> None:
    results = []
    for make in (dataclasses.dataclass, dataclass):
        try:
            results.append(repr(deed(*classes(make))))
        except Exception as e:
            results.append((type(e), str(e).replace("Counter.__init__", "__init__")))
    first, ours = results
    if isinstance(first, tuple) and isinstance(ours, tuple):
        assert first[0] is ours[0]  # words differ between versions of Python
    else:
        assert first == ours


@dataclass
class Owner:
    own: bool
    name: str = ""
    key: int = 0


def test_a_field_may_have_any_name() -> None:
    made = Owner(False, "n", 3)
    assert (made.own, made.name, made.key) == (False, "n", 3)


@dataclass(frozen=True)
class Kept:
    a: int
    b: tuple[int, ...] = ()


def test_a_value_survives_a_pickle_before_any_other_was_made() -> None:
    assert pickle.loads(pickle.dumps(Kept(1, (2,)))) == Kept(1, (2,))


def test_threads_may_make_the_first_ones() -> None:
    for _ in range(50):
        point = classes(dataclass)[0]
        start, made = threading.Barrier(8), []

        def make(point: type = point, start: Any = start, made: Any = made) -> None:
            start.wait()
            made.append(point(1, 2))

        threads = [threading.Thread(target=make) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made) == 8 and len(set(made)) == 1
