"""Read a Python file: the facts that matter before its ranks start."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from ipexctl.user_code.python_file import Called, PythonFile, literal_of, text_of
from ipexctl.user_code.script_arguments import ScriptArguments, read_script_arguments
from ipexctl.user_code.source import (
    CHECKPOINT,
    SHARDING,
    SHARE,
    SPAWN,
    HfName,
    Import,
    Parser,
    PythonSource,
    SourceCall,
    Value,
)

PLUGINS = {"DeepSpeedPlugin": "DeepSpeed", "FullyShardedDataParallelPlugin": "FSDP"}
_DEFINE_OPTIONS = frozenset({"add_argument", "add_option", "option", "Option"})
_CHANGE_ARGUMENTS = frozenset({"set_defaults", "parse_dict"})
_ARGUMENT_READERS = frozenset(
    {"absl", "defopt", "docopt", "draccus", "fire", "hydra", "jsonargparse", "plac"}
    | {"simple_parsing", "tyro"}
)
_PARSE_ARGUMENTS = frozenset({"parse_args_into_dataclasses", "parse_args_and_config"})
_PARSERS = frozenset({"transformers.HfArgumentParser", "trl.TrlParser"})
_FRAMEWORKS = frozenset(
    {"transformers", "trl", "sentence_transformers"}
    | {"lightning", "pytorch_lightning", "lightning_fabric"}
)
_HUB_CALLS = {
    "datasets.load_dataset": "path",
    "huggingface_hub.snapshot_download": "repo_id",
    "huggingface_hub.hf_hub_download": "repo_id",
}


def read_source(path: str, content: str | bytes, *, main: bool) -> PythonSource:
    """Read a file. `main`: it is the script. Invalid Python gives no facts."""
    try:
        return _read_source(path, PythonFile(content, main=main))
    except SyntaxError as e:
        return PythonSource(path, error=(e.msg, e.lineno or 1))
    except (ValueError, RecursionError, MemoryError):
        return PythonSource(path)


def _read_source(path: str, file: PythonFile) -> PythonSource:
    unguarded = [call for call in file.calls if not file.is_guarded(call.node)]
    certain = [call for call in unguarded if file.is_always_run(call.node)]
    framework = list(_framework_calls(file, unguarded))
    return PythonSource(
        path,
        imports=tuple(sorted(_find_imports(file), key=lambda item: item.line)),
        calls=tuple(
            SourceCall(
                call.target,
                call.line,
                _constant_keywords(call),
                _has_all_keywords(call),
                call in certain,
            )
            for call in framework
            if call.target not in _PARSERS
        ),
        parsers=tuple(
            Parser(call.line, tuple(map(file.dotted_name, _parsed_classes(file, call))))
            for call in framework
            if call.target in _PARSERS
        ),
        hf_names=tuple(_hf_names(unguarded)),
        spawns=tuple(call.line for call in certain if call.target == SPAWN),
        bases=tuple(file.bases),
        options=frozenset(_defined_options(file)),
        written=frozenset(_model_folders(file.calls)),
        changes_path=_changes_path(file),
        changes_argv=_changes_argv(file),
        arguments=_script_arguments(file),
        reads_argv=_reads_argv(file),
        called=frozenset(call.name for call in file.calls),
        sharding=frozenset(_find_sharding(file)),
        gpu=tuple((words, call.line) for call in certain if (words := _of_gpu(file, call))),
        reads=frozenset(name for name in (SHARE, CHECKPOINT) if _names_variable(file, name)),
        own_cuda=any(getattr(part, "name", "") == "cuda" for part in file.class_parts()),
    )


def _names_variable(file: PythonFile, name: str) -> bool:
    """Decide whether the file uses the variable's name except to set it."""
    uses = sum(isinstance(node, ast.expr) and text_of(node) == name for node in file.nodes)
    return uses > sum(variable.name == name for variable in file.find_variables())


def _find_imports(file: PythonFile) -> Iterator[Import]:
    for node in file.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, file.is_certain(node))
        elif isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names)
            yield Import(node.module or "", node.lineno, file.is_certain(node), node.level, names)


def _changes_path(file: PythonFile) -> bool:
    """Decide whether the file uses sys.path or the module site."""
    attributes = (file.dotted_name(node) for node in file.nodes if isinstance(node, ast.Attribute))
    return any(name == "sys.path" or name.startswith("site.") for name in attributes)


# --- arguments -----------------------------------------------------------------------------------


def _defined_options(file: PythonFile) -> Iterator[str]:
    """Yield options that the file defines: of a parser, or as the fields of a class."""
    for call in file.calls:
        if call.name in _DEFINE_OPTIONS:
            for word in filter(None, map(text_of, call.node.args)):
                yield word.lstrip("-").replace("-", "_")
    for node in file.class_parts():
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def _script_arguments(file: PythonFile) -> ScriptArguments | None:
    """Return the script's arguments, if only its own parser sees them."""
    if not file.main or _changes_argv(file) or _reads_argv(file):
        return None
    return read_script_arguments(file)


def _changes_argv(file: PythonFile) -> bool:
    """Decide whether the script's arguments differ from those of the command line."""
    for call in file.calls:
        arguments = call.node.args or "args" in call.keywords
        if call.name in _CHANGE_ARGUMENTS or "sys.argv" in call.target:
            return True
        if call.name in _PARSE_ARGUMENTS and arguments:
            return True
    return any("sys.argv" in ast.unparse(target) for _, target, _ in file.find_assignments())


def _reads_argv(file: PythonFile) -> bool:
    """Decide whether the file takes arguments in a way that `_defined_options` cannot read."""
    names = (
        file.dotted_name(node) for node in file.nodes if isinstance(node, ast.Attribute | ast.Name)
    )
    modules = {name.partition(".")[0] for name in file.aliases.values()}
    return not modules.isdisjoint(_ARGUMENT_READERS) or "sys.argv" in names


def _parsed_classes(file: PythonFile, call: Called) -> Iterable[ast.expr]:
    """Return the classes of HfArgumentParser((A, B)), also if the tuple has a name."""
    argument = call.first_argument or call.keywords.get("dataclass_types")
    classes = file.value_of(argument) if argument else None
    if isinstance(classes, ast.Tuple | ast.List):
        return classes.elts
    return [argument] if argument else []


# --- frameworks, models and datasets -------------------------------------------------------------


def _framework_calls(file: PythonFile, calls: Iterable[Called]) -> Iterator[Called]:
    """Yield calls of a framework's classes, and of the file's own classes."""
    classes = {name for name, _ in file.bases}
    for call in calls:
        if call.target.partition(".")[0] in _FRAMEWORKS or call.target in classes:
            yield call


def _has_all_keywords(call: Called) -> bool:
    return all(keyword.arg for keyword in call.node.keywords) and len(call.node.args) <= 1


def _constant_keywords(call: Called) -> tuple[tuple[str, Value], ...]:
    return tuple((name, _constant_of(value)) for name, value in call.keywords.items())


def _constant_of(node: ast.expr) -> Value:
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, bool | int | str) else None


def _find_sharding(file: PythonFile) -> Iterator[str]:
    """Yield DeepSpeed or FSDP if the file requests it of Accelerate or the Trainer."""
    imported = {name.rpartition(".")[2] for name in file.aliases.values()}
    yield from (kind for name, kind in PLUGINS.items() if name in imported)
    for call in file.calls:
        yield from (kind for name, kind in PLUGINS.items() if call.target.endswith(f".{name}"))
        for name, kind in SHARDING.items():
            value = call.keywords.get(name)
            off = isinstance(value, ast.Constant) and value.value in (None, "", False)
            if value is not None and not off:
                yield kind


def _hf_names(calls: Iterable[Called]) -> Iterator[HfName]:
    for call in calls:
        if call.name.endswith("Trainer") and call.target.startswith("trl."):
            name = text_of(call.keywords.get("model"))
        elif call.name == "from_pretrained":
            name = _given_text(call, "pretrained_model_name_or_path")
        elif call.target in _HUB_CALLS:
            name = _given_text(call, _HUB_CALLS[call.target])
        else:
            continue
        if name:
            yield HfName(name, call.line, dataset=call.name == "load_dataset")


def _given_text(call: Called, keyword: str) -> str:
    return text_of(call.keywords.get(keyword)) or text_of(call.first_argument)


def _model_folders(calls: Iterable[Called]) -> Iterator[str]:
    """Yield the folders to which the script writes models."""
    for call in calls:
        keywords = [call.keywords.get(name) for name in ("output_dir", "save_directory")]
        if call.name.startswith("save") or keywords[0] is not None:
            yield from filter(None, map(text_of, [*call.node.args, *keywords]))


# --- GPUs ----------------------------------------------------------------------------------------


def _of_gpu(file: PythonFile, call: Called) -> str:
    """Return the text of a call that needs a GPU: model.cuda(), x.to("cuda:0"), backend "nccl"."""
    keywords = {name: _resolved_text(file, value) for name, value in call.keywords.items()}
    first = _resolved_text(file, call.first_argument) if call.first_argument else ""
    if call.name in ("init_process_group", "init_distributed"):
        backend = keywords.get("backend") or keywords.get("dist_backend") or first
        return f'the backend "{backend}"' if backend == "nccl" else ""
    if call.target == "torch.cuda.set_device":
        return f"{call.target}()"
    if call.name == "cuda" and isinstance(call.node.func, ast.Attribute):
        return ".cuda()"
    if call.name != "to" and not call.target.startswith("torch."):
        return ""
    device = keywords.get("device") or (first if call.name == "to" else "")
    is_cuda = device.partition(":")[0] == "cuda" and call.target != "torch.device"
    return f'the device "{device}"' if is_cuda else ""


def _resolved_text(file: PythonFile, node: ast.expr) -> str:
    """Return a text, also through a name or torch.device()."""
    node = file.value_of(node)
    if isinstance(node, ast.Call) and file.dotted_name(node.func) == "torch.device" and node.args:
        node = node.args[0]
    return literal_of(node)
