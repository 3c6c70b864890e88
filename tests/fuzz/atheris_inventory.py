"""Hostfiles under a coverage-guided fuzzer, by hand: it is no part of `make test`.

    pip install atheris
    python tests/fuzz/atheris_inventory.py -max_total_time=600 -max_len=400 [CORPUS_FOLDER]

A text gives an inventory or an InputError. Everything else, and every second too much, is a bug.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[2]))

with atheris.instrument_imports():
    from ipexctl.core.inventory import parse_hostfile, parse_hosts
    from ipexctl.core.inventory.render import plain, render
    from ipexctl.core.select import select
    from ipexctl.core.settings import parse_settings
    from ipexctl.errors import InputError

SOURCES = ("hosts", "hosts.yaml")


def one(data: bytes) -> None:
    source, text = data[:1], data[1:].decode("utf-8", "surrogateescape")
    kind = source[0] % 5 if source else 0
    try:
        if kind == 2:
            found = parse_hosts((text,))
        elif kind == 3:
            parse_settings(text, "ipexctl.toml")
            return
        elif kind == 4:
            select(parse_hosts(("node[1-4]", "fe80::1")), (text,))
            return
        else:
            found = parse_hostfile(text, SOURCES[kind])
    except InputError:
        return
    for host in found.hosts:
        assert host.name.isprintable() and not host.name.startswith("-") and " " not in host.name
    again = parse_hostfile(render(found, "yaml").text, "again.yaml")
    assert [h.name for h in plain(again)] == [h.name for h in plain(found)]


if __name__ == "__main__":
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
