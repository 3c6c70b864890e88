"""What the user asks of `bench models`: its options."""

from __future__ import annotations

from ipexctl.base.option import Seconds, option
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.plan.run_options import Ports, ports_option

MODELS = ("resnet50", "bert")
PRECISIONS = ("fp32", "bf16", "int8")
USUAL, BRIEF = 300.0, 80.0  # seconds; with --small


@dataclass(frozen=True)
class ModelsOptions:
    models: tuple[str, ...] = option(
        "--models NAMES",
        "Models to measure, for example bert (default: resnet50,bert).",
        MODELS,
        typed=str | None,
        show_default=False,
    )
    precision: tuple[str, ...] = option(
        "--precision NAMES",
        "Precisions to compare with fp32 (default: bf16,int8).",
        PRECISIONS,
        typed=str | None,
        show_default=False,
    )
    small: bool = option(
        "--small", "Smaller images and batches, and two layers of BERT; takes 2 minutes.", False
    )
    time: Seconds | None = option(
        "--time TIME",
        "Time for the measurement; what does not fit is left out (default: 5m; small: 80s).",
        None,
    )
    ports: Ports | None = ports_option()

    root: str = "~/.ipexctl"  # what the command adds

    @property
    def seconds(self) -> float:
        return self.time or (BRIEF if self.small else USUAL)
