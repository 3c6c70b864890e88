"""Inventories and texts that hypothesis makes up."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from ipexctl.inventory.inventory import Host, Inventory

NAMES = st.one_of(
    st.from_regex(r"[a-z][a-z0-9_-]{0,6}[0-9]{0,3}(\.[a-z]{1,3})?", fullmatch=True),
    st.sampled_from(["yes", "null", "n", "1e3x", "0x1g", "10.0.0.1", "10.0.0.2", "a-b.c_d"]),
)
V6 = st.sampled_from(["::1", "fe80::1", "fe80::2%eth0", "2001:db8::a:1"])
VARS = st.sampled_from(
    [(), (), (("site", "east"),), (("rack", "07"), ("note", "it's a b"), ("q", 'say "x" # no'))]
)
GROUPS = st.sets(st.sampled_from(["web", "db", "g1", "no", "a-b"]), max_size=3)


def _host(name: str, groups: bool) -> st.SearchStrategy[Host]:
    return st.builds(
        Host,
        st.just(name),
        user=st.sampled_from(["", "", "ann", "ann@corp.example", "0"]),
        port=st.sampled_from([0, 0, 22, 2222, 65535]),
        slots=st.sampled_from([0, 0, 1, 4, 999, 5000]),
        address=st.sampled_from(["", "", "10.1.0.1", "fe80::9%ib0", "other"]),
        python=st.sampled_from(["", "", "/usr/bin/python3", "python3.11"]),
        nic=st.sampled_from(["", "", "ib0", "eth0.100"]),
        root=st.sampled_from(["", "", "~/x", "/scratch/a,b=c:d"]),
        groups=GROUPS.map(sorted).map(tuple) if groups else st.just(()),
        vars=VARS if groups else st.just(()),
    )


@st.composite
def inventories(draw: st.DrawFn, *, groups: bool = True) -> Inventory:
    names = draw(st.lists(st.one_of(NAMES, V6), min_size=1, max_size=5, unique_by=str.lower))
    return Inventory(tuple(draw(_host(name, groups)) for name in names), "made")


_PIECES = (
    *("node", "node[1-3]", "n[01-02,7]", "a", "b", "10.0.0.1", "::1", "[::1]"),
    *("fe80::1%eth0", "[", "]", ":4", ":22", ":2222", " slots=2", " slots="),
    *(" max_slots=9", " port=22", " user=x", "@", "ann@", "ssh://", "/", "#c", " # c"),
    *("\n", "\n", "\n", "\r\n", " ", "\t", ",", "-", "!", "&", "*", "?", "[web]\n"),
    *("[web:vars]\n", "[web:children]\n", "[all:vars]\n", "ansible_host=a", "x=1", "'"),
    *('"', "hosts:\n", "  ", "groups:\n", "all:\n", "children:\n", "vars:\n", "- ", "{"),
    *("}", "&a ", "*a", "!vault ", "!!int ", "<<: ", "|\n", ">", "? ", "---\n", "\x00"),
    *("\x1b[31m", "\ud800", "\ufeff", "é", "\u2028", "0x7f", "9" * 400, "[1-99999999]"),
    *("[1-50][1-50][1-50]", "@healthy", "all", "~"),
)
TEXTS = st.one_of(
    st.lists(st.sampled_from(_PIECES), max_size=14).map("".join),
    st.text(max_size=60),
)


def plain(inventory: Inventory) -> tuple[Host, ...]:
    """The hosts without their places, to compare what two texts say."""
    return tuple(replace(host, place=None) for host in inventory.hosts)
