"""Work that grows with the number of hosts and no faster: counted in calls, not in seconds."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from ipexctl.doctor.checks import run_all
from ipexctl.doctor.checks.reachability import choose_peers
from ipexctl.doctor.report.cluster import CheckedHosts
from ipexctl.doctor.report.recommendations import recommend_settings
from ipexctl.doctor.report.report import Report
from ipexctl.doctor_command import report_formats
from ipexctl.doctor_command.report_text import show_doctor_report
from ipexctl.facts.interfaces_facts import Route
from ipexctl.facts.reachability_facts import Peer
from ipexctl.inventory.hostfile_text import fold
from ipexctl.inventory.inventory import Host
from tests.checks.hosts import ROWS, clean

FEW, MANY = 64, 256


def calls(work: Callable[[], object]) -> int:
    """Functions called by it, built-in ones included."""
    count = 0

    def heard(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(heard)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def cluster(count: int, **peer: object) -> CheckedHosts:
    routes = (Route("eth0", "10.0.0.0/16"),)
    hosts = [clean(f"node{i:04d}", f"10.0.{i >> 8}.{i & 255}") for i in range(1, count + 1)]
    hosts = [replace(h, net=replace(h.net, routes=routes)) for h in hosts]
    address = {h.host: h.net.ssh_address for h in hosts}
    good = Peer("", "", "", ok=True, lost=False)
    peers = tuple(
        replace(good, source=a, target=b, address=address[b], **peer)
        for a, others in choose_peers(list(address)).items()
        for b in others
    )
    return CheckedHosts(tuple(hosts), peers, ROWS)


def report(of: CheckedHosts) -> Report:
    return Report(
        hosts=tuple(Host(f.host) for f in of.hosts),
        facts=of.hosts,
        down=(),
        peers=of.peers,
        findings=run_all(of),
        seconds=1.0,
        recommendations=recommend_settings(of),
    )


WORK: dict[str, Callable[[CheckedHosts], object]] = {
    "checks": run_all,
    "advice": recommend_settings,
    "text": lambda of: show_doctor_report(report(of), io.StringIO(), width=80),
    "json": lambda of: report_formats.as_json(report(of)),
    "names": lambda of: [fold(f.host for f in of.hosts) for _ in range(3)],
}
BETWEEN = {
    "all well": {},
    "closed": {"ok": False, "error": "no answer"},
    "lost packets": {"lost": True, "passes": 1400},
}


@pytest.mark.parametrize("between", BETWEEN.values(), ids=BETWEEN)
@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_four_times_the_hosts_are_not_much_more_than_four_times_the_work(work, between):
    work(cluster(2))  # what is read once for all
    few, many = (cluster(count, **between) for count in (FEW, MANY))
    assert calls(lambda: work(many)) < 1.2 * MANY / FEW * calls(lambda: work(few))
