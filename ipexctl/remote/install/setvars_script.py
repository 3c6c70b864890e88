"""Learn which variables setvars.sh of the oneCCL bindings sets, by sourcing it once in bash.

The script is found by its place, not by an import: that would load libraries which may need it.
"""

import glob
import os
import re
import shlex

from ipexctl.remote import child_processes
from ipexctl.remote.failure import Failure

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from ipexctl.remote.main import Call

PACKAGES = ("oneccl_bindings_for_pytorch", "torch_ccl")  # the module from 1.12 on, and before
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
BASH_OWN = frozenset(("PWD", "OLDPWD", "SHLVL", "_"))
TIMEOUT = 20
# The script must not see our arguments as $1, since it reads options there.
SOURCE = "ipexctl_script=$1 ipexctl_env=$(type -P env); shift\n"
SOURCE += 'source "$ipexctl_script" >/dev/null 2>&1; exec "$ipexctl_env" -0'


def read_variables(call: "Call", prefix: str) -> "dict[str, str]":
    """Return {name: value}, empty if the environment has no such script."""
    script = find_script(prefix)
    return source_script(call, prefix, script, TIMEOUT) if script else {}


def find_script(prefix: str) -> str:
    places = os.path.join(prefix, "lib", "python3*", "site-packages")
    for package in PACKAGES:
        for path in sorted(glob.glob(os.path.join(places, package, "env", "setvars.sh"))):
            return path
    return ""


def source_script(call: "Call", prefix: str, script: str, seconds: float) -> "dict[str, str]":
    """Return {name: value} of variables it adds or changes; of PATH only what was added."""
    before = base_environment(prefix)
    command = ["bash", "--norc", "--noprofile", "-c", SOURCE, "bash", script]
    try:
        after = parse_env(child_processes.run_program(call, command, before, seconds))
    except Failure as e:
        raise script_failure(script, e.what) from None
    if not after:
        raise script_failure(script, "it exits the shell that sources it")
    changed = {name: value for name, value in after.items() if before.get(name) != value}
    if "PATH" in changed:
        changed["PATH"] = added_paths(before["PATH"], changed["PATH"])
    return changed


def base_environment(prefix: str) -> "dict[str, str]":
    """Return variables that are equal in every session, so that only the script's differ."""
    return {
        "HOME": os.path.expanduser("~"),
        "PATH": os.path.join(prefix, "bin") + ":/usr/local/bin:/usr/bin:/bin",
        "LC_ALL": "C.UTF-8",
    }


def parse_env(text: str) -> "dict[str, str]":
    """Parse the output of `env -0`, without exported functions and undecodable values."""
    pairs = (entry.partition("=")[::2] for entry in text.split("\0"))
    return {
        name: value
        for name, value in pairs
        if NAME.match(name) and name not in BASH_OWN and "\ufffd" not in value
    }


def added_paths(before: str, after: str) -> str:
    old_parts = before.split(":")
    return ":".join(part for part in after.split(":") if part and part not in old_parts)


def script_failure(script: str, why: str) -> "Failure":
    command = shlex.quote("source " + shlex.quote(script))
    hint = "bash -c %s   # on this host, to see what it says" % command
    return Failure("setvars.sh of the oneCCL bindings failed", why, hint, slug="setvars-failed")
