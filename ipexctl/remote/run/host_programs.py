"""Start a run's programs on a host: mpirun, its daemons, or a program that starts ranks."""

import marshal
import os
import re
import signal
import subprocess
import sys
import time

from ipexctl.common import run_events
from ipexctl.common.files import write_atomic
from ipexctl.common.run_orders import StartOrder
from ipexctl.remote.hub.judge import by_signal
from ipexctl.remote.own_process import start_thread
from ipexctl.remote.rank import rank_wrapper

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Iterable
    from types import ModuleType
    from typing import Any

    from ipexctl.remote.run.supervisor import Supervisor

KEPT = ("HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
HESITATION = 0.5  # seconds: related ends are reported in order, also by several hosts


def own_variables(names: "Iterable[str]") -> "dict[str, str]":
    """Return those of this host's variables that are set."""
    return {name: os.environ[name] for name in names if name in os.environ}


class HostPrograms:
    def __init__(self, supervisor: "Supervisor", scratch: str) -> None:
        self.supervisor = supervisor
        self.plan: StartOrder = supervisor.plan
        self.dir = supervisor.dir
        self.scratch = scratch
        self.children = {}  # type: dict[str, subprocess.Popen[bytes]]
        self.killed = set()  # type: set[str]  # keys of programs that were killed as ordered

    def make_base_env(self) -> "dict[str, str]":
        env = own_variables(KEPT)
        env.update(self.plan.env)
        env[rank_wrapper.RUN_MARK] = self.supervisor.run_id
        return env

    def get_socket_path(self) -> str:
        return os.path.join(self.scratch, "socket")

    def make_program_env(self) -> "dict[str, str]":
        """Return the environment of mpirun, its daemons and the wrappers; without secrets."""
        env = self.make_base_env()
        env["IPEXCTL_SOCKET"] = self.get_socket_path()
        env["IPEXCTL_PROGRAMS"] = self.scratch
        env["IPEXCTL_PYTHON"] = sys.executable
        env["TMPDIR"] = self.scratch  # Open MPI's files there outlive it when it is killed
        return env

    def spawn(self, key: str, argv: "list[str]") -> None:
        """Start a program of the plan, its output in a log; report it as exited if that fails."""
        if self.supervisor.over:
            return
        env = self.make_program_env()
        path = os.path.join(self.supervisor.logs, "%s.log" % re.sub(r"[^a-z0-9]", "-", str(key)))
        parent = os.getpid()
        try:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as log:
                child = subprocess.Popen(
                    argv,
                    env=env,
                    cwd=self.dir,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    preexec_fn=lambda: rank_wrapper.die_with_parent(parent),
                    start_new_session=True,
                )
        except (OSError, ValueError, subprocess.SubprocessError) as e:
            self.supervisor.report(run_events.Exited(key, 127, str(e)))
            return
        self.children[key] = child
        self.supervisor.begin_log(key, path)
        self.wait(key, child)

    def wait(self, key: str, child: "subprocess.Popen[bytes]") -> None:
        # PDEATHSIG follows the thread that forked, so this thread (which executes orders) must live
        # as long as the child; the waiting is done elsewhere.
        """Wait in a thread until the program ends, then report its exit to the hub."""

        def waiter() -> None:
            code = child.wait()
            is_expected = key in self.killed or self.supervisor.is_ending(time.monotonic())
            self.supervisor.end_log(key)
            if self.supervisor.ranks.running and not by_signal(code):
                # it gave up as a rank was killed: report that first; 0 follows an order to end
                time.sleep(HESITATION if code else 2 * HESITATION)
            self.supervisor.report(run_events.Exited(key, code, asked=is_expected))

        start_thread(waiter)

    def kill(self, key: str) -> None:
        child = self.children.get(key)
        if child is not None and is_child_alive(child.pid):
            self.killed.add(key)
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except OSError:
                pass

    def write(self) -> None:
        write_atomic(os.path.join(self.scratch, "rank.pyc"), compile_program(rank_wrapper))
        # mpirun takes one program name: a shell script finds the interpreter in the environment
        program = '#!/bin/sh\nexec "$IPEXCTL_PYTHON" -IS "$IPEXCTL_PROGRAMS/rank.pyc" %s "$@"\n'
        text = program % rank_wrapper.LAUNCH
        write_atomic(os.path.join(self.dir, "bootstrap"), text, mode=0o700)
        write_atomic(os.path.join(self.dir, "hosts"), self.plan.machinefile)
        self.write_site()

    def write_site(self) -> None:
        """Write the modules that each rank's Python imports first (ipexctl/in_ranks)."""
        if self.plan.modules:
            os.mkdir(self.site(), 0o700)
        for name, text in self.plan.modules.items():
            write_atomic(os.path.join(self.site(), os.path.basename(name) + ".py"), text)

    def site(self) -> str:
        return os.path.join(self.scratch, "site")


def compile_program(module: "ModuleType") -> bytes:
    """Return a .pyc that Python can run as a program: else every rank would compile the source."""
    magic = sys.modules["_frozen_importlib_external"].MAGIC_NUMBER  # type: bytes
    loader: "Any" = module.__loader__
    head = magic + bytes(8 if sys.version_info < (3, 7) else 12)
    return head + marshal.dumps(loader.get_code(module.__name__))


def is_child_alive(pid: int) -> bool:
    """Return whether the child still runs; the thread that waits for it may not have noticed."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except OSError:
        return False
