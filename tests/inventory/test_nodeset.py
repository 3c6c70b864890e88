"""Ranges of names, written out and folded."""

from __future__ import annotations

import pytest

from ipexctl.inventory.nodeset import expand_names, fold, split_outside_brackets


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "a"], "a"),
        (["head", "login"], "head,login"),
        (["node01", "node02", "node03", "head"], "node[01-03],head"),
        (["head", "node3", "node1", "node2"], "head,node[1-3]"),
        (["node1", "node2", "node5"], "node[1-2,5]"),
        (["n9", "n10", "n11"], "n[9-11]"),
        (["n09", "n10", "n8"], "n[09-10],n8"),
        (["x0", "x1"], "x[0-1]"),
        (["x1", "x01", "x2"], "x[1-2],x01"),
        (["10.0.0.1", "10.0.0.2", "10.0.1.1"], "10.0.0.[1-2],10.0.1.1"),
        (["node01.dc2.x", "node02.dc2.x"], "node[01-02].dc2.x"),
        (["r1n1", "r1n2", "r2n1", "r2n2"], "r1n[1-2],r2n[1-2]"),
        (["a1b", "a2c"], "a1b,a2c"),
        (["n" + "1" * 30, "n" + "1" * 29 + "2"], "n" + "1" * 27 + "[111-112]"),
    ],
)
def test_names_are_folded_for_display(names, folded):
    assert fold(names) == folded


@pytest.mark.parametrize(
    "names",
    [
        [f"node{i:02}" for i in range(1, 17)],
        ["n8", "n9", "n10", "n11", "n010"],
        ["r1n1", "r1n2", "r2n1", "r2n3"],
        ["fe80::1", "fe80::2", "fe80::12"],
        ["a", "b", "n" + "9" * 12, "n" + "9" * 11 + "8"],
    ],
)
def test_what_was_folded_is_the_same_written_out(names):
    folded = [piece for piece, _ in split_outside_brackets(fold(names), ",")]
    assert sorted(name for piece in folded for name in expand_names(piece)) == sorted(names)
