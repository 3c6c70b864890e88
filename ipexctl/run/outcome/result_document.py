"""Make the JSON documents of a run's plan and result, for `--json` and the run's folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ipexctl.explain.causes import causes
from ipexctl.run.outcome.first_cause import known_cause
from ipexctl.run.outcome.rank_exchange import Exchange
from ipexctl.run.outcome.rank_states import RankEnd
from ipexctl.run.outcome.run_result import RunResult
from ipexctl.run.output.rank_lines import without_colour
from ipexctl.run.plan.launch import YOURS_ANYHOW, HostPlan, LaunchPlan

SCHEMA = 1


# --- documents -----------------------------------------------------------------------------------


def plan_document(run_id: str, plan: LaunchPlan) -> dict[str, Any]:
    hosts = [{"name": h.host, "nic": h.nic, "ranks": [r.rank for r in h.ranks]} for h in plan.hosts]
    return {
        "schema_version": SCHEMA,
        "event": "plan",
        "run_id": run_id,
        "world_size": plan.world_size,
        "master": plan.master,
        "environment": plan.environment.document() if plan.environment else None,
        "hosts": hosts,
    }


def full_plan(plan: LaunchPlan) -> dict[str, Any]:
    """Return the plan as --explain shows it and the run's folder keeps it."""
    return {
        "schema_version": SCHEMA,
        "world_size": plan.world_size,
        "backend": plan.backend,
        "master": {"address": plan.master_addr, "port": plan.master_port},
        "mpi": plan.mpi,
        "environment": plan.environment.document() if plan.environment else None,
        "argv": list(plan.argv),
        "mpirun": list(plan.mpirun),
        "hosts": [_host_document(host) for host in plan.hosts],
        "notes": list(plan.notes),
        "secret": list(plan.secret),
    }


def _host_document(host: HostPlan) -> dict[str, Any]:
    why = dict(host.reasons)
    return {
        "name": host.host,
        "interface": host.nic,
        "environment": host.prefix,
        "threads": host.threads,
        "ranks": [
            {
                "rank": place.rank,
                "local_rank": place.local_rank,
                "cpus": list(place.cpus),
                "communication": list(place.comm),
                "memory_node": place.node,
            }
            for place in host.ranks
        ],
        "variables": list(_variable_documents(host.rank_env, why)),
        "mpi_variables": list(_variable_documents([(k, v) for k, v in host.env if k in why], why)),
    }


def _variable_documents(
    env: Iterable[tuple[str, str]], why: dict[str, str]
) -> Iterator[dict[str, str | None]]:
    """Yield the variables. The user's own have no reason, and no value: it may be a secret."""
    for name, value in env:
        yield {
            "name": name,
            "value": value if name in why else None,
            "why": why.get(name, YOURS_ANYHOW),
        }


def result_document(result: RunResult, table: causes.Known) -> dict[str, Any]:
    first, cause = result.first, known_cause(result, table)
    speed = result.steps.speed if result.steps else None
    return {
        "schema_version": SCHEMA,
        "event": "result",
        "run_id": result.run_id,
        "exit_code": result.exit_code,
        "ended_by": result.ended_by,
        "cause": result.cause,
        "stalled": result.stall.document() if result.stall else None,
        "known": {"slug": cause.slug, "title": cause.title, "fix": cause.fix} if cause else None,
        "warnings": list(result.warnings),
        "hidden": result.hidden,
        "seconds": round(result.seconds, 3),
        "first": _rank_document(first) if first else None,
        "tail": [without_colour(line) for line in result.tail],
        "same": [_rank_document(e) for e in result.same],
        "victims": [_rank_document(e) for e in result.victims],
        "aborted_at_exit": list(result.aborted),
        "ranks": [_usage_document(e) for e in sorted(result.ends, key=lambda e: e.rank)],
        "hosts": [
            {
                "name": host.host,
                "survivors": host.survivors,
                "logs": host.logs,
                "cpu": None if host.load.cpu is None else round(host.load.cpu, 3),
                "memory_peak": host.load.used,
                "memory": host.load.total,
            }
            for host in result.hosts
        ],
        "exchange": _exchange_document(result.exchange) if result.exchange else None,
        "speed": speed.document() if speed else None,
        "steps": result.steps.document() if result.steps else None,
        "again": result.again or None,
        "folder": result.kept.folder or None,
        "not_kept": list(result.kept.trouble),
        "outputs": list(result.kept.outputs),
    }


def _exchange_document(exchange: Exchange) -> dict[str, Any]:
    return {
        "verdict": exchange.verdict.value,
        "bytes": exchange.bytes,
        "collectives": exchange.collectives,
        "groups": [list(group) for group in exchange.groups],
        "printed_steps": exchange.steps,
        "alarm": exchange.is_alarming,
        "reason": exchange.reason or None,
    }


def _rank_document(end: RankEnd) -> dict[str, Any]:
    return {"rank": end.rank, "host": end.host, "code": end.exit_code}


def _usage_document(end: RankEnd) -> dict[str, Any]:
    usage = end.usage
    return {
        **_rank_document(end),
        "seconds": round(usage.seconds, 3) if usage else None,
        "cpu_seconds": round(usage.cpu, 3) if usage else None,
        "memory_peak": usage.memory if usage else None,
    }
