"""The variables by which the ranks of a host find its datasets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ipexctl.data.rules.dataset_rules import Held
from ipexctl.project.files.dataset_names import data_variable_name
from ipexctl.run.plan.launch import HostPlan, LaunchPlan

Variables = tuple[tuple[str, str, str], ...]  # name, value, why


def data_variables(held: Iterable[Held]) -> Variables:
    """Return the variables for ranks on this host."""
    found: list[tuple[str, str, str]] = []
    hf_homes: dict[str, list[str]] = {}
    for one in held:
        found.append(
            (data_variable_name(one.name), one.path, f"--data {one.name}, version {one.version}")
        )
        if one.hub:
            hf_homes.setdefault(one.hub, []).append(one.name)
    for home, names in hf_homes.items():
        found.append(("HF_HOME", home, f"{', '.join(names)}: hub cache"))
        found.append(("HF_HUB_OFFLINE", "1", "the hub is not contacted for files in the cache"))
    return tuple(found)


def with_data(
    plan: LaunchPlan, held: Mapping[str, Sequence[Held]], given: Iterable[str]
) -> LaunchPlan:
    """Return the plan with each host's own paths; variables given by --env are kept."""
    mine = frozenset(given)
    hosts = tuple(
        _add_variables(host, data_variables(held[host.host]), mine) for host in plan.hosts
    )
    return replace(plan, hosts=hosts)


def _add_variables(host: HostPlan, found: Variables, given: frozenset[str]) -> HostPlan:
    new = [v for v in found if v[0] not in given]
    return replace(
        host,
        rank_env=(*host.rank_env, *((name, value) for name, value, _ in new)),
        reasons=(*host.reasons, *((name, why) for name, _, why in new)),
    )
