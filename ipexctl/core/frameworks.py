"""Which training frameworks a script uses, and what it asks of them; read, never run."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

IMPORTED = {
    "accelerate": "accelerate",
    "transformers": "transformers",
    "trl": "transformers",
    "lightning": "lightning",
    "pytorch_lightning": "lightning",
    "lightning_fabric": "lightning",
    "deepspeed": "deepspeed",
    "horovod": "horovod",
}
# a call of any of these says that ranks are meant to work together
GROUP_CALLS = frozenset(
    {"init_process_group", "init_device_mesh", "DistributedDataParallel", "fully_shard",
     "FullyShardedDataParallel", "init_distributed", "PartialState", "Accelerator"}
)  # fmt: skip
_PLUGINS = {"DeepSpeedPlugin": "DeepSpeed", "FullyShardedDataParallelPlugin": "FSDP"}
_KEYWORDS = {"deepspeed": "DeepSpeed", "fsdp": "FSDP"}  # of TrainingArguments, of the command line
_VARIABLES = {"ACCELERATE_USE_DEEPSPEED": "DeepSpeed", "ACCELERATE_USE_FSDP": "FSDP"}
_OFF = frozenset({"", "0", "false", "no", "off", "none"})


@dataclass(frozen=True)
class Frameworks:
    """What the script's own code says. Nothing found is no proof: code can come from elsewhere."""

    used: frozenset[str] = frozenset()  # values of IMPORTED
    sharding: frozenset[str] = frozenset()  # DeepSpeed, FSDP: asked of Accelerate or the Trainer
    grouped: bool = False  # some call in it joins ranks
    trains: bool = False  # some call in it trains a model

    @property
    def means_together(self) -> bool:
        return self.grouped or bool(self.used - {"transformers"})


def of_run(sources: Iterable[str], argv: Sequence[str], env: Mapping[str, str]) -> Frameworks:
    """`argv`: the script and its arguments."""
    used: set[str] = set()
    calls: set[str] = set()
    sharding = set(_asked_by_words(argv)) | {
        what for name, what in _VARIABLES.items() if env.get(name, "").lower() not in _OFF
    }
    for source in sources:
        for node in _nodes(source):
            if isinstance(node, ast.Import):
                used.update(_known(alias.name for alias in node.names))
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                used.update(_known([node.module]))
                names = {alias.name for alias in node.names}
                sharding.update(what for name, what in _PLUGINS.items() if name in names)
            elif isinstance(node, ast.Call):
                calls.add(name := called(node))
                sharding.update(_asked_by_call(name, node))
    trainer = any(name.endswith("Trainer") for name in calls)
    return Frameworks(
        frozenset(used),
        frozenset(sharding),
        grouped=trainer or bool(calls & GROUP_CALLS),
        trains=trainer or bool(calls & {"backward", "fit", "train"}),
    )


def called(node: ast.Call) -> str:
    """The last part of the name of what is called: `dist.barrier()` is `barrier`."""
    target = node.func
    return target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")


def _nodes(source: str) -> Iterator[ast.AST]:
    try:
        yield from ast.walk(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return


def _known(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if found := IMPORTED.get(name.partition(".")[0]):
            yield found


def _asked_by_call(name: str, node: ast.Call) -> Iterator[str]:
    if name in _PLUGINS:
        yield _PLUGINS[name]
    for keyword in node.keywords:
        value = getattr(keyword.value, "value", keyword.value)
        if keyword.arg in _KEYWORDS and not (value is None or value in ("", False)):
            yield _KEYWORDS[keyword.arg]


def _asked_by_words(argv: Sequence[str]) -> Iterator[str]:
    for word, after in zip(argv, [*argv[1:], ""], strict=True):
        name, sign, value = word.partition("=")
        if name.startswith("--") and name[2:] in _KEYWORDS:
            value = value if sign else after
            if value.lower() not in _OFF:
                yield _KEYWORDS[name[2:]]
