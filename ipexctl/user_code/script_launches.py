"""Commands that start ranks, where a script runs them: `ipexctl run` takes their place."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from ipexctl.quick_dataclass import dataclass

LAUNCHERS = frozenset(
    {"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "torchrun", "deepspeed"}
    | {"ipexrun", "horovodrun", "srun", "accelerate launch", "accelerate-launch"}
    | {"fabric run", "fabric run model", "lightning run model"}
)
LAUNCHER_MODULES = frozenset(
    {
        "torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch",
        "deepspeed.launcher.runner", "intel_extension_for_pytorch.cpu.launch",
        "torch.backends.xeon.run_cpu", "horovod.runner.launch",
        "lightning.fabric.cli", "lightning_fabric.cli",
    }
)  # fmt: skip
_ONLY_ASKS = frozenset({"--version", "--help", "-h", "-V", "-version", "-help"})
_PYTHON = re.compile(r"python(\d(\.\d+)?)?")


@dataclass(frozen=True)
class Launch:
    """A command line that starts ranks."""

    name: str  # "mpirun", "accelerate launch", "python -m torch.distributed.run"
    script: tuple[str, ...] = ()  # the Python script that it starts, and the script's arguments


def launch_of(words: Sequence[str], modules: frozenset[str] = LAUNCHER_MODULES) -> Launch | None:
    """None for a command that starts no ranks."""
    if not words or _ONLY_ASKS & set(words):
        return None
    name = posixpath.basename(words[0])
    for count in (3, 2, 1):
        called = " ".join([name, *words[1:count]])
        if called in LAUNCHERS:
            return Launch(called, _script(words[count:]))
    if _PYTHON.fullmatch(name) and "-m" in words[:-1]:
        module = words[list(words).index("-m") + 1]
        if module in modules:
            return Launch(f"{name} -m {module}", _script(words[words.index(module) + 1 :]))
    return None


def _script(words: Sequence[str]) -> tuple[str, ...]:
    start = next((i for i, word in enumerate(words) if word.endswith(".py")), None)
    return () if start is None else tuple(words[start:])
