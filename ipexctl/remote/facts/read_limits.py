"""Read the limits of this login and of its control group."""


def read_limits(groups, live):
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
