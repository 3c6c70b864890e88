"""Run a program for an operation: limited in time, with signs of life, and never left behind."""

import errno
import os
import signal
import subprocess
import time
from contextlib import contextmanager

from ipexctl.remote import own_process
from ipexctl.remote.failure import Failure
from ipexctl.remote.heartbeat import BEAT, Heartbeat

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable, Iterable, Iterator
    from typing import IO

    from ipexctl.remote.main import Call

    Variables = dict[str, str]


def run_program(call: "Call", command: "list[str]", variables: "Variables", timeout: float) -> str:
    """Return stdout of the command. Its process group ends with it, the agent, or the timeout."""
    import tempfile

    with tempfile.TemporaryFile() as log:
        process = start_program(command, variables, log)
        out = output_of(call, process, timeout)
        if process.returncode:
            log.seek(0)
            words = (log.read() or out).decode("utf-8", "replace").strip()
            raise Failure(
                "%s failed (%s)"
                % (os.path.basename(command[0]), describe_exit(process.returncode)),
                words[-2000:],
                slug="command-failed",
            )
    return out.decode("utf-8", "replace")


def with_variables(variables: "Variables", pairs: "Iterable[tuple[str, str]]") -> "Variables":
    """Return the variables with [[name, value], ...] set; search paths are prepended."""
    variables = dict(variables)
    for name, value in pairs:
        if name in ("PATH", "LD_LIBRARY_PATH") and variables.get(name):
            value = value + ":" + variables[name]
        variables[name] = value
    return variables


def start_program(
    command: "list[str]",
    variables: "Variables",
    log: "IO[bytes] | int",
    stdin: "IO[bytes] | int" = subprocess.DEVNULL,
    cwd: str = "/",
    begin: "Callable[[], object] | None" = None,
) -> "subprocess.Popen[bytes]":
    """Start a program. `begin`: called in the child before exec; by default start_process_group."""
    try:
        return subprocess.Popen(
            command,
            env=variables,
            cwd=cwd,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=log,
            preexec_fn=begin or start_process_group,
        )
    except OSError as e:
        raise Failure(
            "cannot run %s" % command[0],
            e.strerror or str(e),
            "--root FOLDER   # on a disk that is not mounted noexec"
            if e.errno == errno.EACCES
            else "",
            slug="command-not-runnable",
        ) from None


def output_of(call: "Call", process: "subprocess.Popen[bytes]", timeout: float) -> bytes:
    """Return the stdout of a process once it has ended."""
    with ends_with(call.agent.at_end, process):
        return wait_for_output(call, process, time.time() + timeout)


@contextmanager
def ends_with(
    at_end: "list[Callable[[], object]]", process: "subprocess.Popen[bytes]"
) -> "Iterator[Callable[[], object]]":
    """Kill the process group when the block or the agent ends. Yield a function that kills it."""

    def kill() -> None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except OSError:
            pass

    at_end.append(kill)
    try:
        yield kill
    finally:
        kill()
        process.wait()
        at_end.remove(kill)


def wait_for_output(call: "Call", process: "subprocess.Popen[bytes]", deadline: float) -> bytes:
    assert process.stdout and isinstance(process.args, list)
    chunks, out = [], process.stdout  # type: list[bytes], IO[bytes]
    reader = own_process.start_thread(lambda: chunks.append(out.read()))
    try:
        with Heartbeat(call):
            process.wait(max(0.0, deadline - time.time()))
    except subprocess.TimeoutExpired:
        program = os.fsdecode(process.args[0])
        raise Failure("%s did not end in time" % program, slug="command-timeout") from None
    reader.join(BEAT)
    return b"".join(chunks)


def start_user_program() -> None:
    """Start a process group with the umask of the account."""
    start_process_group()
    own_process.restore_umask()


def start_process_group() -> None:
    """Start a process group; the kernel kills its leader if the agent is killed."""
    import ctypes

    os.setsid()
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)


def describe_exit(code: int) -> str:
    return "signal %d" % -code if code < 0 else "exit %d" % code
