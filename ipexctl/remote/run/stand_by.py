"""Forks the guardian of a run from the agent, before the agent has threads: this saves starting a
second Python. Modules that both use are imported here, before the fork. The guardian imports the
others while the agent answers.
"""

import ctypes  # noqa: F401
import glob  # noqa: F401
import os
import shlex  # noqa: F401
import shutil  # noqa: F401
import socket
import subprocess  # noqa: F401

from ipexctl.common import frames, supervisor_messages, watch_orders  # noqa: F401
from ipexctl.remote.own_process import close_files
from ipexctl.remote.run_files import journal, run_folders  # noqa: F401

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable

    from ipexctl.common.run_orders import StartOrder
    from ipexctl.remote.main import AgentLoop


def op_begin(agent: "AgentLoop", keep: "Callable[[StartOrder], None] | None" = None) -> None:
    """Fork the guardian. Called in the agent's main thread, before there are others."""
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        try:
            leave_agent(theirs)
            from ipexctl.remote.run import guardian

            guardian.guard_run(frames.of_socket(theirs), keep)
        finally:
            os._exit(1)
    theirs.close()
    agent.guardian = ours


def leave_agent(link: "socket.socket") -> None:
    """Start a session and close the agent's files, so that they keep no connection open."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    close_files(link.fileno())
