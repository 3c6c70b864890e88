"""Hosts without a route to any index: each file leaves the index once, for all of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ipexctl.lab import Lab, LabSpec
from tests.conftest import MakeLab
from tests.install.conftest import Outcome, Shop, finish
from tests.install.over_ssh import start, stock
from tests.packages.served import Served, served

pytestmark = pytest.mark.lab

HOSTS = 4
REACH = """
import errno, socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
except OSError as e:
    print(errno.errorcode.get(e.errno, e))
"""


def reach(lab: Lab, host: str, address: str, port: int) -> str:
    done = lab.run_in(host, ["python3", "-c", REACH, address, str(port)])
    return str(done.stdout.strip())


def from_index(shop: Shop, lab: Lab, index: Served) -> Outcome:
    environ = {"PIP_NO_INDEX": "", "PIP_FIND_LINKS": "", "UV_CACHE_DIR": f"{shop.folder}/uv"}
    return finish(start(shop, lab, "--index-url", index.index, environ=environ))


def test_four_hosts_that_reach_no_index_get_every_file_by_one_request(
    shop: Shop, make_lab: MakeLab
) -> None:
    stock(shop)
    lab = make_lab(LabSpec.plain(HOSTS, name="noindex"))
    wheels = sorted(p.name for p in shop.wheels.iterdir())
    total = sum(p.stat().st_size for p in shop.wheels.iterdir())
    with served(shop.wheels) as index:
        port = int(index.url.rpartition(":")[2])
        # 192.0.2.1 stands for the internet: it is nobody's; the index is on the controller alone
        assert {reach(lab, host, "192.0.2.1", 443) for host in lab.hosts} == {"ENETUNREACH"}
        assert {reach(lab, host, "127.0.0.1", port) for host in lab.hosts} == {"ECONNREFUSED"}
        first = from_index(shop, lab, index)
        assert (first.code, first.states) == (0, ["changed"] * HOSTS), first.err + first.out
        assert index.wheels_asked() == wheels
        assert (first.document["bytes_fetched"], first.document["bytes_sent"]) == (
            total, HOSTS * total,
        )  # fmt: skip
        assert [h["bytes_sent"] for h in first.document["hosts"]] == [total] * HOSTS
        index.seen.clear()
        second = from_index(shop, lab, index)
        assert (second.code, second.states) == (0, ["ok"] * HOSTS)
        assert (second.document["bytes_fetched"], second.document["bytes_sent"]) == (0, 0)
        assert index.seen == []
    assert locked_sizes(shop.work / "ipexctl.lock") == total


def locked_sizes(path: Path) -> int:
    lines = path.read_text().splitlines()
    return sum(json.loads(line[len("size = ") :]) for line in lines if line.startswith("size = "))
