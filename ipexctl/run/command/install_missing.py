"""Ask whether to install packages that the script imports and the hosts lack, before a run."""

from __future__ import annotations

import subprocess
import sys

from ipexctl.errors import MissingPackages
from ipexctl.local.run_options import RunOptions
from ipexctl.machines.suggested_commands import spell_hint
from ipexctl.machines.target import Target
from ipexctl.terminal.confirm import confirm


def offer_install(missing: MissingPackages, target: Target, options: RunOptions) -> None:
    """Ask, and install; raise the error again if that fails. Without the packages the run is
    started as well: the user may know better."""
    line = spell_hint(missing.line, target, options.root)
    choice = "[Y/n]" if missing.known else "[y/N]"  # a guessed name may be anybody's package
    question = f"{missing.what}\n  {line}\nInstall now? {choice} "
    left = "nothing was installed, and no rank was started"
    if not confirm(question, sys.stdin, interrupted=left):
        return
    words = f"{line.replace('ipexctl install', _OWN, 1)} -y"
    argv = ["sh", "-c", words, "sh", sys.executable, _START]
    if subprocess.run(argv, check=False).returncode:
        missing.hint = line
        raise missing


_OWN = '"$1" -c "$2" install'
# not -m, which would take an ipexctl.py of the project
_START = (
    "import sys; sys.path[:] = filter(None, sys.path); import runpy; "
    "runpy.run_module('ipexctl', run_name='__main__', alter_sys=True)"
)
