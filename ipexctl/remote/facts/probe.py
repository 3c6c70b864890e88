"""Probe this host by files and system calls only: no programs, nothing judged, nothing created.

The module read_NAME.py reads a subject; here the answer is put together, as facts/facts.py
declares it. Many hosts answer at once and may share few cores, so each part does as little as it
can. `fs` is the folder in front of /proc and /sys: tests put recorded machines there.
"""

import os
import time

from ipexctl.common.tolerant_reads import read_text

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any

    from ipexctl.remote.main import Call


def op_facts(
    call: "Call",
    root: str = "~/.ipexctl",
    environment: str = "",
    fs: str = "/",
    load: "bool | None" = None,
    dns: bool = False,
    listen: bool = False,
) -> "dict[str, Any]":
    """Emit the clock first, so that the controller knows its age; return everything else."""
    call.emit({"event": "clock", "now": time.time()})
    # imported late: the clock does not wait until these are compiled
    from ipexctl.remote.facts import read_load, read_name_resolution

    fs = fs.rstrip("/")
    live = not fs
    sample = read_load.begin_load_sample(read_text, fs, load)
    names = read_name_resolution.begin_lookup() if live else None
    servers = []
    if live and dns:
        # imported late: only doctor asks for it
        from ipexctl.remote.facts import name_servers

        servers = name_servers.query_name_servers(read_text)
    home = os.path.expanduser("~")
    root = os.path.join(home, os.path.expanduser(root))
    facts = _read_hardware(fs, live, home, os.path.normpath(root))
    if live:
        # imported late: names are being resolved meanwhile
        from ipexctl.remote.facts import read_other_runs, read_pythons, read_software

        facts["pythons"] = read_pythons.find_pythons(home)
        facts["software"] = read_software.read_software(home, os.path.normpath(root), environment)
    facts["condition"]["load"] = read_load.finish_load_sample(read_text, fs, sample)
    if live:
        facts["condition"]["load"]["runs"] = read_other_runs.find_other_runs(root)
    if listen:
        from ipexctl.remote.connection import listeners

        opened = listeners.op_listen(call)
        facts["port"], facts["net"]["range_port"] = opened.port, opened.range_port
    if servers:
        facts["net"]["name_servers"] = name_servers.collect_dns_answers(servers)
    resolved = read_name_resolution.wait_for_names(names) if names else {"hostname_addresses": []}
    facts["net"].update(resolved)
    return facts


def _read_hardware(fs: str, live: bool, home: str, root: str) -> "dict[str, Any]":
    # imported late: names are being resolved meanwhile
    from ipexctl.remote.facts import (
        control_groups,
        read_cpu,
        read_cpu_frequency,
        read_interfaces,
        read_kernel,
        read_limits,
        read_memory_and_swap,
        read_ports_and_firewalls,
        read_shared_memory,
        read_storage,
        read_system,
    )

    def read(path: str) -> str:
        return read_text(fs + path).strip()

    mounts = read_storage.read_mounts(fs)
    groups = control_groups.read_cgroup(fs, mounts)
    nodes, contradict = read_cpu.read_numa_nodes(fs)
    cpu = read_cpu.read_cpu(fs, groups, live, nodes)
    mem = read_memory_and_swap.read_memory(fs, groups)
    net = read_interfaces.read_interfaces(read_text, fs, live)
    net.update(read_ports_and_firewalls.read_ports_and_firewalls(read_text, fs, live))
    if live:
        mem.update(read_shared_memory.read_shared_memory())
    return {
        "host": read_system.read_operating_system(fs, home),
        "cpu": cpu,
        "nodes": nodes,
        "nodes_contradict": contradict,
        "mem": mem,
        "disk": read_storage.read_root_disk(root, mounts),
        "home_disk": read_storage.read_disk(home, mounts),
        "tmp": read_storage.read_disk(os.environ.get("TMPDIR") or "/tmp", mounts),
        "pythons": [],
        "net": net,
        "condition": {
            "power": read_cpu_frequency.read_power(fs, read, cpu["cpus"]),
            "kernel": read_kernel.read_kernel(read),
            "limits": read_limits.read_limits(groups, live),
            "system": read_system.read_system(fs, read, live),
        },
    }
