"""Pages of a package index that would take hours to search."""

from __future__ import annotations

import time

import pytest

from ipexctl.packages import step_backs

LARGE = 1 << 20


@pytest.mark.timeout(30)
@pytest.mark.parametrize("piece", ["<a ", "<a a", "<a href", "<a href='", "<a a> ", "<a a>a ", " "])
def test_a_page_is_searched_in_linear_time(piece: str) -> None:
    page = (piece * LARGE)[:LARGE]
    began = time.monotonic()
    list(step_backs.offers(page))
    list(step_backs.offers("<a a>" + " " * LARGE))
    assert time.monotonic() - began < 5.0


def test_links_are_found_as_before() -> None:
    page = (
        '<a href="x/t-2.0-py3-none-any.whl#sha256=1" data-requires-python="&gt;=3.9">\n'
        " t-2.0-py3-none-any.whl </a><a href='t-1.0.tar.gz'>t-1.0.tar.gz</a>"
        '<a data-yanked="" href="t-3.0.tar.gz">t-3.0.tar.gz</a>'
    )
    assert [(str(o.version), o.wheel, o.python) for o in step_backs.offers(page)] == [
        ("2.0", True, ">=3.9"),
        ("1.0", False, ""),
    ]
