"""Read the memory and swap of this host, and its limit."""

from ipexctl.common.processes import fields_of
from ipexctl.common.tolerant_reads import read_text
from ipexctl.remote.facts.probe_values import kib_to_bytes, parse_number

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any


def read_memory(fs: str, groups: "dict[str, Any]") -> "dict[str, Any]":
    fields = fields_of(read_text(fs + "/proc/meminfo"))

    def of(name: str) -> "int | None":
        return kib_to_bytes(parse_number((fields.get(name) or "?").split()[0]))

    huge = parse_number((fields.get("HugePages_Total") or "?").split()[0])
    page = of("Hugepagesize")
    return {
        "total": of("MemTotal"),
        "available": of("MemAvailable"),
        "swap_total": of("SwapTotal"),
        "swap_free": of("SwapFree"),
        "commit_limit": of("CommitLimit"),
        "committed": of("Committed_AS"),
        "huge": huge * page if huge and page else 0,
        "limit": groups["memory"],
        "limit_left": groups["memory_left"],
        "mems": groups["mems"],
    }
