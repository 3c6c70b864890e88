"""The training frameworks that a script uses, and what it asks of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ipexctl.quick_dataclass import dataclass
from ipexctl.user_code.source import SHARDING, PythonSource

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
# calling one of these means that the ranks work together
GROUP_CALLS = frozenset(
    {
        "init_process_group",
        "init_device_mesh",
        "DistributedDataParallel",
        "fully_shard",
        "FullyShardedDataParallel",
        "init_distributed",
        "PartialState",
        "Accelerator",
    }
)
# those that exchange gradients themselves: the last part of the called name
SHARD_CALLS = {
    "fully_shard": "FSDP",
    "FullyShardedDataParallel": "FSDP",
    "FSDPStrategy": "FSDP",
    "DeepSpeedStrategy": "DeepSpeed",
}
WRAP = frozenset({"accelerate", "transformers", "lightning"})  # wrap models in DDP by default
_OFF = frozenset({"", "0", "false", "no", "off", "none"})


@dataclass(frozen=True)
class Frameworks:
    """Frameworks that the script's own code uses; imported files may use others."""

    used: frozenset[str] = frozenset()  # values of IMPORTED
    sharding: frozenset[str] = frozenset()  # DeepSpeed, FSDP: set in Accelerate or the Trainer
    instead_of_ddp: frozenset[str] = frozenset()  # DeepSpeed, FSDP: exchanges the gradients
    ddp: bool = False  # the gradients go through DistributedDataParallel
    grouped: bool = False  # some call in it joins ranks
    trains: bool = False  # some call in it trains a model

    @property
    def joins(self) -> bool:
        return self.grouped or bool(self.used - {"transformers"})


def of_run(
    sources: Iterable[PythonSource], argv: Sequence[str], env: Mapping[str, str]
) -> Frameworks:
    """Return the frameworks of a run. `argv`: the script and its arguments."""
    sources = list(sources)
    frameworks = {IMPORTED[use.top] for s in sources for use in s.imports if use.top in IMPORTED}
    called_names = frozenset[str]().union(*(source.called for source in sources))
    requested = frozenset[str]().union(*(source.sharding for source in sources))
    trainer = any(name.endswith("Trainer") for name in called_names)
    requested |= {*_asked_by_words(argv), *_asked_by_variables(env)}
    direct = {*_called_by_itself(called_names, frameworks), *_lightning_strategies(sources)}
    wrapped = "DistributedDataParallel" in called_names
    sharding = frozenset[str]() if wrapped else requested | direct
    return Frameworks(
        frozenset(frameworks),
        requested,
        sharding,
        ddp=wrapped or (bool(frameworks & WRAP) and not sharding),
        grouped=trainer or bool(called_names & GROUP_CALLS),
        trains=trainer or bool(called_names & {"backward", "fit", "train"}),
    )


def _called_by_itself(names: Collection[str], frameworks: Collection[str]) -> Iterator[str]:
    yield from (strategy for name, strategy in SHARD_CALLS.items() if name in names)
    if "deepspeed" in frameworks and "initialize" in names:
        yield "DeepSpeed"


def _lightning_strategies(sources: Iterable[PythonSource]) -> Iterator[str]:
    """Yield the strategies of Lightning's Trainer and Fabric."""
    for call in (call for source in sources for call in source.calls):
        value = str(dict(call.keywords).get("strategy", ""))
        yield from (strategy for name, strategy in SHARDING.items() if value.startswith(name))


def _asked_by_words(argv: Sequence[str]) -> Iterator[str]:
    for word, following in zip(argv, [*argv[1:], ""], strict=True):
        name, sign, value = word.partition("=")
        if name.startswith("--") and name[2:] in SHARDING:
            value = value if sign else following
            if value.lower() not in _OFF:
                yield SHARDING[name[2:]]


def _asked_by_variables(env: Mapping[str, str]) -> Iterator[str]:
    for strategy in sorted(set(SHARDING.values())):
        if env.get(f"ACCELERATE_USE_{strategy.upper()}", "").lower() not in _OFF:
            yield strategy


TRAINER_ARGUMENTS = frozenset(
    {
        "transformers.TrainingArguments",
        "transformers.Seq2SeqTrainingArguments",
        "transformers.training_args.TrainingArguments",
        "sentence_transformers.SentenceTransformerTrainingArguments",
    }
)

# subclasses of TrainingArguments with bf16=True unless fp16 is set
TRL_CONFIGS = frozenset(
    f"trl.{name}Config"
    for name in ("SFT", "DPO", "GRPO", "KTO", "Reward", "RLOO", "CPO", "ORPO", "OnlineDPO", "GKD")
)

FRAMEWORK_MODULES = ("transformers.", "trl.", "sentence_transformers.")


def framework_class(bases: Iterable[tuple[str, str]], name: str) -> str:
    """Return the framework's class that a class of the file extends, else `name` itself."""
    base_of = dict(reversed(list(bases)))
    for _ in range(len(base_of)):
        if name.startswith(FRAMEWORK_MODULES) or name not in base_of:
            break
        name = base_of[name]
    return name


def is_trainer_arguments(target: str) -> bool:
    return target in TRAINER_ARGUMENTS or target in TRL_CONFIGS
