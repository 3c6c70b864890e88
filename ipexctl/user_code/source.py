"""Facts about a Python file that matter before its ranks start (source_reader.py reads them)."""

from __future__ import annotations

from ipexctl.quick_dataclass import dataclass
from ipexctl.user_code.script_arguments import ScriptArguments

Value = bool | int | str | None  # of a keyword: None if only the run will know it

SPAWN = "torch.multiprocessing.spawn"
SHARE = "IPEXCTL_SHARE"  # a variable: the rank's part of the global batch
CHECKPOINT = "IPEXCTL_CHECKPOINT"  # a variable: the folder to continue from, after a restart
SHARDING = {"deepspeed": "DeepSpeed", "fsdp": "FSDP"}  # of TrainingArguments, of the command line


@dataclass(frozen=True)
class Import:
    module: str  # dotted; with `level` below the package of the file
    line: int
    sure: bool  # runs whenever the file does, and nothing catches its failure
    level: int = 0
    names: tuple[str, ...] = ()  # from module import names

    @property
    def top(self) -> str:
        return self.module.partition(".")[0]


@dataclass(frozen=True)
class SourceCall:
    """A call of a class of a framework: transformers.TrainingArguments(bf16=True)"""

    target: str  # dotted, as imported
    line: int
    keywords: tuple[tuple[str, Value], ...]
    complete: bool  # no **options: all keywords are known
    sure: bool = True  # it runs whenever the file does


@dataclass(frozen=True)
class Parser:
    """HfArgumentParser((A, B)): reads the script's arguments into these classes."""

    line: int
    classes: tuple[str, ...]


@dataclass(frozen=True)
class HfName:
    name: str
    line: int
    dataset: bool


@dataclass(frozen=True)
class PythonSource:
    """A Python file. `path`: relative to the folder that is sent."""

    path: str
    imports: tuple[Import, ...] = ()
    calls: tuple[SourceCall, ...] = ()
    parsers: tuple[Parser, ...] = ()
    hf_names: tuple[HfName, ...] = ()
    spawns: tuple[int, ...] = ()  # lines that certainly call torch.multiprocessing.spawn
    bases: tuple[tuple[str, str], ...] = ()  # of each class here: its name, and what it extends
    options: frozenset[str] = frozenset()  # options that the file itself defines, without dashes
    written: frozenset[str] = frozenset()  # folders to which it writes models
    changes_path: bool = False  # sys.path: imports may come from anywhere
    changes_argv: bool = False
    arguments: ScriptArguments | None = None  # of the script; None: not certain
    reads_argv: bool = False  # itself, or through a library whose options are not in `options`
    called: frozenset[str] = frozenset()  # the last part of the name of everything it calls
    sharding: frozenset[str] = frozenset()  # DeepSpeed, FSDP: set in Accelerate or the Trainer
    gpu: tuple[tuple[str, int], ...] = ()  # what certainly requests a GPU: its text, the line
    reads: frozenset[str] = frozenset()  # which of the variables above it reads
    own_cuda: bool = False  # a class here has its own method cuda()
    error: tuple[str, int] | None = None  # why the local Python cannot parse it, and the line
