"""Run a command inside the environment: its output is streamed, and no process is left behind."""

import os
import re
import subprocess

from ipexctl.common.result_answers import CommandEnded
from ipexctl.remote import child_processes
from ipexctl.remote.failure import Failure
from ipexctl.remote.heartbeat import BEAT, Heartbeat
from ipexctl.remote.own_process import start_thread

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import IO

    from ipexctl.remote.main import Call

PIP = re.compile(r"pip[0-9.]*\Z")
OTHERS = ("PYTHONHOME", "PYTHONPATH")  # from the login shell: they lead to another Python's files


def op_exec(call: "Call", argv: "list[str]", env: "list[tuple[str, str]]") -> CommandEnded:
    """Run a command. Events: {"event": "out" or "err"} and bytes."""
    if PIP.match(argv[0]):
        require_own(argv[0], dict(env).get("PATH", "").split(":")[0])
    variables = {name: value for name, value in os.environ.items() if name not in OTHERS}
    process = child_processes.start_program(
        argv,
        child_processes.with_variables(variables, env),
        subprocess.PIPE,
        cwd=os.path.expanduser("~"),
        begin=child_processes.start_user_program,
    )
    with child_processes.ends_with(call.agent.at_end, process):
        return CommandEnded(exit_code_of(call, process))


def require_own(program: str, folder: str) -> None:
    """Refuse pip unless it is the environment's: the host's pip would install into its Python."""
    if not os.access(os.path.join(folder, program), os.X_OK):
        raise Failure(
            "there is no %s in %s" % (program, folder),
            (
                "ipexctl's environments contain no pip, and the host's own pip would change the "
                "host's Python"
            ),
            "ipexctl install -r requirements.txt   # adds packages to the environment",
            slug="no-pip",
        )


def exit_code_of(call: "Call", process: "subprocess.Popen[bytes]") -> int:
    """Wait for the process; return its exit code, or 128 + the signal, as a shell does."""
    readers = [
        start_thread(forward_output, call, "out", process.stdout),
        start_thread(forward_output, call, "err", process.stderr),
    ]
    with Heartbeat(call):
        process.wait()
    for reader in readers:
        reader.join(BEAT)  # a background process of the command may hold the pipe
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def forward_output(call: "Call", name: str, pipe: "IO[bytes]") -> None:
    while True:
        data = os.read(pipe.fileno(), 1 << 16)
        if not data:
            return
        call.emit({"event": name}, data)
