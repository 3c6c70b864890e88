"""What the user asks of `tune`: its own options, and those of `run` that a trial has too."""

from __future__ import annotations

from ipexctl.base.option import Seconds, option
from ipexctl.quick_dataclass import dataclass

OF_RUN = (
    "script",
    "args",
    "n",
    "ppn",
    "module",
    "env",
    "accelerate",
    "secret_env",
    "compress",
    "data",
    "force",
    "no_sync",
    "ports",
)


@dataclass(frozen=True)
class TuneOptions:
    budget: Seconds = option(
        "--budget TIME",
        "Time for all trials (default: 6m).",
        Seconds(360),
        least=20,
        show_default=False,
    )
    allow: tuple[str, ...] = option(
        "--allow NAME",
        "Also try what changes training: batch (ranks per host), numerics (compression).",
        (),
    )
    yes: bool = option(
        "-y --yes", "Write ipexctl.toml, and copy a large project folder, without asking.", False
    )
