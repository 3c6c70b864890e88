"""Read the limits of this login and of its control group."""

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any


def read_limits(groups: "dict[str, Any]", live: bool) -> "dict[str, Any]":
    limits = {"pids": groups["pids"]}
    if live:
        import resource

        for name, limit in (
            ("nofile", resource.RLIMIT_NOFILE),
            ("nproc", resource.RLIMIT_NPROC),
            ("file_size", resource.RLIMIT_FSIZE),
            ("stack", resource.RLIMIT_STACK),
            ("address_space", resource.RLIMIT_AS),
            ("cpu_seconds", resource.RLIMIT_CPU),
        ):
            limits[name] = list(resource.getrlimit(limit))  # [soft, hard]; -1: no limit
    return limits
