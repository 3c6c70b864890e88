"""The sockets, NUMA nodes and cores of the ranks: where the plan has them, and where they ran."""

from __future__ import annotations

from typing import Any

from ipexctl.inventory.nodeset import fold
from ipexctl.report.material.report_material import Material
from ipexctl.run.plan.launch import HostPlan

TITLE = "Sockets, NUMA nodes and cores"
EMPTY = "The plan of this run is not known."


def section_document(material: Material) -> dict[str, Any]:
    """Return the placement of ranks; equal hosts share one map."""
    last = material.last
    measured = {rank: cpus for record in last.records for rank, cpus in record.places}
    sockets = {record.host: record.inputs.sockets for record in last.records if record.inputs}
    groups: dict[Any, list[HostPlan]] = {}
    for host in last.plan.hosts if last.plan else ():
        ranks = [(place.local_rank, place.cpus, measured.get(place.rank)) for place in host.ranks]
        key = (sockets.get(host.host, ()), tuple(ranks))
        groups.setdefault(key, []).append(host)
    places = [
        {
            "hosts": fold(host.host for host in hosts),
            "shown": hosts[0].host if len(hosts) > 1 else "",
            "sockets": key[0],
            "ranks": [
                {"rank": place.rank, "planned": place.cpus, "real": measured.get(place.rank)}
                for place in hosts[0].ranks
            ],
        }
        for key, hosts in groups.items()
    ]
    return {"places": places}
