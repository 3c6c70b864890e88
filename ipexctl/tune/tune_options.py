"""What the user asks of `tune`: its own options, and those of `run` that a trial has too."""

from __future__ import annotations

import dataclasses
import typing
from typing import TYPE_CHECKING, Any

from ipexctl.base.option import Seconds, option
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.plan.run_options import RunOptions

OF_RUN = (
    "script", "args", "n", "ppn", "module", "env", "accelerate", "secret_env", "compress", "data",
    "force", "no_sync", "ports",
)  # fmt: skip


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


if TYPE_CHECKING:
    TrialOptions = RunOptions
else:

    def _part_of_run() -> Any:
        hints = typing.get_type_hints(RunOptions)
        fields = [f for f in dataclasses.fields(RunOptions) if f.name in OF_RUN]
        made = []
        for f in fields:
            kept = {"metadata": f.metadata, "repr": f.repr}
            if f.default is not dataclasses.MISSING:
                kept["default"] = f.default
            if f.default_factory is not dataclasses.MISSING:
                kept["default_factory"] = f.default_factory
            made.append((f.name, hints[f.name], dataclasses.field(**kept)))
        return dataclasses.make_dataclass("TrialOptions", made, frozen=True)

    TrialOptions = _part_of_run()


def run_options(part: TrialOptions, **more: Any) -> RunOptions:
    given = {f.name: getattr(part, f.name) for f in dataclasses.fields(part)}
    return RunOptions(**{**given, **more})
