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
    {"init_process_group", "init_device_mesh", "DistributedDataParallel", "fully_shard",
     "FullyShardedDataParallel", "init_distributed", "PartialState", "Accelerator"}
)  # fmt: skip
# those that exchange gradients themselves: the last part of the called name
SHARD_CALLS = {"fully_shard": "FSDP", "FullyShardedDataParallel": "FSDP", "FSDPStrategy": "FSDP",
               "DeepSpeedStrategy": "DeepSpeed"}  # fmt: skip
WRAP = frozenset({"accelerate", "transformers", "lightning"})  # wrap models in DDP by default
_OFF = frozenset({"", "0", "false", "no", "off", "none"})


@dataclass(frozen=True)
class Frameworks:
    """What the script's own code uses. It may use more: code can come from elsewhere."""

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
    used = {IMPORTED[one.top] for s in sources for one in s.imports if one.top in IMPORTED}
    called = frozenset[str]().union(*(source.called for source in sources))
    asked = frozenset[str]().union(*(source.sharding for source in sources))
    trainer = any(name.endswith("Trainer") for name in called)
    asked |= {*_asked_by_words(argv), *_asked_by_variables(env)}
    own = {*_called_by_itself(called, used), *_lightning_strategies(sources)}
    wrapped = "DistributedDataParallel" in called
    instead = frozenset[str]() if wrapped else asked | own
    return Frameworks(
        frozenset(used),
        asked,
        instead,
        ddp=wrapped or (bool(used & WRAP) and not instead),
        grouped=trainer or bool(called & GROUP_CALLS),
        trains=trainer or bool(called & {"backward", "fit", "train"}),
    )


def _called_by_itself(called: Collection[str], used: Collection[str]) -> Iterator[str]:
    yield from (what for name, what in SHARD_CALLS.items() if name in called)
    if "deepspeed" in used and "initialize" in called:
        yield "DeepSpeed"


def _lightning_strategies(sources: Iterable[PythonSource]) -> Iterator[str]:
    """Yield the strategies of Lightning's Trainer and Fabric."""
    for call in (call for source in sources for call in source.calls):
        value = str(dict(call.keywords).get("strategy", ""))
        yield from (what for name, what in SHARDING.items() if value.startswith(name))


def _asked_by_words(argv: Sequence[str]) -> Iterator[str]:
    for word, after in zip(argv, [*argv[1:], ""], strict=True):
        name, sign, value = word.partition("=")
        if name.startswith("--") and name[2:] in SHARDING:
            value = value if sign else after
            if value.lower() not in _OFF:
                yield SHARDING[name[2:]]


def _asked_by_variables(env: Mapping[str, str]) -> Iterator[str]:
    for what in sorted(set(SHARDING.values())):
        if env.get(f"ACCELERATE_USE_{what.upper()}", "").lower() not in _OFF:
            yield what


TRAINER_ARGUMENTS = frozenset(
    {
        "transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments",
        "transformers.training_args.TrainingArguments",
        "sentence_transformers.SentenceTransformerTrainingArguments",
    }
)  # fmt: skip

# subclasses of TrainingArguments with bf16=True unless fp16 is set
TRL_CONFIGS = frozenset(
    f"trl.{name}Config"
    for name in ("SFT", "DPO", "GRPO", "KTO", "Reward", "RLOO", "CPO", "ORPO", "OnlineDPO", "GKD")
)

FRAMEWORK_MODULES = ("transformers.", "trl.", "sentence_transformers.")


def framework_class(bases: Iterable[tuple[str, str]], name: str) -> str:
    """Return the framework's class that a class of the file extends, else `name` itself."""
    known = dict(reversed(list(bases)))
    for _ in range(len(known)):
        if name.startswith(FRAMEWORK_MODULES) or name not in known:
            break
        name = known[name]
    return name


def is_trainer_arguments(target: str) -> bool:
    return target in TRAINER_ARGUMENTS or target in TRL_CONFIGS
