"""macOS's words, loaded by Python itself where tests/repo/test_mac_controller.py says so.

Only what Python says of the system is changed, and what Linux alone has is taken away; /proc is
hidden by the test. What a real Mac does differently beyond that is not shown by this.
"""

import os
import platform
import select
import socket
import sys
import sysconfig
import types

UNAME = os.uname_result(("Darwin", "mac", "23.6.0", "Darwin Kernel Version 23.6.0", "arm64"))
# Of Linux alone, or with another meaning on macOS: who uses these in the controller fails here.
GONE = {
    os: (
        "sched_getaffinity", "sched_setaffinity", "memfd_create", "pipe2", "getrandom", "splice",
        "copy_file_range", "eventfd", "fdatasync", "posix_fadvise", "posix_fallocate",
        "pidfd_open", "setns", "unshare", "getxattr", "setxattr", "listxattr", "O_PATH",
        "O_TMPFILE", "getresuid", "accept4",
    ),
    select: ("epoll",),
    socket: (
        "SO_PEERCRED", "SO_BINDTODEVICE", "SOCK_CLOEXEC", "SOCK_NONBLOCK", "AF_NETLINK",
        "TCP_USER_TIMEOUT", "TCP_KEEPIDLE", "TCP_DEFER_ACCEPT", "MSG_NOSIGNAL",
    ),
}  # fmt: skip

sysconfig.get_config_vars()  # read from a file whose name has sys.platform in it, and kept

for module, names in GONE.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
        if module is os and hasattr(sys.modules["posix"], name):
            delattr(sys.modules["posix"], name)

sys.platform = "darwin"
os.uname = lambda: UNAME  # type: ignore[assignment]
platform.uname = lambda: platform.uname_result(*UNAME[:3], *UNAME[3:])  # type: ignore
platform.system = lambda: "Darwin"  # type: ignore[assignment]
platform.machine = lambda: "arm64"  # type: ignore[assignment]
platform.mac_ver = lambda *_: ("14.6", ("", "", ""), "arm64")  # type: ignore[assignment]
sysconfig.get_platform = lambda: "macosx-14.0-arm64"  # type: ignore[assignment]

# What urllib asks on macOS instead of the environment; there, too, the environment goes first.
scproxy = types.ModuleType("_scproxy")
scproxy._get_proxy_settings = dict  # type: ignore[attr-defined]
scproxy._get_proxies = dict  # type: ignore[attr-defined]
sys.modules["_scproxy"] = scproxy
