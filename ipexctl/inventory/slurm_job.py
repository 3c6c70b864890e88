"""The hosts of a Slurm job, from its environment, as -H takes them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ipexctl.inventory.nodeset import expand, split

NODES = "SLURM_JOB_NODELIST"
_TASKS = re.compile(r"([0-9]{1,6})(?:\(x([0-9]{1,6})\))?")


def hosts_of_job(environ: Mapping[str, str]) -> str:
    """`a1:2,a2:2` where the job asked for tasks, else `a1,a2`; "" outside a job."""
    nodes = [name for part, _ in split(environ.get(NODES, ""), ",") for name in expand(part)]
    tasks = _tasks(environ.get("SLURM_TASKS_PER_NODE", "")) if environ.get("SLURM_NTASKS") else []
    if len(tasks) == len(nodes):
        return ",".join(f"{name}:{count}" for name, count in zip(nodes, tasks, strict=True))
    return ",".join(nodes)


def _tasks(text: str) -> list[int]:
    """`2(x3),1` is 2, 2, 2, 1. [] for what is not understood."""
    found: list[int] = []
    for part in text.split(","):
        matched = _TASKS.fullmatch(part)
        if not matched or len(found) + int(matched[2] or 1) > 100_000:
            return []
        found += [int(matched[1])] * int(matched[2] or 1)
    return found
