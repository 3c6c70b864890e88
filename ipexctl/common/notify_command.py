"""Run the command of `run --notify`. Its text may hold a secret: it is in no file and no argument.

The controller runs this file as a program, which outlives the command that started it.
"""

import json
import os
import signal
import subprocess
import sys

LIMIT = 30.0  # seconds
# what the shell is given is the same for all commands: theirs is not in the list of processes
_SHELL = 'command=$IPEXCTL_NOTIFY; unset IPEXCTL_NOTIFY; eval "$command"'


def describe_event(run_id: str, name: str, state: str, cause: str) -> "dict[str, str]":
    """Return the variables of the command."""
    return {
        "IPEXCTL_RUN": run_id,
        "IPEXCTL_NAME": name,
        "IPEXCTL_STATE": state,
        "IPEXCTL_CAUSE": "".join(c if c.isprintable() else " " for c in cause)[:1000].strip(),
        "IPEXCTL_REPORT": "ipexctl report %s" % run_id,
    }


def run_notify_command(command: str, values: "dict[str, str]", limit: float = LIMIT) -> str:
    """Run the command; return why it failed, "" if it did not. What it prints is discarded."""
    env = dict(os.environ, IPEXCTL_NOTIFY=command, **values)
    try:
        with open(os.devnull, "r+b") as null:
            shell = subprocess.Popen(
                ["/bin/sh", "-c", _SHELL],
                env=env,
                stdin=null,
                stdout=null,
                stderr=null,
                start_new_session=True,
            )
        code = shell.wait(limit)
    except subprocess.TimeoutExpired:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
        return "--notify (%s): it did not end within %.0f s" % (values["IPEXCTL_STATE"], limit)
    except (OSError, ValueError) as e:
        return "--notify (%s): it was not started: %s" % (values["IPEXCTL_STATE"], type(e).__name__)
    return "--notify (%s): exit code %d" % (values["IPEXCTL_STATE"], code) if code else ""


if __name__ == "__main__":
    print(run_notify_command(*json.loads(sys.stdin.read())), flush=True)
