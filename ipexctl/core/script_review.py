"""What in a script and its arguments does not fit the hosts, known before the ranks start.

A note says what fails and what to use instead. Where the answer depends on something that only the
run will know, there is no note: a wrong warning is worse than none.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ipexctl.core.code import BINDINGS, IPEX
from ipexctl.core.inventory import fold
from ipexctl.core.script_source import Call, Import, Source

MODEL_OPTIONS = ("--model_name_or_path", "--model", "--tokenizer_name")
DATASET_OPTIONS = ("--dataset_name",)
HUB_VARIABLES = frozenset(
    {"HF_HOME", "HF_HUB_OFFLINE", "HF_HUB_CACHE", "HF_ENDPOINT", "TRANSFORMERS_OFFLINE"}
    | {"TRANSFORMERS_CACHE", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"}
)  # whoever sets one of these has planned where names of a hub come from
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
# load_dataset reads files with these
_BUILDERS = frozenset(
    {"csv", "json", "text", "parquet", "arrow", "imagefolder", "audiofolder", "videofolder"}
    | {"pdffolder", "webdataset", "xml", "pandas", "sql", "spark", "generator", "hdf5", "lance"}
)

_ARGUMENTS = frozenset(
    {
        "transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments",
        "transformers.training_args.TrainingArguments",
        "sentence_transformers.SentenceTransformerTrainingArguments",
    }
)  # fmt: skip
# subclasses of TrainingArguments whose bf16 is True unless fp16 is
_TRL = frozenset(
    f"trl.{name}Config"
    for name in ("SFT", "DPO", "GRPO", "KTO", "Reward", "RLOO", "CPO", "ORPO", "OnlineDPO", "GKD")
)
_FRAMEWORKS = ("transformers.", "trl.", "sentence_transformers.")
_FALSE = frozenset({"no", "false", "f", "n", "0"})
BF16_NEEDS_USE_CPU = (4, 52)  # transformers: from here on bf16 alone asks for a GPU
TRL_BF16 = (0, 19)


@dataclass(frozen=True)
class Removed:
    """An argument of TrainingArguments that is no more."""

    since: tuple[int, int]
    use: str


REMOVED = {
    "use_ipex": Removed(
        (4, 57), "stock PyTorch without it, or an IPEX stack with transformers<4.57"
    ),
    "no_cuda": Removed((5, 0), "{use_cpu}"),
    "jit_mode_eval": Removed((5, 0), "{torch_compile}"),
}
CCL_REMOVED = {"transformers": (5, 1), "accelerate": (1, 13)}


@dataclass(frozen=True)
class Ended:
    """A module that is no longer developed."""

    distributions: tuple[str, ...]
    use: str
    install: str


_BOUND = Ended(
    ("oneccl-bind-pt", "torch-ccl"), 'the backend "gloo"', "ipexctl install --backend ccl"
)
_IPEX = Ended(
    ("intel-extension-for-pytorch",),
    "torch.autocast and torch.compile",
    "ipexctl install --stack ipex",
)
_ENDED = {**dict.fromkeys(BINDINGS, _BOUND), **dict.fromkeys(IPEX, _IPEX)}


@dataclass(frozen=True)
class HostEnvironment:
    """One host, and what its ranks find there. `modules`: with the standard library's;
    None where they are not all known."""

    host: str
    packages: Mapping[str, str]
    modules: frozenset[str] | None = None
    has_route: bool = True  # a default route: it may reach a hub

    def version(self, name: str) -> tuple[int, ...]:
        """() where it is not installed."""
        return tuple(int(n) for n in re.findall(r"\d+", self.packages.get(name, ""))[:2])

    @property
    def for_cpus(self) -> bool:
        """Is its torch a build that uses no GPU?"""
        torch = self.packages.get("torch", "")
        return "+cpu" in torch or not any(name.startswith("nvidia-") for name in self.packages)


@dataclass(frozen=True)
class ProjectFiles:
    """What is sent. `local`: names of models and datasets that are paths of this machine."""

    sent: Collection[str]
    cwd: str = ""
    local: Collection[str] = frozenset()
    variables: Collection[str] = frozenset()  # what the plan sets in the ranks
    parts: frozenset[str] = field(init=False)  # names of files, without .py, and of folders

    def __post_init__(self) -> None:
        parts = (part.partition(".")[0] for path in self.sent for part in path.split("/"))
        object.__setattr__(self, "parts", frozenset(parts))

    def holds(self, name: str) -> bool:
        path = posixpath.normpath(posixpath.join(self.cwd, name))
        return any(p == path or p.startswith(f"{path}/") for p in self.sent)


@dataclass(frozen=True)
class Note:
    place: str  # train.py:12
    text: str
    use: str

    def __str__(self) -> str:
        line = f"{self.place}: {self.text}; use {self.use}"
        return "".join(c if c.isprintable() else "?" for c in line)


@dataclass(frozen=True)
class Review:
    """`sources`: the script, then the project's own modules that it imports."""

    sources: Sequence[Source]
    argv: Sequence[str]  # the script and its arguments
    hosts: Sequence[HostEnvironment]
    files: ProjectFiles

    def notes(self) -> list[str]:
        if not self.hosts:
            return []
        found = [
            *self._arguments(), *self._keywords(), *self._ended_imports(),
            *self._missing_imports(), *self._hub(), *self._launchers(), *self._lone_states(),
        ]  # fmt: skip
        return list(dict.fromkeys(map(str, found)))

    # --- arguments of transformers' Trainer ------------------------------------------------------

    @property
    def _script(self) -> str:
        return self.sources[0].path if self.sources else " ".join(self.argv[:1])

    @property
    def _own_options(self) -> frozenset[str]:
        return frozenset().union(*(source.options for source in self.sources))

    def _target(self, source: Source, name: str) -> str:
        """The framework's class that a class of the file extends, else `name` itself."""
        bases = dict(reversed(source.bases))
        for _ in range(len(bases)):
            if name.startswith(_FRAMEWORKS) or name not in bases:
                break
            name = bases[name]
        return name

    def _parsed(self) -> tuple[str, str]:
        """Where the arguments are read into a framework's class, and the class."""
        for source in self.sources:
            for parser in source.parsers:
                for name in parser.classes:
                    target = self._target(source, name)
                    if target in _ARGUMENTS or target in _TRL:
                        return f"{source.path}:{parser.line}", target
        return "", ""

    def _arguments(self) -> Iterator[Note]:
        place, target = self._parsed()
        if not place:
            return
        given, own = _options(self.argv[1:]), self._own_options
        for name, value in given.items():
            if name in own:
                continue
            use_cpu = _is_true(given.get("use_cpu", "false"))
            for text, use in self._removed(name, value, as_keyword=False, use_cpu=use_cpu):
                yield Note(self._script, text, use)
        if not (own & {"bf16", "use_cpu"} or any(s.changes_argv for s in self.sources)):
            yield from self._bf16_argument(place, target, given)

    def _bf16_argument(self, place: str, target: str, given: Mapping[str, str]) -> Iterator[Note]:
        name = posixpath.splitext(self._script)[0]
        from_file = any(p.endswith((".json", ".yaml", ".yml")) for p in self.argv[1:])
        if from_file or f"{name}.args" in self.files.sent or not self._refuses_bf16():
            return
        words = {key: _is_true(value) for key, value in given.items()}
        if words.get("use_cpu", False) or (words.get("no_cuda") and self._before((5, 0))):
            return
        if words.get("bf16") or words.get("bf16_full_eval"):
            option = "--bf16" if words.get("bf16") else "--bf16_full_eval"
            text = f"{option} without --use_cpu requires a GPU in transformers"
            yield Note(self._script, text, f"{option} --use_cpu")
        elif target in _TRL and self._defaults_to_bf16() and not {"bf16", "fp16"} & words.keys():
            text = f"{_last(target)} sets bf16 by default, which requires a GPU without use_cpu"
            yield Note(place, text, "the argument --use_cpu")

    def _keywords(self) -> Iterator[Note]:
        own = self._own_options
        for source in self.sources:
            for call in source.calls:
                target = self._target(source, call.target)
                if target in _ARGUMENTS or target in _TRL:
                    yield from self._call(source, call, target, own)

    def _call(self, source: Source, call: Call, target: str, own: frozenset[str]) -> Iterator[Note]:
        place, known = f"{source.path}:{call.line}", dict(call.keywords)
        for name, value in known.items():
            if name in own and not call.target.startswith(_FRAMEWORKS):
                continue
            word = value if isinstance(value, str) else "true"
            use_cpu = known.get("use_cpu") is True
            for text, use in self._removed(name, word, as_keyword=True, use_cpu=use_cpu):
                yield Note(place, text, use)
        if {"use_cpu", "no_cuda"} & known.keys() or not call.complete or not self._refuses_bf16():
            return
        if known.get("bf16") is True or known.get("bf16_full_eval") is True:
            text = "bf16=True without use_cpu=True requires a GPU in transformers"
            yield Note(place, text, f"{_last(target)}(..., bf16=True, use_cpu=True)")
        elif target in _TRL and self._defaults_to_bf16() and not {"bf16", "fp16"} & known.keys():
            text = f"{_last(target)} sets bf16 by default, which requires a GPU without use_cpu"
            yield Note(place, text, f"{_last(target)}(..., use_cpu=True)")

    def _removed(
        self, name: str, value: str, *, as_keyword: bool, use_cpu: bool
    ) -> Iterator[tuple[str, str]]:
        written = name if as_keyword else f"--{name}"
        if (gone := REMOVED.get(name)) and self._since({"transformers": gone.since}):
            words = {
                "use_cpu": "use_cpu=True" if as_keyword else "--use_cpu",
                "torch_compile": "torch_compile=True" if as_keyword else "--torch_compile",
            }
            if name == "no_cuda" and use_cpu:
                words["use_cpu"] += " alone"
            version = ".".join(map(str, gone.since))
            have = self.hosts[0].packages.get("transformers", "")
            text = f"{written} was removed in transformers {version}, the hosts have {have}"
            yield text, gone.use.format(**words)
        elif name == "ddp_backend" and value == "ccl" and (why := self._since(CCL_REMOVED)):
            ccl = 'ddp_backend="ccl"' if as_keyword else "--ddp_backend ccl"
            gloo = 'ddp_backend="gloo"' if as_keyword else "--ddp_backend gloo"
            yield f"{ccl} was removed in {why}", gloo

    def _since(self, versions: Mapping[str, tuple[int, int]]) -> str:
        """The first package that every host has from such a version on, with that version."""
        for name, version in versions.items():
            if all(host.version(name) >= version for host in self.hosts):
                return f"{name} {version[0]}.{version[1]}"
        return ""

    def _before(self, version: tuple[int, int]) -> bool:
        return all(() < host.version("transformers") < version for host in self.hosts)

    def _refuses_bf16(self) -> bool:
        new = self._since({"transformers": BF16_NEEDS_USE_CPU})
        return bool(new) and all(host.for_cpus for host in self.hosts)

    def _defaults_to_bf16(self) -> bool:
        return bool(self._since({"trl": TRL_BF16}))

    def _lone_states(self) -> Iterator[Note]:
        """An Accelerator or a Trainer made before would share its state."""
        called = frozenset[str]().union(*(source.called for source in self.sources))
        shared = "Accelerator" in called or any(name.endswith("Trainer") for name in called)
        if shared or not all(host.for_cpus for host in self.hosts):
            return
        for source in self.sources:
            for call in source.calls:
                state = call.target in ("accelerate.PartialState", "accelerate.state.PartialState")
                if state and call.complete and "cpu" not in dict(call.keywords):
                    text = "PartialState() leaves every rank alone on CPUs"
                    yield Note(f"{source.path}:{call.line}", text, "PartialState(cpu=True)")

    # --- imports ---------------------------------------------------------------------------------

    def _ended_imports(self) -> Iterator[Note]:
        for source, one in self._certain_imports():
            if (ended := _ENDED.get(one.top)) is None or one.top in self.files.parts:
                continue
            if lack := self._lack(ended.distributions):
                text = f"{one.top} is discontinued and not installed on {lack}"
                use = f"{ended.use}, or install it with `{ended.install}`"
                yield Note(f"{source.path}:{one.line}", text, use)

    def _lack(self, names: Iterable[str]) -> str:
        """The hosts whose environment is known and has none of these distributions."""
        return fold(
            [h.host for h in self.hosts if h.modules is not None and not {*names} & {*h.packages}]
        )

    def _missing_imports(self) -> Iterator[Note]:
        told = self.files.parts | _ENDED.keys()
        for source, one in self._certain_imports():
            lack = [
                h.host for h in self.hosts if h.modules is not None and one.top not in h.modules
            ]
            if lack and one.top not in told:
                told |= {one.top}
                text = f"module {one.top} is not installed on {fold(lack)}"
                use = f"`ipexctl install -r {self._requirements()}` with the package that has it"
                yield Note(f"{source.path}:{one.line}", text, use)

    def _requirements(self) -> str:
        found = ("requirements.txt", "pyproject.toml")
        return next((name for name in found if name in self.files.sent), found[0])

    def _certain_imports(self) -> Iterator[tuple[Source, Import]]:
        """Those that fail the script if they fail, and are looked for in the environment."""
        if any(s.changes_path for s in self.sources) or "PYTHONPATH" in self.files.variables:
            return
        for source in self.sources:
            yield from ((source, one) for one in source.imports if one.sure and not one.level)

    # --- models and datasets ---------------------------------------------------------------------

    def _hub(self) -> Iterator[Note]:
        alone = [host.host for host in self.hosts if not host.has_route]
        planned = HUB_VARIABLES & {*self.files.variables}
        for place, name, dataset in self.named():
            if self._is_written(name):
                continue
            kind = "dataset" if dataset else "model"
            if name in self.files.local:
                if not self.files.holds(name):
                    yield Note(
                        place,
                        f"{name} is on this machine and is not sent to the hosts",
                        f"`ipexctl data push {name} --as {kind}`, run with --data {kind}, and load "
                        f"it from $IPEXCTL_DATA_{kind.upper()}",
                    )
            elif alone and not planned and _HUB_ID.fullmatch(name):
                yield Note(
                    place,
                    f"{kind} {name} is not sent, and {fold(alone)} has no default route to "
                    "download it",
                    "`ipexctl data push ~/.cache/huggingface/hub --as hub` and run with --data hub",
                )

    def _is_written(self, name: str) -> bool:
        """Is it below a folder that the script itself writes?"""
        folders = (folder for source in self.sources for folder in source.written)
        return any(name == folder or name.startswith(f"{folder}/") for folder in folders)

    def named(self) -> Iterator[tuple[str, str, bool]]:
        """(place, name, is it a dataset) of each model and dataset that is loaded by its name."""
        given = _options(self.argv[1:])
        for options, dataset in ((MODEL_OPTIONS, False), (DATASET_OPTIONS, True)):
            for option in options:
                if name := given.get(option[2:], ""):
                    yield self._script, name, dataset
        for source in self.sources:
            for one in source.hub_names:
                if not (one.dataset and one.name in _BUILDERS):
                    yield f"{source.path}:{one.line}", one.name, one.dataset

    # --- launchers -------------------------------------------------------------------------------

    def _launchers(self) -> Iterator[Note]:
        for source in self.sources:
            for launch, line in source.launches:
                script = launch.script[0] if launch.script else "SCRIPT"
                if any(c in script for c in "?{} "):
                    script = "SCRIPT"
                yield Note(
                    f"{source.path}:{line}",
                    f"{launch.name} here starts further ranks in every rank",
                    f"`ipexctl run {script}` in its place",
                )


def _options(words: Sequence[str]) -> dict[str, str]:
    """--some-name value, --some_name=value -> {"some_name": "value"}; "" where none follows."""
    found: dict[str, str] = {}
    for i, word in enumerate(words):
        if not word.startswith("--") or word == "--":
            continue
        name, sign, value = word[2:].partition("=")
        following = words[i + 1] if i + 1 < len(words) else ""
        if not sign and not following.startswith("--"):
            value = following
        found[name.replace("-", "_")] = value
    return found


def _is_true(value: str) -> bool:
    """As transformers reads a switch: --bf16, --bf16 True."""
    return value.lower() not in _FALSE


def _last(target: str) -> str:
    return target.rpartition(".")[2]
