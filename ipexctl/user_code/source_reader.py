"""The text of a Python file -> what of it matters before its ranks start."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field

from ipexctl.quick_dataclass import dataclass
from ipexctl.user_code.call_arguments import command_words, constant_of, literal_of, text_of
from ipexctl.user_code.dotted_names import dotted, imported_names
from ipexctl.user_code.script_launches import Launch, launch_of
from ipexctl.user_code.source import SHARDING, SPAWN, Call, HubName, Import, Parser, Source

STARTS_A_PROCESS = frozenset(
    {f"subprocess.{n}" for n in ("run", "call", "check_call", "check_output", "Popen")}
    | {f"subprocess.{n}" for n in ("getoutput", "getstatusoutput")}
    | {f"os.{n}" for n in ("system", "popen", "execvp", "execv", "execlp", "execl")}
)
MASTER = "MASTER_ADDR"
_MEETING = {"init_process_group": ("init_method", 1), "TCPStore": ("host_name", 0)}
_NAMED = {MASTER, *(name for name, _ in _MEETING.values())}
_LOOPBACK = re.compile(
    r"(tcp://)?(localhost(\.localdomain)?|ip6-localhost|127(\.\d{1,3}){3}|\[?::1\]?|0\.0\.0\.0)"
    r"(:[\d?]{1,5})?(\?.*)?"
)
PLUGINS = {"DeepSpeedPlugin": "DeepSpeed", "FullyShardedDataParallelPlugin": "FSDP"}
_ENDS = frozenset({"sys.exit", "os._exit", "os.abort", "exit", "quit"})
_CATCHES_NOTHING = frozenset({"KeyboardInterrupt", "SystemExit", "GeneratorExit"})
_PARSERS = frozenset({"transformers.HfArgumentParser", "trl.TrlParser"})
_FRAMEWORKS = frozenset(
    {"transformers", "trl", "sentence_transformers", "accelerate"}
    | {"lightning", "pytorch_lightning", "lightning_fabric"}
)
# what is inside one of these may not be called, though the statement runs
_MAYBE = (
    ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp
)  # fmt: skip
_HUB_CALLS = {
    "load_dataset": ("datasets.load_dataset", "path"),
    "snapshot_download": ("huggingface_hub.snapshot_download", "repo_id"),
    "hf_hub_download": ("huggingface_hub.hf_hub_download", "repo_id"),
}


def read_source(path: str, text: str, *, main: bool) -> Source:
    """`main`: it is the script, `__name__` is "__main__". Nothing is known of what is no Python."""
    try:
        tree = ast.parse(text)
        reader = _Reader(main)
        reader.read(tree)
        return reader.source(path)
    except SyntaxError as e:
        return Source(path, error=(e.msg, e.lineno or 1))
    except (ValueError, RecursionError, MemoryError):
        return Source(path)


@dataclass
class _Reader:
    main: bool
    imports: list[Import] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    parsers: list[Parser] = field(default_factory=list)
    hub_names: list[HubName] = field(default_factory=list)
    launches: list[tuple[Launch, int]] = field(default_factory=list)
    bases: list[tuple[str, str]] = field(default_factory=list)
    options: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    changes_path: bool = False
    changes_argv: bool = False
    call_names: set[str] = field(default_factory=set)
    sharding: set[str] = field(default_factory=set)
    gpu: list[tuple[str, int]] = field(default_factory=list)
    loopback: list[tuple[str, int]] = field(default_factory=list)
    own_cuda: bool = False
    fixed: dict[str, ast.expr] = field(default_factory=dict)  # names that get a value once
    aliases: dict[str, str] = field(default_factory=dict)  # name here -> dotted name there
    functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = field(default_factory=dict)
    listed: dict[str, list[ast.expr]] = field(default_factory=dict)  # name -> tuple assigned to it
    called: list[str] = field(default_factory=list)  # functions that surely run
    inner: list[Sequence[ast.stmt]] = field(default_factory=list)  # bodies that may run

    def source(self, path: str) -> Source:
        return Source(
            path, tuple(self.imports), tuple(self.calls), tuple(self.parsers),
            tuple(self.hub_names), tuple(self.launches), tuple(self.bases),
            frozenset(self.options), frozenset(self.written), self.changes_path, self.changes_argv,
            frozenset(self.call_names), frozenset(self.sharding),
            tuple(sorted(self.gpu, key=_line)), tuple(sorted(self.loopback, key=_line)),
            self.own_cuda,
        )  # fmt: skip

    def read(self, tree: ast.Module) -> None:
        self._names(tree)
        self._body(tree.body, sure=True, guarded=False)
        done: set[str] = set()
        while self.called:
            if (name := self.called.pop()) not in done:
                done.add(name)
                self._body(self.functions[name].body, sure=True, guarded=False)
        for name, function in self.functions.items():
            if name not in done:
                self._body(function.body, sure=False, guarded=False)
        while self.inner:
            self._body(self.inner.pop(), sure=False, guarded=False)

    def _names(self, tree: ast.Module) -> None:
        self.aliases = imported_names(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple | ast.List):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        self.listed[target.id] = node.value.elts
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                self._attribute(node, node.value.id)
        for statement in tree.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                self.functions[statement.name] = statement
        self.fixed = assigned_once(tree)

    def _attribute(self, node: ast.Attribute, name: str) -> None:
        if (name, node.attr) == ("sys", "path") or name == "site":
            self.changes_path = True

    def _body(self, body: Sequence[ast.stmt], *, sure: bool, guarded: bool) -> None:
        for statement in body:
            self._statement(statement, sure=sure, guarded=guarded)
            sure = sure and not _may_leave(statement)

    def _statement(self, node: ast.stmt, *, sure: bool, guarded: bool) -> None:
        for expression in _expressions(node):
            self._calls(expression, sure=sure, guarded=guarded)
        if isinstance(node, ast.Import):
            for alias in node.names:
                self.imports.append(Import(alias.name, node.lineno, sure and not guarded))
        elif isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names)
            self.sharding |= {PLUGINS[name] for name in names if name in PLUGINS}
            module, known = node.module or "", sure and not guarded
            self.imports.append(Import(module, node.lineno, known, node.level, names))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node is not self.functions.get(node.name):
                self.inner.append(node.body)
        elif isinstance(node, ast.ClassDef):
            self._class(node, sure=sure, guarded=guarded)
        elif isinstance(node, ast.If):
            self._if(node, sure=sure, guarded=guarded)
        elif isinstance(node, ast.Try):
            self._try(node, sure=sure, guarded=guarded)
        elif isinstance(node, ast.With | ast.AsyncWith):
            caught = any("suppress" in ast.dump(item.context_expr) for item in node.items)
            self._body(node.body, sure=sure, guarded=guarded or caught)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.While):
            self._body([*node.body, *node.orelse], sure=False, guarded=guarded)
        elif isinstance(node, ast.Match):
            for case in node.cases:
                self._body(case.body, sure=False, guarded=guarded)
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            self.changes_argv |= any("sys.argv" in ast.unparse(target) for target in targets)
            if sure and not guarded and node.value is not None:
                self._master([(key, node.value) for key in map(self._variable, targets)], node)

    def _class(self, node: ast.ClassDef, *, sure: bool, guarded: bool) -> None:
        for base in node.bases:
            self.bases.append((node.name, self.dotted(base)))
        for part in node.body:
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                self.options.add(part.target.id)
            if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
                self.inner.append(part.body)
                self.own_cuda |= part.name == "cuda"
        rest = [p for p in node.body if not isinstance(p, ast.FunctionDef | ast.AsyncFunctionDef)]
        self._body(rest, sure=sure, guarded=guarded)

    def _if(self, node: ast.If, *, sure: bool, guarded: bool) -> None:
        test = ast.unparse(node.test)
        if test.replace('"', "'") in ("__name__ == '__main__'", "'__main__' == __name__"):
            self._body(node.body, sure=sure and self.main, guarded=guarded)
            self._body(node.orelse, sure=sure and not self.main, guarded=guarded)
            return
        asks = any(word in test for word in ("version", "hasattr", "signature", "fields("))
        self._body([*node.body, *node.orelse], sure=False, guarded=guarded or asks)

    def _try(self, node: ast.Try, *, sure: bool, guarded: bool) -> None:
        caught = any(_catches(handler) for handler in node.handlers)
        self._body(node.body, sure=sure, guarded=guarded or caught)
        for handler in node.handlers:
            self._body(handler.body, sure=False, guarded=guarded or caught)
        self._body([*node.orelse], sure=sure, guarded=guarded or caught)
        self._body(node.finalbody, sure=sure, guarded=guarded)

    def dotted(self, node: ast.expr) -> str:
        return dotted(node, self.aliases)

    def _calls(self, expression: ast.expr, *, sure: bool, guarded: bool) -> None:
        for node in ast.walk(expression):
            if isinstance(node, ast.Call):
                self._call(node, sure=sure, guarded=guarded)
        for node in _certain(expression) if sure and not guarded else ():
            if isinstance(node, ast.Call):
                if words := self._of_gpu(node):
                    self.gpu.append((words, node.lineno))
                self._master(self._rendezvous(node), node)
                if self.dotted(node.func) == SPAWN:
                    self.launches.append((Launch(SPAWN), node.lineno))
                name = node.func.id if isinstance(node.func, ast.Name) else ""
                if name in self.functions:
                    self.called.append(name)

    def _call(self, node: ast.Call, *, sure: bool, guarded: bool) -> None:
        target = self.dotted(node.func)
        last = node.func.attr if isinstance(node.func, ast.Attribute) else target
        keywords = {k.arg: k.value for k in node.keywords if k.arg}
        self.call_names.add(last.rpartition(".")[2])
        self._sharding(target, keywords)
        texts = [word for word in map(text_of, node.args) if word]
        if last in ("add_argument", "add_option", "option", "Option"):
            self.options |= {word.lstrip("-").replace("-", "_") for word in texts}
        elif last.startswith("save") or "output_dir" in keywords:
            more = text_of(keywords.get("output_dir")) or text_of(keywords.get("save_directory"))
            self.written |= {*texts, *([more] if more else [])}
        elif last == "set_defaults" or last == "parse_dict" or "sys.argv" in target:
            self.changes_argv = True
        elif last in ("parse_args_into_dataclasses", "parse_args_and_config"):
            self.changes_argv |= bool(node.args or "args" in keywords)
        if guarded:
            return
        if target in STARTS_A_PROCESS and (launch := launch_of(command_words(node))):
            self.launches.append((launch, node.lineno))
        framework = target.partition(".")[0] in _FRAMEWORKS
        if framework or target in {name for name, _ in self.bases}:
            self._framework(node, target, keywords, sure=sure)
        self._hub(node, target, last, keywords)

    def _of_gpu(self, node: ast.Call) -> str:
        """The words of a call that needs a GPU: model.cuda(), x.to("cuda:0"), a backend "nccl"."""
        target = self.dotted(node.func)
        last = node.func.attr if isinstance(node.func, ast.Attribute) else target
        given = {k.arg: self._spelled(k.value) for k in node.keywords if k.arg}
        first = self._spelled(node.args[0]) if node.args else ""
        if last.rpartition(".")[2] in ("init_process_group", "init_distributed"):
            backend = given.get("backend") or given.get("dist_backend") or first
            return f'the backend "{backend}"' if backend == "nccl" else ""
        if target == "torch.cuda.set_device":
            return f"{target}()"
        if last == "cuda" and isinstance(node.func, ast.Attribute):
            return ".cuda()"
        if last != "to" and not target.startswith("torch."):
            return ""
        device = given.get("device") or (first if last == "to" else "")
        asked = device.partition(":")[0] == "cuda" and target != "torch.device"
        return f'the device "{device}"' if asked else ""

    def _variable(self, target: ast.expr) -> str:
        """os.environ["NAME"] -> NAME"""
        own = isinstance(target, ast.Subscript) and self.dotted(target.value) == "os.environ"
        return text_of(target.slice) if own and isinstance(target, ast.Subscript) else ""

    def _rendezvous(self, node: ast.Call) -> list[tuple[str, ast.expr]]:
        """What a call says of where ranks meet: the variable or argument, and its value."""
        target = self.dotted(node.func)
        given = {k.arg: k.value for k in node.keywords if k.arg}
        if target == "os.environ.update":
            for part in node.args:
                if isinstance(part, ast.Dict):
                    given.update(
                        {text_of(k): v for k, v in zip(part.keys, part.values, strict=True)}
                    )
            return [(name, value) for name, value in given.items() if name == MASTER]
        last = target.rpartition(".")[2]
        name, at = _MEETING.get(last, ("", 0))
        value = given.get(name) or (node.args[at] if len(node.args) > at else None)
        return [(name, value)] if name and value else []

    def _master(self, found: list[tuple[str, ast.expr]], node: ast.stmt | ast.Call) -> None:
        for name, value in found:
            text = self._spelled(value)
            if name in _NAMED and _LOOPBACK.fullmatch(text):
                self.loopback.append((f'{name}="{text}"', node.lineno))

    def _spelled(self, node: ast.expr) -> str:
        """A text, also by way of a name or of torch.device()."""
        if isinstance(node, ast.Name):
            node = self.fixed.get(node.id, node)
        if isinstance(node, ast.Call) and self.dotted(node.func) == "torch.device" and node.args:
            node = node.args[0]
        return literal_of(node)

    def _sharding(self, target: str, keywords: dict[str, ast.expr]) -> None:
        self.sharding |= {what for name, what in PLUGINS.items() if target.endswith(f".{name}")}
        for name, what in SHARDING.items():
            value = keywords.get(name)
            off = isinstance(value, ast.Constant) and value.value in (None, "", False)
            if value is not None and not off:
                self.sharding.add(what)

    def _framework(
        self, node: ast.Call, target: str, keywords: dict[str, ast.expr], *, sure: bool
    ) -> None:
        if target in _PARSERS:
            given = [*node.args[:1], *filter(None, [keywords.get("dataclass_types")])]
            first = given[0] if given else None
            parts = first.elts if isinstance(first, ast.Tuple | ast.List) else given
            if isinstance(first, ast.Name):
                parts = self.listed.get(first.id, given)
            self.parsers.append(Parser(node.lineno, tuple(map(self.dotted, parts))))
            return
        known = tuple((name, constant_of(value)) for name, value in keywords.items())
        complete = all(k.arg for k in node.keywords) and len(node.args) <= 1
        self.calls.append(Call(target, node.lineno, known, complete, sure))

    def _hub(self, node: ast.Call, target: str, last: str, keywords: dict[str, ast.expr]) -> None:
        where, keyword = _HUB_CALLS.get(last.rpartition(".")[2], ("", ""))
        if last == "from_pretrained":
            keyword = "pretrained_model_name_or_path"
        elif last.endswith("Trainer") and target.startswith("trl."):
            if name := text_of(keywords.get("model")):
                self.hub_names.append(HubName(name, node.lineno, dataset=False))
            return
        elif not where or target != where:
            return
        name = text_of(keywords.get(keyword)) or (text_of(node.args[0]) if node.args else "")
        if name:
            self.hub_names.append(HubName(name, node.lineno, dataset=last.endswith("dataset")))


def _expressions(node: ast.stmt) -> Iterator[ast.expr]:
    """Those of the statement itself, not of statements inside it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield child
        elif isinstance(child, ast.withitem):
            yield child.context_expr
        elif isinstance(child, ast.arguments):
            yield from filter(None, [*child.defaults, *child.kw_defaults])


def _certain(expression: ast.AST) -> Iterator[ast.AST]:
    """The parts that are evaluated whenever the expression is."""
    yield expression
    if not isinstance(expression, _MAYBE):
        for part in ast.iter_child_nodes(expression):
            yield from _certain(part)


def _may_leave(statement: ast.stmt) -> bool:
    """May it end the function or the script, so that nothing after it is certain to run?"""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    return any(
        isinstance(node, ast.Return | ast.Raise)
        or (isinstance(node, ast.Call) and ast.unparse(node.func) in _ENDS)
        for node in ast.walk(statement)
    )


def _catches(handler: ast.ExceptHandler) -> bool:
    """Does it catch more than the end of the program?"""
    if handler.type is None:
        return True
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(ast.unparse(kind) not in _CATCHES_NOTHING for kind in kinds)


def assigned_once(tree: ast.Module) -> dict[str, ast.expr]:
    """Names that the file gives a value in one place only, and the value."""
    stored = Counter(n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and _stores(n))
    stored.update(n.arg for n in ast.walk(tree) if isinstance(n, ast.arg))
    return {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and stored[target.id] == 1
    }


def _stores(node: ast.Name) -> bool:
    return not isinstance(node.ctx, ast.Load)


def _line(found: tuple[str, int]) -> int:
    return found[1]
