"""What tests of an install on lab hosts share: stand-in wheels of a size, and looking at hosts."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from ipexctl.lab import Lab
from ipexctl.packages.uv import find_uv
from tests.install.conftest import Outcome, Shop, make_wheel

HOLD = "/tmp/hold"  # on a host: while it is there, uv says so in HELD and waits
HELD = "/tmp/held"

# The real program behind a few lines of sh: hosts cannot reach this machine's own.
UV = f"""#!/bin/sh
while [ -e {HOLD} ]; do touch {HELD}; sleep 0.1; done
tail -c +{{skip}} "$0" > "$TMPDIR/uv-itself" && chmod +x "$TMPDIR/uv-itself" || exit 1
"$TMPDIR/uv-itself" "$@"
exit $?
"""


def stock(shop: Shop, *, copied: int = 0, unpacked: int = 0) -> None:
    """`copied`: bytes that no compression helps with; `unpacked`: bytes that are sent as nearly
    nothing."""
    body = UV.format(skip=f"{len(UV.format(skip='00000')) + 1:05}").encode()
    program = body + Path(find_uv(os.environ)).read_bytes()
    make_wheel(shop.wheels, "uv", "0.9.9", {"uv-0.9.9.data/scripts/uv": program})
    files = {"numpy.py": b"", "random": os.urandom(copied), "zeros": bytes(unpacked)}
    make_wheel(shop.wheels, "numpy", "2.0", files)


def start(
    shop: Shop, lab: Lab, *options: str, environ: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    return shop.start(*_words(lab, options), environ=environ)


def install(shop: Shop, lab: Lab, *options: str) -> Outcome:
    """In this process."""
    return shop.install(*_words(lab, options))


def _words(lab: Lab, options: tuple[str, ...]) -> tuple[str, ...]:
    reach = ("--hostfile", str(lab.hostfile), "--ssh-config", str(lab.ssh_config))
    return ("--root", "~/.ipexctl", *reach, *options)


def on(lab: Lab, host: str, script: str) -> str:
    done = lab.run_in(host, ["sh", "-c", script], user="trainer")
    return str(done.stdout.strip())


def current(lab: Lab, host: str, root: str = "$HOME/.ipexctl") -> str:
    """ "absent" or "whole", and anything else in its own words."""
    script = (
        f"cd {root}/current 2>/dev/null || {{ echo absent; exit; }}; test -e .ipexctl-ok && "
        "bin/python -c 'import torch; torch.ones(1, requires_grad=True)' && echo whole"
    )
    return on(lab, host, script)


def running(lab: Lab, host: str) -> str:
    """What of the account's is alive on a host."""
    return str(lab.run_in(host, ["pgrep", "-a", "-u", "trainer"]).stdout.strip())


def part_size(lab: Lab, host: str) -> int:
    """How much of large blobs is on its way."""
    parts = lab.hosts[host].files / ".ipexctl" / "blobs" / "parts"
    try:
        return sum(p.stat().st_size for p in parts.glob("*.part"))
    except OSError:
        return 0
