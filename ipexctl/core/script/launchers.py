"""Commands that start ranks: `ipexctl run` takes their place, in a script and as its argument."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ipexctl.core.run import retry_command
from ipexctl.core.run.retry_command import Typed
from ipexctl.errors import InputError

LAUNCHERS = frozenset(
    {"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "torchrun", "deepspeed"}
    | {"ipexrun", "horovodrun"}
)
LAUNCHER_MODULES = frozenset(
    {
        "torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch",
        "deepspeed.launcher.runner", "intel_extension_for_pytorch.cpu.launch",
        "torch.backends.xeon.run_cpu", "horovod.runner.launch",
    }
)  # fmt: skip
_ONLY_ASKS = frozenset({"--version", "--help", "-h", "-V", "-version", "-help"})
_RANKS = frozenset({"-n", "-np", "--np", "-ppn", "--ppn", "--nproc-per-node", "--nproc_per_node"})
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
    if name in LAUNCHERS:
        return Launch(name, _script(words[1:]))
    if name == "accelerate" and words[1:2] == ["launch"]:
        return Launch("accelerate launch", _script(words[2:]))
    if _PYTHON.fullmatch(name) and "-m" in words[:-1]:
        module = words[list(words).index("-m") + 1]
        if module in modules:
            return Launch(f"{name} -m {module}", _script(words[words.index(module) + 1 :]))
    return None


def _script(words: Sequence[str]) -> tuple[str, ...]:
    start = next((i for i, word in enumerate(words) if word.endswith(".py")), None)
    return () if start is None else tuple(words[start:])


def refuse_launcher(
    script: str, args: Sequence[str], *, module: bool, options: Sequence[str] = ("run",)
) -> None:
    """Raises InputError where `ipexctl run` was given a launcher in place of a script. `options`:
    what was typed before it."""
    words = ["python", "-m", script, *args] if module else [script, *args]
    found = launch_of(words)
    if found and module:
        what = f"{script} is a launcher"
    elif found:
        what = f"{found.name} is a launcher, not a Python script"
    elif not module and _PYTHON.fullmatch(posixpath.basename(script)):
        found = Launch(script, _script(args))
        what = f"{script} is the Python interpreter, not a script"
    else:
        return
    typed = [word for word in options if word not in ("-m", "--")] or ["run"]
    counted = _PYTHON.fullmatch(posixpath.basename(found.name)) or _RANKS.intersection(typed)
    again = Typed((*typed, *(() if counted else ("-n", "RANKS"))), found.script or ("SCRIPT",))
    raise InputError(
        what,
        why="ipexctl run starts Python and the ranks on every host itself",
        hint=retry_command.command(again, (), None),
    )
