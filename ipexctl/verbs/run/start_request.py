"""What a host is told when a run begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ipexctl.core.model import HostPlan, LaunchPlan, RankPlace
from ipexctl.core.plan import rank_contract


@dataclass(frozen=True)
class Orders:
    """The same for all hosts of a run. `secret` goes into the ranks' environment only."""

    plan: LaunchPlan
    run_id: str
    launcher: str
    lease: float
    window: int  # bytes of output that a host may send ahead
    about: Mapping[str, object] = field(default_factory=dict)  # for those who list runs
    secret: Mapping[str, str] = field(default_factory=dict, repr=False)

    def of(self, name: str, root: str, work: str) -> dict[str, object]:
        host = next(h for h in self.plan.hosts if h.host == name)
        return {
            "root": root,
            "host": name,
            "about": dict(self.about),
            "run_id": self.run_id,
            "lease": self.lease,
            "window": self.window,
            "env": dict(host.env),
            "cwd": work,
            "ranks": [self._rank(host, place) for place in host.ranks],
            "machinefile": self.plan.machinefile,
            "launcher": self.launcher,
            "flags": list(host.flags),
            "store_port": self.plan.master_port,
            "secret": bool(self.secret),
        }

    def _rank(self, host: HostPlan, place: RankPlace) -> dict[str, object]:
        return {
            "rank": place.rank,
            "local_rank": place.local_rank,
            "cpus": list(place.cpus),
            "node": place.node,
            "env": {**rank_contract.environment(self.plan, host, place), **self.secret},
            "argv": [f"{host.prefix}/bin/python3", *self.plan.argv],
        }
