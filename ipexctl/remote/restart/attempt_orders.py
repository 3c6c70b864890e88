"""Compose the orders of each host for a further attempt of a run, from all host plans. Pure.

A host plan does not depend on which other hosts take part: run/watch/start_request.py makes it.
"""

import posixpath

from ipexctl.common.restart_plan import RestartCommon, RestartHost
from ipexctl.common.root_paths import run_id_of

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any

    from ipexctl.common.run_orders import HostOfRun, StartOrder
    from ipexctl.common.shown_plans import ShownPlan

    Facts = dict[str, Any]  # about the attempt

SHARE = "IPEXCTL_SHARE"
N = "{n}"  # in mpirun's arguments: the number of ranks


def compose_orders(
    common: RestartCommon, host_plans: "list[RestartHost]", attempt: int, checkpoint: str = ""
) -> "list[StartOrder]":
    """Return a StartOrder for each host. `host_plans`: those of the hosts that take part, that of
    rank 0 first. `checkpoint`: its path below the folder of the ranks."""
    checkpoint = checkpoint or common.resumed
    first_plan = host_plans[0]
    names = [plan.asked.host for plan in host_plans]
    world = sum(len(plan.asked.ranks) for plan in host_plans)
    facts = {
        "world": world,
        "hosts": len(host_plans),
        "address": first_plan.address,
        "port": first_plan.port,
        "run_id": run_id_of(common.run_id, attempt),
        "restarts": attempt - 1,
    }  # type: Facts
    mpirun = [adapt_mpirun_word(word, common.run_id, facts) for word in first_plan.mpirun]
    orders, rows, begin = [], [], 0
    for index, host_plan in enumerate(host_plans):
        order, row = of_host(common, host_plan, dict(facts, index=index, begin=begin), checkpoint)
        order.hub = names[0]
        order.machinefile = "".join(host_plan.line for host_plan in host_plans)
        order.about = common.about.replace(hosts=tuple(names), ranks=world)
        orders.append(order)
        rows.append(row)
        begin += len(order.ranks)
    share_out([rank.env for order in orders for rank in order.ranks])
    orders[0].run = common.of_all.replace(
        hosts=rows,
        mpirun=mpirun,
        address=first_plan.address,
        shown=compose_shown_plan(common, host_plans, facts).document(),
    )
    return orders


def share_out(envs: "list[dict[str, str]]") -> None:
    """Scale the shares of the global batch: those of the ranks that take part add up to 1."""
    total = sum(float(env[SHARE]) for env in envs if SHARE in env)
    for env in envs:
        if SHARE in env:
            env[SHARE] = "%.12g" % (float(env[SHARE]) / total)


def adapt_mpirun_word(word: str, base: str, facts: "Facts") -> str:
    """Insert the number of ranks, or the id of this attempt in a path, into mpirun's arguments."""
    return str(facts["world"]) if word == N else word.replace(base, facts["run_id"])


def of_host(
    common: RestartCommon, host_plan: RestartHost, facts: "Facts", checkpoint: str
) -> "tuple[StartOrder, HostOfRun]":
    """Return the host's StartOrder, and its row in the hub's order."""
    cwd = host_plan.asked.cwd
    path = posixpath.normpath(posixpath.join(cwd, checkpoint)) if checkpoint else ""
    ranks = []
    for local_rank, rank in enumerate(host_plan.asked.ranks):
        values = dict(facts, rank=facts["begin"] + local_rank)
        env = {name: str(values[fact]) for name, fact in common.varies.items()}
        env = dict(rank.env, **env)
        argv = list(rank.argv)
        if path:
            env["IPEXCTL_CHECKPOINT"] = path
            argv += [word.replace("{checkpoint}", path) for word in common.resume]
        ranks.append(rank.replace(rank=values["rank"], env=env, argv=argv))
    starter = list(host_plan.row.starter)
    if starter:
        places = ["%d:%d" % (rank.rank, rank.local_rank) for rank in ranks]
        starter[len(starter) - len(places) :] = places
    run_id, port = facts["run_id"], facts["port"]
    order = host_plan.asked.replace(run_id=run_id, ranks=ranks, store_port=port, run=None)
    return order, host_plan.row.replace(ranks=[rank.rank for rank in ranks], starter=starter)


def compose_shown_plan(
    common: RestartCommon, host_plans: "list[RestartHost]", facts: "Facts"
) -> "ShownPlan":
    """Return the plan of an attempt for commands that attach."""
    hosts, begin = [], 0
    for host_plan in host_plans:
        ranks = tuple((begin + n,) + place[1:] for n, place in enumerate(host_plan.shown.ranks))
        hosts.append(host_plan.shown.replace(ranks=ranks))
        begin += len(ranks)
    return common.shown.replace(master=(facts["address"], facts["port"]), hosts=tuple(hosts))
