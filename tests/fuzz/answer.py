"""A good answer of the probe with all of its parts, and values to put into it."""

from __future__ import annotations

from typing import Any

ODD = (None, True, False, "", "²", "9" * 4000, "0-9999", "0-7", "0x10", 0, 1, -1, 1 << 62, 10**400,
       1e308, float("inf"), float("nan"), [], {}, "\ud800", "::1", "127.0.0.1", "/",
       "~")  # fmt: skip
_DISK: dict[str, Any] = {
    "root": "/home/ann/.ipexctl", "free": 1 << 36, "free_inodes": 100000, "filesystem": "ext4",
    "noexec": False, "writable": True, "there": True, "total": 1 << 37, "source": "/dev/sda1",
    "point": "/", "real": "/srv", "quota": False,
}  # fmt: skip
ANSWER: dict[str, Any] = {
    "host": {"kernel": "Linux 6.1.0-18-amd64", "os_name": "Debian GNU/Linux 12", "uid": 1000,
             "libc": "glibc 2.36", "user": "ann", "home": "/home/ann", "boot_id": "b",
             "os_ids": ["debian"]},
    "cpu": {"arch": "x86_64", "vendor": "GenuineIntel", "model_name": "Xeon", "family": 6,
            "model": 143, "stepping": 8, "microcode": "0x2b", "flags": ["fma", "avx2", "amx_bf16"],
            "cpus": [[0, 0, 0, 0], [1, 0, 0, 0], [2, 2, 1, 1], [3, 2, 1, 1]],
            "allowed": [0, 1, 2, 3], "quota": 4.0, "offline": [], "smt": "on",
            "efficient": []},
    "nodes": [[0, [0, 1], 1 << 34, 1 << 33], [1, [2, 3], 1 << 34, 1 << 33]],
    "mem": {"total": 1 << 35, "available": 1 << 34, "swap_total": 0, "swap_free": 0,
            "shm_total": 1 << 34, "shm_free": 1 << 34, "limit": 1 << 34, "commit_limit": 1 << 35,
            "committed": 1 << 30, "huge": 0, "shm_there": True, "shm_writable": True},
    "disk": _DISK, "home_disk": _DISK, "tmp": _DISK,
    "net": {"hostname": "node01", "hostname_addresses": ["127.0.1.1"], "ssh_address": "10.0.0.1",
            "nics": [["eth0", True, 1500, ["10.0.0.1"], 25000, "full"],
                     ["ib0", False, 2044, [], None, ""]],
            "default_nic": "eth0", "routes": [["eth0", "10.0.0.0/24"]],
            "port_range": [32768, 60999],
            "master_port_busy": False, "hostname_resolves": True, "localhost": ["127.0.0.1"],
            "firewalls": ["ufw"], "range_port": 40000,
            "name_servers": [["10.0.0.53", True, False, "no response within 2 s"]]},
    "pythons": [{"path": "/usr/bin/python3", "version": [3, 11, 2]}],
    "condition": {
        "power": {"driver": "intel_pstate", "status": "active", "governors": ["powersave"],
                  "preferences": ["power"], "turbo": False, "max_khz": 2000000,
                  "hardware_khz": 4000000, "throttled": 9},
        "kernel": {"thp": "never", "numa_balancing": 1, "zone_reclaim": 1, "overcommit": 2,
                   "swappiness": 60},
        "limits": {"nofile": [1024, 4096], "nproc": [100, 100], "pids": 100,
                   "file_size": [1 << 20, -1], "stack": [65536, 65536],
                   "address_space": [1 << 30, -1], "cpu_seconds": [600, 600]},
        "system": {"login_shell": "bash", "login_ms": 9000, "bits": 64,
                   "container": "docker", "netns": 1,
                   "session": True, "kill_user_processes": True, "remove_ipc": True,
                   "linger": False}},
    "software": {
        "prefixes": [{"path": "/e", "kind": "ipexctl", "python": "3.11", "cuda": False,
                      "packages": [["torch", "2.8.0"], ["impi-rt", "2021.16"], ["numpy", "2"]],
                      "omp": ["libiomp5.so", "libgomp.so.1"], "ccl": True,
                      "mpi": {"libmpi": True, "libfabric": "/e/lib", "providers": ["tcp"],
                              "absent": ["mpirun"]}}],
        "mpis": [{"bin": "/usr/bin", "not_run": []}],
        "env": [["https_proxy", None], ["no_proxy", "localhost,10.0.0.0/8"]],
        "stale": 3, "stale_bytes": 1 << 31,
        "current": {"prefix": "/e", "exists": True, "whole": False,
                    "changed": [["numpy", "2.0", "1.26"]]}},
}  # fmt: skip
