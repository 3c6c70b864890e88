"""--compress: gradients of DistributedDataParallel cross the network in half precision.

ipexctl/in_ranks/half_gradients.py does it in the ranks; here is what is known before they start.
"""

from __future__ import annotations

from collections.abc import Iterator

from ipexctl.errors import InputError, unknown_value
from ipexctl.run.plan.launch import LaunchPlan
from ipexctl.user_code.frameworks import Frameworks

OFF = "off"
MODES = (OFF, "fp16", "bf16")
MODULE = "half_gradients"


def check_mode(mode: str) -> None:
    if mode not in MODES:
        raise unknown_value("--compress", mode, MODES)


def check_script(mode: str, used: Frameworks | None, *, force: bool) -> tuple[str, ...]:
    """Raises InputError if the script has no gradients that DDP exchanges; with `force`, a note."""
    if mode == OFF or not used or not used.instead_of_ddp:
        return ()
    what = " and ".join(sorted(used.instead_of_ddp))
    why = f"the script uses {what}, and only gradients of DistributedDataParallel are compressed"
    if force:
        return (f"--compress {mode}: {why}",)
    raise InputError(
        f"--compress {mode} has no effect with {what}",
        why=why,
        hint="leave out --compress, or --force to start anyway",
        slug="compress-needs-ddp",
    )


def notes(mode: str, plan: LaunchPlan) -> Iterator[str]:
    if mode != OFF and plan.world_size == 1:
        yield f"--compress {mode} has no effect: a single rank exchanges no gradients"
