"""`ipexctl run train.py` without -f, where this machine has nothing to run it with."""

from __future__ import annotations

from dataclasses import replace

from ipexctl.base.host_outcome import HostDown
from ipexctl.base.typed_command import Typed
from ipexctl.errors import RunFailed
from ipexctl.local import hostfile_reader
from ipexctl.run.outcome import retry_command
from ipexctl.run.outcome.run_result import EXIT_HOST_FAILED


def no_hosts(here: HostDown, typed: Typed) -> RunFailed:
    """Nothing names hosts, and this machine cannot run it: most likely they were forgotten."""
    file = hostfile_reader.hostfile_here()
    meant = replace(typed, options=(*typed.options, "-f", file or "HOSTFILE"))
    again = retry_command.command(meant, (), None)
    hint = [f"{again}   # on the hosts of {file}" if file else again]
    hint += ["" if file else hostfile_reader.NEW, f"{here.hint}   # to use this machine"]
    why = "no hosts are given (-f, -H), so this machine is used"
    return RunFailed(
        here.what,
        why=f"{why}, {here.why}" if here.why else why,
        hint="\n".join(filter(None, hint)),
        exit_code=EXIT_HOST_FAILED,
    )
