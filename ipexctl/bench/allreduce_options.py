"""What the user asks of `bench allreduce`: its options."""

from __future__ import annotations

from ipexctl.base.option import Seconds, option
from ipexctl.local.run_options import Ports, ports_option
from ipexctl.quick_dataclass import dataclass

LARGEST = 256 << 20  # bytes


@dataclass(frozen=True)
class AllreduceOptions:
    backend: str = option("--backend NAME", "Backend of torch.distributed: gloo or ccl.", "gloo")
    max_size: int = option(
        "--max-size SIZE",
        "Largest message: 64k, 16M (default: 256M).",
        LARGEST,
        typed=str | None,
        show_default=False,
    )
    seconds: Seconds = option(
        "--time TIME",
        "Time for the measurement; sizes that do not fit are left out (default: 20s).",
        Seconds(20),
        show_default=False,
    )
    ppn: int = option(
        "--ppn --nproc-per-node N", "Number of ranks per host.", 1, group="Ranks", least=1
    )
    ports: Ports | None = ports_option()

    root: str = "~/.ipexctl"  # set by the command
