"""Running a program for an operation: bounded in time, heard of meanwhile, never left behind."""

import errno
import os
import signal
import subprocess
import time
from contextlib import contextmanager

from ipexctl.remote import own_process
from ipexctl.remote.failure import Failure
from ipexctl.remote.heartbeat import BEAT, Heartbeat


def run(call, command, variables, timeout):
    """stdout of the command. Its whole process group ends with it, with us, or at the deadline."""
    import tempfile

    with tempfile.TemporaryFile() as log:
        process = start(command, variables, log)
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


def with_variables(variables, pairs):
    """[[name, value], ...] set among them; what leads to files goes before what was there."""
    variables = dict(variables)
    for name, value in pairs:
        if name in ("PATH", "LD_LIBRARY_PATH") and variables.get(name):
            value = value + ":" + variables[name]
        variables[name] = value
    return variables


def start(command, variables, log, stdin=subprocess.DEVNULL, cwd="/", begin=None):
    """`begin`: what the process does first, start_process_group where it is None."""
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


def output_of(call, process, timeout):
    """Its stdout, once it has ended."""
    with ends_with(call.agent.at_end, process):
        return wait(call, process, time.time() + timeout)


@contextmanager
def ends_with(at_end, process):
    """Nothing of its process group outlives this, or the agent. Yields what kills the group."""

    def kill():
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


def wait(call, process, deadline):
    chunks = []
    reader = own_process.start_thread(lambda: chunks.append(process.stdout.read()))
    try:
        with Heartbeat(call):
            process.wait(max(0.0, deadline - time.time()))
    except subprocess.TimeoutExpired:
        raise Failure("%s did not end in time" % process.args[0], slug="command-timeout") from None
    reader.join(BEAT)
    return b"".join(chunks)


def start_user_program():
    """Start a process group with the umask of the account."""
    start_process_group()
    own_process.restore_umask()


def start_process_group():
    """A group that can be ended whole; the kernel ends its leader should the agent be killed."""
    import ctypes

    os.setsid()
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)


def describe_exit(code):
    return "signal %d" % -code if code < 0 else "exit %d" % code
