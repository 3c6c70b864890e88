"""Find what in a script and its arguments does not fit the hosts, before the ranks start.

A note says what fails and what to use instead. If the answer depends on something that only the
run will know, there is no note: a wrong warning is worse than none.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ipexctl.base import quoting
from ipexctl.base.located_errors import ask_if_meant
from ipexctl.base.retry_command import FORCE
from ipexctl.errors import InputError
from ipexctl.inventory.hostfile_text import fold
from ipexctl.project.files.dataset_names import data_name
from ipexctl.project.files.missing_file import DISTRIBUTIONS, SAME_NAME, find_meant_module
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.script.context import HostEnvironment, LocalPath, ProjectFiles, ScriptNote
from ipexctl.user_code.frameworks import (
    FRAMEWORK_MODULES,
    TRL_CONFIGS,
    framework_class,
    is_trainer_arguments,
)
from ipexctl.user_code.migration_rules import Rule, Rules
from ipexctl.user_code.source import SPAWN, Import, PythonSource, SourceCall, Value

MODEL_OPTIONS = ("--model_name_or_path", "--model", "--tokenizer_name")
DATASET_OPTIONS = ("--dataset_name",)
HUB_VARIABLES = frozenset(
    {"HF_HOME", "HF_HUB_OFFLINE", "HF_HUB_CACHE", "HF_ENDPOINT", "TRANSFORMERS_OFFLINE"}
    | {"TRANSFORMERS_CACHE", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"}
)  # a user who sets one of these has decided where models and datasets come from
# modules that read the options above as names on the Hugging Face Hub
_HUB_READERS = frozenset(
    {"transformers", "trl", "datasets", "diffusers", "sentence_transformers", "huggingface_hub"}
    | {"peft", "optimum", "vllm", "llamafactory"}
)
# modules with their own model names: --model resnet18
_OWN_MODELS = frozenset({"timm", "torchvision", "open_clip"})
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
# suffixes of files that load_dataset reads
_BUILDERS = frozenset(
    {"csv", "json", "text", "parquet", "arrow", "imagefolder", "audiofolder", "videofolder"}
    | {"pdffolder", "webdataset", "xml", "pandas", "sql", "spark", "generator", "hdf5", "lance"}
)

_PRECISIONS = frozenset({"bf16", "fp16"})
_FALSE = frozenset({"no", "false", "f", "n", "0"})
_LIGHTNING = frozenset(
    {"lightning.Trainer", "lightning.pytorch.Trainer", "pytorch_lightning.Trainer"}
    | {"lightning.Fabric", "lightning.fabric.Fabric", "lightning_fabric.Fabric"}
)
BF16_NEEDS_USE_CPU = (4, 52)  # transformers: from this version on, bf16 without use_cpu needs a GPU
TRL_BF16 = (0, 19)


@dataclass(frozen=True)
class Review:
    """The review of a script. `sources`: the script, then the project's modules that it imports."""

    sources: Sequence[PythonSource]
    argv: Sequence[str]  # the script and its arguments
    hosts: Sequence[HostEnvironment]
    files: ProjectFiles
    rules: Rules
    ranks_per_host: int = 0  # 0: it differs between hosts

    def notes(self) -> list[str]:
        if not self.hosts:
            return []
        notes = [
            *map(self._unreadable_note, self._syntax_errors),
            *self._argument_notes(),
            *self._keyword_notes(),
            *Imports(self.sources, self.hosts, self.files, self.rules).notes(),
            *self._hf_notes(),
            *self._spawn_notes(),
            *self._lightning_notes(),
            *self._gpu_notes(),
        ]
        return list(dict.fromkeys(map(str, notes)))

    @property
    def _syntax_errors(self) -> list[tuple[str, str, int]]:
        return [(source.path, *source.error) for source in self.sources if source.error]

    def _unreadable_note(self, error: tuple[str, str, int]) -> ScriptNote:
        path, why, line = error
        version = ".".join(map(str, sys.version_info[:2]))
        return ScriptNote(
            f"{path}:{line}", f"Python {version} of this machine cannot read it: {why}"
        )

    def check_syntax(self) -> None:
        """Raise InputError for what no host can parse: a newer Python there may accept more."""
        if self._syntax_errors and not any(
            host.python > sys.version_info[:2] for host in self.hosts
        ):
            path, why, line = self._syntax_errors[0]
            raise InputError(
                str(ScriptNote(f"{path}:{line}", f"SyntaxError: {why}")),
                why="every rank would end with this error",
                hint=f"correct line {line} of {path}\n{FORCE}",
                slug="script-syntax",
            )

    # --- arguments of transformers' Trainer ------------------------------------------------------

    @property
    def _script_path(self) -> str:
        return self.sources[0].path if self.sources else " ".join(self.argv[:1])

    @property
    def _own_options(self) -> frozenset[str]:
        return frozenset().union(*(source.options for source in self.sources))

    def _find_argument_parser(self) -> tuple[str, str]:
        """Return where the arguments are parsed into a framework's class, and the class."""
        for source in self.sources:
            for parser in source.parsers:
                for name in parser.classes:
                    target = framework_class(source.bases, name)
                    if is_trainer_arguments(target):
                        return f"{source.path}:{parser.line}", target
        return "", ""

    def _argument_notes(self) -> Iterator[ScriptNote]:
        """Note removed or GPU-only arguments of transformers' Trainer on the command line."""
        place, target = self._find_argument_parser()
        if not place:
            return
        options, own_options = _parse_options(self.argv[1:]), self._own_options
        for name, value in options.items():
            if name in own_options:
                continue
            use_cpu = _is_true(options.get("use_cpu", "false"))
            for text, use in self._removed_arguments(
                name, value, as_keyword=False, use_cpu=use_cpu
            ):
                yield ScriptNote(self._script_path, text, use)
        if not (own_options & {"bf16", "use_cpu"} or any(s.changes_argv for s in self.sources)):
            yield from self._bf16_argument_notes(place, target, options)

    def _bf16_argument_notes(
        self, place: str, target: str, options: Mapping[str, str]
    ) -> Iterator[ScriptNote]:
        name = posixpath.splitext(self._script_path)[0]
        from_file = any(word.endswith((".json", ".yaml", ".yml")) for word in self.argv[1:])
        if from_file or f"{name}.args" in self.files.sent or not self._refuses_bf16():
            return
        words = {key: _is_true(value) for key, value in options.items()}
        if words.get("use_cpu", False) or (
            words.get("no_cuda") and self._is_transformers_before((5, 0))
        ):
            return
        if words.get("bf16") or words.get("bf16_full_eval"):
            option = "--bf16" if words.get("bf16") else "--bf16_full_eval"
            text = f"{option} without --use_cpu requires a GPU in transformers"
            yield ScriptNote(self._script_path, text, f"{option} --use_cpu")
        elif self._is_bf16_by_default(target) and not _PRECISIONS & words.keys():
            text = (
                f"{_last_name(target)} sets bf16 by default, which requires a GPU without use_cpu"
            )
            yield ScriptNote(place, text, "the argument --use_cpu")

    def _keyword_notes(self) -> Iterator[ScriptNote]:
        own_options = self._own_options
        for source in self.sources:
            for call in source.calls:
                target = framework_class(source.bases, call.target)
                if is_trainer_arguments(target):
                    yield from self._call_notes(source, call, target, own_options)

    def _call_notes(
        self, source: PythonSource, call: SourceCall, target: str, own_options: frozenset[str]
    ) -> Iterator[ScriptNote]:
        """Note removed or GPU-only keywords in a call that creates a framework's arguments."""
        place, kwargs = f"{source.path}:{call.line}", dict(call.keywords)
        for name, value in kwargs.items():
            if name in own_options and not call.target.startswith(FRAMEWORK_MODULES):
                continue
            word = value if isinstance(value, str) else "true"
            use_cpu = kwargs.get("use_cpu") is True
            for text, use in self._removed_arguments(name, word, as_keyword=True, use_cpu=use_cpu):
                yield ScriptNote(place, text, use)
        if {"use_cpu", "no_cuda"} & kwargs.keys() or not call.complete or not self._refuses_bf16():
            return
        if kwargs.get("bf16") is True or kwargs.get("bf16_full_eval") is True:
            text = "bf16=True without use_cpu=True requires a GPU in transformers"
            yield ScriptNote(place, text, f"{_last_name(target)}(..., bf16=True, use_cpu=True)")
        elif self._is_bf16_by_default(target) and not _PRECISIONS & kwargs.keys():
            text = (
                f"{_last_name(target)} sets bf16 by default, which requires a GPU without use_cpu"
            )
            yield ScriptNote(place, text, f"{_last_name(target)}(..., use_cpu=True)")

    def _removed_arguments(
        self, name: str, value: str, *, as_keyword: bool, use_cpu: bool
    ) -> Iterator[tuple[str, str]]:
        rule = self.rules.find_argument(name, value)
        since = self._find_common_version(rule.first_versions()) if rule else ""
        if not rule or not since:
            return
        written = name if as_keyword else f"--{name}"
        if rule.value:
            written = f'{name}="{value}"' if as_keyword else f"--{name} {value}"
        use = rule.keyword if as_keyword and rule.keyword else rule.use
        if rule.use == "--use_cpu" and use_cpu:
            use += " alone"
        installed = self.hosts[0].packages.get(since.partition(" ")[0], "")
        yield f"{rule.describe_use(written, since)}, the hosts have {installed}", use

    def _find_common_version(self, versions: Mapping[str, tuple[int, ...]]) -> str:
        """Return the first package that every host has in such a version or later, with it."""
        for name, version in versions.items():
            if all(host.version(name) >= version for host in self.hosts):
                return f"{name} {'.'.join(map(str, version))}"
        return ""

    def _is_transformers_before(self, version: tuple[int, int]) -> bool:
        return all(() < host.version("transformers") < version for host in self.hosts)

    def _refuses_bf16(self) -> bool:
        since = self._find_common_version({"transformers": BF16_NEEDS_USE_CPU})
        return bool(since) and all(host.is_cpu_only for host in self.hosts)

    def _is_bf16_by_default(self, target: str) -> bool:
        return target in TRL_CONFIGS and bool(self._find_common_version({"trl": TRL_BF16}))

    def _lightning_notes(self) -> Iterator[ScriptNote]:
        """Note Lightning's defaults: on CPUs, the Trainer uses one rank on one host. Fabric takes
        LT_DEVICES and LT_NUM_NODES, which every rank has."""
        hosts, per_host = len(self.hosts), self.ranks_per_host
        if (
            not per_host
            or hosts * per_host == 1
            or not all(host.is_cpu_only for host in self.hosts)
        ):
            return
        for source in self.sources:
            for call in source.calls:
                if call.target not in _LIGHTNING or not (call.complete and call.sure):
                    continue
                keywords, name = dict(call.keywords), _last_name(call.target)
                defaults = (per_host, hosts) if name == "Fabric" else (1, 1)
                devices = _count_devices(keywords.get("devices", "auto"), defaults[0])
                nodes = _count_devices(keywords.get("num_nodes", "auto"), defaults[1])
                if None in (devices, nodes) or (devices, nodes) == (per_host, hosts):
                    continue
                text = (
                    f"{name}(...) means num_nodes={nodes}, devices={devices}, the run has hosts: "
                    f"{hosts}, ranks on each: {per_host}"
                )
                use = f'{name}(..., accelerator="cpu", devices={per_host}, num_nodes={hosts})'
                yield ScriptNote(f"{source.path}:{call.line}", text, use)

    # --- GPUs ------------------------------------------------------------------------------------

    def _gpu_notes(self) -> Iterator[ScriptNote]:
        """Note the first use of a GPU in each file: users who change one look at the next."""
        if not all(host.is_cpu_only for host in self.hosts):
            return
        own_cuda = any(source.own_cuda for source in self.sources)
        for source in self.sources:
            for words, line in [g for g in source.gpu if not (own_cuda and g[0] == ".cuda()")][:1]:
                use = 'the backend "gloo"' if "backend" in words else 'the device "cpu"'
                text = f"{words} needs a GPU, but torch on the hosts is built for CPUs"
                yield ScriptNote(f"{source.path}:{line}", text, use)

    # --- models and datasets ---------------------------------------------------------------------

    def _hf_notes(self) -> Iterator[ScriptNote]:
        """Note models and datasets that the hosts neither have nor can download."""
        offline = [host.host for host in self.hosts if not host.has_route]
        planned = HUB_VARIABLES & {*self.files.variables}
        for place, name, dataset in self.named():
            if self._is_written_by_script(name):
                continue
            kind = "dataset" if dataset else "model"
            if local_path := self.files.local.get(name):
                if not self.files.holds(name):
                    yield self._local_path_note(place, name, kind, local_path)
            elif offline and not planned and _HUB_ID.fullmatch(name):
                source = f"hf:{kind}s/{name}"
                yield ScriptNote(
                    place,
                    f"{kind} {name} is not sent, and {fold(offline)} has no default route to "
                    "download it",
                    f"`ipexctl data pull {source}` and run with --data {data_name(name)}",
                )

    def _local_path_note(
        self, place: str, name: str, kind: str, local_path: LocalPath
    ) -> ScriptNote:
        """Note a local model or dataset that is not sent, and propose how to make it available."""
        why = f": {local_path.why}" if local_path.why else ""
        way = f"`{local_path.way}` (the complete work tree is sent), or " if local_path.way else ""
        use = f"load it from $IPEXCTL_DATA_{kind.upper()}"
        if place == self._script_path and self.files.data:
            use = f"pass {self.files.data}/{kind}/current/files instead of {name}"
        push = quoting.quote(("ipexctl", "data", "push", local_path.path, "--as", kind))
        return ScriptNote(
            place,
            f"{name} is on this machine and is not sent to the hosts{why}",
            f"{way}`{push}`, run with --data {kind}, and {use}",
        )

    def _is_written_by_script(self, name: str) -> bool:
        """Return whether it is below a folder that the script itself writes."""
        folders = (folder for source in self.sources for folder in source.written)
        return any(name == folder or name.startswith(f"{folder}/") for folder in folders)

    def named(self) -> Iterator[tuple[str, str, bool]]:
        """Yield (place, name, whether it is a dataset) of each model and dataset loaded by name."""
        tops = {imported.top for source in self.sources for imported in source.imports}
        arguments = _parse_options(self.argv[1:]) if tops & _HUB_READERS else {}
        for options, dataset in ((MODEL_OPTIONS, False), (DATASET_OPTIONS, True)):
            for option in options:
                name = arguments.get(option[2:], "")
                own_model = option == "--model" and "/" not in name and tops & _OWN_MODELS
                if name and not own_model:
                    yield self._script_path, name, dataset
        for source in self.sources:
            for hf_name in source.hf_names:
                if not (hf_name.dataset and hf_name.name in _BUILDERS):
                    yield f"{source.path}:{hf_name.line}", hf_name.name, hf_name.dataset

    # --- processes -------------------------------------------------------------------------------

    def _spawn_notes(self) -> Iterator[ScriptNote]:
        """Note spawns, which start further processes in every rank."""
        for source in self.sources:
            for line in source.spawns:
                yield ScriptNote(
                    f"{source.path}:{line}",
                    f"{SPAWN} starts further processes in every rank",
                    "one call of its function, with RANK, LOCAL_RANK and WORLD_SIZE from the "
                    "environment",
                )


def _parse_options(words: Sequence[str]) -> dict[str, str]:
    """Parse --some-name value, --some_name=value to {"some_name": "value"}; "" without a value."""
    options: dict[str, str] = {}
    for i, word in enumerate(words):
        if not word.startswith("--") or word == "--":
            continue
        name, sign, value = word[2:].partition("=")
        following = words[i + 1] if i + 1 < len(words) else ""
        if not sign and not following.startswith("--"):
            value = following
        options[name.replace("-", "_")] = value
    return options


def _is_true(value: str) -> bool:
    """Parse a switch as transformers does: --bf16, --bf16 True."""
    return value.lower() not in _FALSE


def _count_devices(value: Value, auto: int) -> int | None:
    """Return the number in `devices` or `num_nodes`; None: not known here."""
    if isinstance(value, str):
        return auto if value == "auto" else int(value) if value.isdecimal() else None
    return value if isinstance(value, int) and value > 0 else None


def _last_name(target: str) -> str:
    return target.rpartition(".")[2]


@dataclass(frozen=True)
class MissingModule:
    name: str
    place: str  # train.py:12
    hosts: tuple[str, ...]

    @property
    def package(self) -> str:
        return DISTRIBUTIONS.get(self.name, self.name)

    def note_misspelt(self) -> Iterator[ScriptNote]:
        """Yield a note if this is a misspelt name: a package that has it is not what is meant."""
        if meant := find_meant_module(self.name):
            text = f"not installed on {fold(self.hosts)}: {self.name}{ask_if_meant(meant)}"
            yield ScriptNote(self.place, text)


def note_missing(missing: Sequence[MissingModule], files: ProjectFiles) -> ScriptNote:
    """Return one note about all packages that hosts lack, with the line that installs them."""
    hosts = fold(dict.fromkeys(host for module in missing for host in module.hosts))
    names = [m.name if m.name == m.package else f"{m.name} ({m.package})" for m in missing]
    text = f"not installed on {hosts}: {', '.join(names)}"
    return ScriptNote(missing[0].place, text, command=install_line(missing, files))


def is_known_package(module: MissingModule) -> bool:
    return module.name in DISTRIBUTIONS or module.name in SAME_NAME


def install_line(missing: Sequence[MissingModule], files: ProjectFiles) -> str:
    """Return the line that adds packages to the requirements file and installs them."""
    new = [m.package for m in missing if m.package not in files.required]
    text = "requirements.txt"
    named = tuple(dict.fromkeys(("-r", name) for name in (files.requirements, text)))
    words = (word for option in (named if new else named[:1]) for word in option)
    install = quoting.quote(("ipexctl", "install", *words))
    add = quoting.quote(("printf", r"\n%s\n", *new))  # its last line may lack an end
    return f"{add} >> {text} && {install}" if new else install


@dataclass(frozen=True)
class Imports:
    """The review of imports. `sources`: the script, then the project's modules that it imports."""

    sources: Sequence[PythonSource]
    hosts: Sequence[HostEnvironment]
    files: ProjectFiles
    rules: Rules

    def notes(self) -> Iterator[ScriptNote]:
        """Yield a note for each import that fails, and one for all packages to install."""
        missing = list[MissingModule]()
        yield from self._import_notes(missing)
        for module in missing:
            yield from module.note_misspelt()
        if to_install := [module for module in missing if not find_meant_module(module.name)]:
            yield note_missing(to_install, self.files)

    def find_missing(self) -> list[MissingModule]:
        """Return the modules to install, which no package in the hosts' environments has."""
        missing = list[MissingModule]()
        for _ in self._import_notes(missing):
            pass
        return [module for module in missing if not find_meant_module(module.name)]

    def _import_notes(self, missing: list[MissingModule]) -> Iterator[ScriptNote]:
        """Yield notes, and add to `missing`."""
        noted = set[str]()
        for source, imported in self._certain_imports():
            top, place = imported.top, f"{source.path}:{imported.line}"
            in_folder = not imported.level and self.files.has_module(self.files.beside, top)
            why = self.files.kept_here.get((source.path, imported.line), "")
            if why and (imported.level or in_folder or self._is_lacking(top)):
                if why not in noted:
                    noted.update((why, top))
                    name = "." * imported.level + imported.module
                    text = f"module {name} is not sent to the hosts: {why}"
                    yield ScriptNote(place, text)
            elif not imported.level and top not in noted and not in_folder:
                noted.add(top)
                rule = self.rules.find("import", top)
                if rule and rule.distributions:
                    yield from self._discontinued_notes(place, top, rule)
                else:
                    yield from self._missing_notes(place, top, missing)

    def _discontinued_notes(self, place: str, name: str, rule: Rule) -> Iterator[ScriptNote]:
        if name not in self.files.parts and (lack := self._hosts_without(rule.distributions)):
            text = f"{name} was discontinued and is not installed on {lack}"
            yield ScriptNote(place, text, f"{rule.use}, or install it with `{rule.install}`")

    def _hosts_without(self, names: Iterable[str]) -> str:
        """Return the hosts whose environment is known and has none of these distributions."""
        return fold(
            [h.host for h in self.hosts if h.modules is not None and not {*names} & {*h.packages}]
        )

    def _is_lacking(self, name: str) -> bool:
        """Return whether a host may lack the module."""
        return any(host.modules is None or name not in host.modules for host in self.hosts)

    def _missing_notes(
        self, place: str, name: str, missing: list[MissingModule]
    ) -> Iterator[ScriptNote]:
        """Note a module outside of the folder that Python searches; add one that hosts lack."""
        files, script = self.files, self.sources[0].path
        lack = [h.host for h in self.hosts if h.modules is not None and name not in h.modules]
        if self._is_lacking(name) and files.holds(f"{name}.py"):
            text = f"module {name} is not in the script's folder, where Python looks for it"
            script = posixpath.relpath(script, files.cwd or ".")
            module = script.removesuffix(".py").replace("/", ".")
            yield ScriptNote(place, text, f"`ipexctl run -m {module}`, or --env PYTHONPATH=.")
        elif lack and name not in files.parts:
            missing.append(MissingModule(name, place, tuple(lack)))

    def _certain_imports(self) -> Iterator[tuple[PythonSource, Import]]:
        """Yield imports that fail the script if they fail, and are searched in the environment."""
        if any(s.changes_path for s in self.sources) or "PYTHONPATH" in self.files.variables:
            return
        for source in self.sources:
            yield from ((source, imported) for imported in source.imports if imported.sure)
