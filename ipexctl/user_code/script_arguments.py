"""Read which command-line arguments a script accepts: argparse, click, Typer, HfArgumentParser.

Only where the code says it without doubt: options that are made in a loop or by another function,
subcommands, `parse_known_args` and a parser that is handed on give None. A wrong refusal is worse
than none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ipexctl.quick_dataclass import dataclass
from ipexctl.user_code.python_file import Called, PythonFile, text_of

Nargs = int | str | None  # as argparse writes it

_NEUTRAL = frozenset(
    {"description", "prog", "usage", "epilog", "formatter_class", "add_help", "allow_abbrev"}
    | {"argument_default", "conflict_handler"}
)
_FLAG_ACTIONS = frozenset({"store_true", "store_false", "store_const", "append_const", "count"})
_VALUE_ACTIONS = frozenset({"store", "append", "extend"})
_PASSIVE = frozenset(
    {"error", "print_help", "print_usage", "format_help", "format_usage", "set_defaults", "exit"}
    | {"get_default"}
)  # methods of a parser that add no argument
_GROUPS = frozenset({"add_argument_group", "add_mutually_exclusive_group"})
_NUMBERS = frozenset({"int", "float"})
_HF_PARSER = "transformers.HfArgumentParser"
_SIMPLE = frozenset({"int", "float", "str", "Path", "pathlib.Path"})  # types that take one word


@dataclass(frozen=True)
class Argument:
    """An option by its flags, or (without flags) a positional argument."""

    name: str  # as the script's own error would call it
    line: int
    flags: tuple[str, ...] = ()
    required: bool = False
    nargs: Nargs = None  # 0: takes no value
    number: str = ""  # int or float: what it converts its value to
    choices: tuple[str, ...] = ()
    default: str = ""  # of a number

    @property
    def accepted(self) -> str:
        """A value that it accepts; "" if none is certain."""
        number = {"int": "1", "float": "0.1"}.get(self.number, "")
        return next(iter(self.choices), self.default or number)

    @property
    def example(self) -> tuple[str, ...]:
        """Words that give it a value: one that it accepts, or its name in capitals."""
        value = self.accepted or self.name.strip("-").replace("-", "_").upper()
        return (self.name, value) if self.flags else (value,)


@dataclass(frozen=True)
class ScriptArguments:
    """All arguments of a script, which it certainly parses. `complete` False: a framework adds
    options that its code does not name."""

    arguments: tuple[Argument, ...]
    abbreviates: bool = True  # --l means --lr
    complete: bool = True


class _Unsure(Exception):
    """The code leaves open which arguments there are."""


def read_script_arguments(file: PythonFile) -> ScriptArguments | None:
    """Return the arguments that the script accepts, or None if that is not certain."""
    readers = (_read_argparse, _read_hf_parser, _read_click, _read_typer)
    try:
        found = [arguments for read in readers if (arguments := read(file))]
    except _Unsure:
        return None
    return found[0] if len(found) == 1 else None


def _require(condition: object) -> None:
    if not condition:
        raise _Unsure


def _find_one(calls: Sequence[Called]) -> Called | None:
    _require(len(calls) <= 1)
    return calls[0] if calls else None


def _constant(node: ast.expr | None, default: object = None) -> object:
    """Return the value of a constant; raise _Unsure for anything that only the run will know."""
    if node is None:
        return default
    _require(isinstance(node, ast.Constant))
    assert isinstance(node, ast.Constant)
    return node.value


# --- argparse ------------------------------------------------------------------------------------


def _read_argparse(file: PythonFile) -> ScriptArguments | None:
    made = _find_one([c for c in file.calls if c.target == "argparse.ArgumentParser"])
    if made is None:
        return None
    _require(made.keywords.keys() <= _NEUTRAL and len(made.keywords) == len(made.node.keywords))
    names, calls = [_assigned_name(file, made)], list[Called]()
    parses = 0
    for name in names:
        for use in _uses(file, name):
            call = _method_call(file, use)
            if call.name in _GROUPS:
                if (parent := file.parents.get(call.node)) and not isinstance(parent, ast.Expr):
                    names.append(_assigned_name(file, call))
            elif call.name == "add_argument":
                calls.append(call)
            elif call.name == "parse_args":
                _require(not call.node.args and not call.keywords)
                parses += file.is_certain(call.node)
            else:
                _require(call.name in _PASSIVE)
    _require(parses)
    in_file_order = sorted(calls, key=lambda call: call.line)
    abbreviates = bool(_constant(made.keywords.get("allow_abbrev"), True))
    helped = bool(_constant(made.keywords.get("add_help"), True))
    arguments = [_argparse_argument(file, call) for call in in_file_order]
    return ScriptArguments((*arguments, *[HELP] * helped), abbreviates)


HELP = Argument("help", 0, ("-h", "--help"), nargs=0)


def _assigned_name(file: PythonFile, call: Called) -> ast.Name:
    """Return the name to which a call's result is assigned, and nothing else is in its scope."""
    parent = file.parents.get(call.node)
    _require(isinstance(parent, ast.Assign) and len(parent.targets) == 1)
    assert isinstance(parent, ast.Assign)
    (target,) = parent.targets
    _require(isinstance(target, ast.Name))
    assert isinstance(target, ast.Name)
    return target


def _scope(file: PythonFile, node: ast.AST) -> ast.AST:
    while (parent := file.parents.get(node)) is not None:
        node = parent
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            return node
    return node


def _uses(file: PythonFile, name: ast.Name) -> Iterator[ast.Name]:
    """Yield the uses of a name that is assigned once where it lives; functions that assign the
    same name have one of their own."""
    home = _scope(file, name)
    same = [n for n in file.nodes if isinstance(n, ast.Name) and n.id == name.id]
    assigned = [n for n in same if not isinstance(n.ctx, ast.Load)]
    _require([n for n in assigned if _scope(file, n) is home] == [name])
    scopes = {_scope(file, n) for n in assigned if n is not name}
    for node in file.nodes:
        parameter = isinstance(node, ast.arg) and node.arg == name.id
        shared = isinstance(node, ast.Global | ast.Nonlocal) and name.id in node.names
        _require(not shared)
        if parameter:
            scopes.add(_scope(file, node))
    _require(home not in scopes)
    yield from (
        n for n in same if isinstance(n.ctx, ast.Load) and not scopes & {*_scopes_around(file, n)}
    )


def _scopes_around(file: PythonFile, node: ast.AST) -> Iterator[ast.AST]:
    while file.parents.get(node) is not None:
        node = _scope(file, node)
        yield node


def _method_call(file: PythonFile, use: ast.Name) -> Called:
    """Return the call of which the name is the object; _Unsure for any other use of it."""
    attribute = file.parents.get(use)
    node = file.parents.get(attribute) if isinstance(attribute, ast.Attribute) else None
    _require(isinstance(node, ast.Call) and node.func is attribute)
    return next(call for call in file.calls if call.node is node)


def _argparse_argument(file: PythonFile, call: Called) -> Argument:
    """Read one add_argument(); it counts as required only if it certainly runs."""
    words = [text_of(node) for node in call.node.args]
    _require(words or "dest" in call.keywords)
    _require(all(words) and all(k.arg for k in call.node.keywords))
    _require(not _is_repeated(file, call.node))
    flags = tuple(word for word in words if word.startswith("-"))
    _require(len(flags) in (0, len(words)) and (flags or len(words) == 1))
    action, nargs = _read_action(file, call)
    if action == "boolean":
        flags += tuple(f"--no-{flag[2:]}" for flag in flags if flag.startswith("--"))
    certain = file.is_certain(call.node)
    required = call.keywords.get("required")
    needed = isinstance(required, ast.Constant) and required.value is True
    _require(flags or certain)  # a positional argument that may not exist moves the others
    return Argument(
        max(flags, key=len) if flags else words[0],
        call.line,
        flags,
        required=certain and (needed if flags else nargs not in ("?", "*")),
        nargs=nargs,
        number=_number_type(file, call.keywords.get("type")),
        choices=_literal_choices(call),
        default=_default_number(call.keywords.get("default")),
    )


def _is_repeated(file: PythonFile, node: ast.AST) -> bool:
    """Decide whether the call is in a loop or a function other than one that runs once."""
    loops = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.GeneratorExp)
    while (parent := file.parents.get(node)) is not None:
        if isinstance(parent, loops):
            return True
        node = parent
    return False


def _read_action(file: PythonFile, call: Called) -> tuple[str, Nargs]:
    """Return the action, and how many values it takes."""
    node, nargs = call.keywords.get("action"), _constant(call.keywords.get("nargs"))
    if node is not None and file.dotted_name(node) == "argparse.BooleanOptionalAction":
        return "boolean", 0
    action = _constant(node, "store")
    if action in ("help", "version") or action in _FLAG_ACTIONS:
        return str(action), 0
    _require(action in _VALUE_ACTIONS)
    _require(nargs is None or nargs in ("?", "*", "+") or (type(nargs) is int and nargs > 0))
    return str(action), nargs if isinstance(nargs, int | str) else None


def _number_type(file: PythonFile, node: ast.expr | None) -> str:
    name = node.id if isinstance(node, ast.Name) else ""
    own = name in file.functions or name in file.aliases or name in file.assigned_once
    return name if name in _NUMBERS and not own else ""


def _default_number(node: ast.expr | None) -> str:
    value = node.value if isinstance(node, ast.Constant) else None
    return repr(value) if type(value) in (int, float) else ""


def _literal_choices(call: Called) -> tuple[str, ...]:
    """Return choices that are texts in the code; () for others and without a plain type."""
    node, kind = call.keywords.get("choices"), call.keywords.get("type")
    plain = kind is None or (isinstance(kind, ast.Name) and kind.id == "str")
    if not isinstance(node, ast.List | ast.Tuple | ast.Set) or not plain:
        return ()
    texts = tuple(map(text_of, node.elts))
    return texts if all(texts) else ()


# --- HfArgumentParser ----------------------------------------------------------------------------


def _read_hf_parser(file: PythonFile) -> ScriptArguments | None:
    made = _find_one([c for c in file.calls if c.target == _HF_PARSER])
    if made is None:
        return None
    _require(not made.keywords.keys() - {"dataclass_types"})
    uses = [_method_call(file, use) for use in _uses(file, _assigned_name(file, made))]
    parse = _find_one(uses)
    _require(parse and parse.name == "parse_args_into_dataclasses" and file.is_certain(parse.node))
    assert parse
    _require(not parse.node.args and not parse.keywords)
    node = made.first_argument or made.keywords.get("dataclass_types")
    classes = file.value_of(node) if node else None
    elements = classes.elts if isinstance(classes, ast.Tuple | ast.List) else [classes]
    own = {n.name: n for n in file.nodes if isinstance(n, ast.ClassDef)}
    arguments, complete = list[Argument](), True
    for element in elements:
        kind = own.get(element.id) if isinstance(element, ast.Name) else None
        complete = complete and kind is not None and not kind.bases
        if kind:
            arguments += _dataclass_arguments(file, kind)
    return ScriptArguments((*arguments, HELP), complete=complete)


def _dataclass_arguments(file: PythonFile, kind: ast.ClassDef) -> Iterator[Argument]:
    for part in kind.body:
        if not isinstance(part, ast.AnnAssign) or not isinstance(part.target, ast.Name):
            continue
        name, written = part.target.id, ast.unparse(part.annotation)
        if written.startswith(("ClassVar", "typing.ClassVar")):
            continue
        words, default = [name, name.replace("_", "-")], part.value
        if isinstance(default, ast.Call):
            _require(file.dotted_name(default.func) == "dataclasses.field" and not default.args)
            given = {k.arg: k.value for k in default.keywords}
            _require(None not in given and "init" not in given)
            _require("aliases" not in ast.unparse(given.get("metadata", ast.Constant(""))))
            default = given.get("default") or given.get("default_factory")
        plain = written.removeprefix("Optional[").removesuffix("]").removesuffix(" | None")
        nargs: Nargs = None
        if plain == "bool":
            nargs = "?"
            words += [f"no_{name}", f"no-{words[1]}"]
        elif plain.lower().startswith(("list", "typing.list")):
            nargs = "*"
        flags = tuple(dict.fromkeys(f"--{word}" for word in words))
        required = default is None and plain != "bool" and written == plain
        yield Argument(f"--{name}", part.lineno, flags, required=required, nargs=nargs)


# --- click and Typer -----------------------------------------------------------------------------


def _read_click(file: PythonFile) -> ScriptArguments | None:
    functions = [n for n in file.nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    commands = [f for f in functions if any(_is_click(file, d) for d in f.decorator_list)]
    if not commands:
        return None
    _require(len(commands) == 1 and not any(c.target == "click.group" for c in file.calls))
    (command,) = commands
    _require(_runs_alone(file, command.name))
    arguments = [HELP]
    for decorator in command.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else None
        target = file.dotted_name(call.func if call else decorator)
        if target == "click.command":
            # no `context_settings`, which may accept everything
            _require(not call or {k.arg for k in call.keywords} <= {"name", "help", "epilog"})
            continue
        _require(call and target in ("click.option", "click.argument"))
        assert call
        arguments.append(_click_argument(file, call, positional=target == "click.argument"))
    return ScriptArguments(tuple(reversed(arguments)), abbreviates=False)


def _is_click(file: PythonFile, decorator: ast.expr) -> bool:
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    return file.dotted_name(node) == "click.command"


def _runs_alone(file: PythonFile, name: str) -> bool:
    """Decide whether the file certainly calls the function, without arguments, and only that."""
    uses = [n for n in file.nodes if isinstance(n, ast.Name) and n.id == name]
    call = file.parents.get(uses[0]) if len(uses) == 1 else None
    if not isinstance(call, ast.Call) or call.func is not uses[0]:
        return False
    return not call.args and not call.keywords and file.is_certain(call)


def _click_argument(file: PythonFile, call: ast.Call, *, positional: bool) -> Argument:
    words, keywords = list(map(text_of, call.args)), {k.arg: k.value for k in call.keywords}
    _require(words and all(words) and None not in keywords and "cls" not in keywords)
    _require(not positional or len(words) == 1)
    nargs, kind = _constant(keywords.get("nargs"), 1), keywords.get("type")
    _require(type(nargs) is int and (nargs != -1 or positional))
    assert isinstance(nargs, int)
    required = _constant(keywords.get("required"), positional) is True
    may_come = {"default", "envvar", "prompt", "flag_value"} & keywords.keys()
    if positional:
        many = nargs == -1
        values: Nargs = ("+" if required else "*") if many else nargs if nargs > 1 else None
        optional = not required or bool(may_come)
        _require(not (optional and nargs > 1))
        return Argument(
            words[0],
            call.lineno,
            nargs="?" if optional and not many else values,
            required=not optional,
        )
    flags = [part for word in words if word.startswith("-") for part in word.split("/")]
    _require(flags and all(flag.startswith("-") for flag in flags))
    pair = any("/" in word for word in words)
    is_flag = _constant(keywords.get("is_flag"), pair or "flag_value" in keywords)
    _require(not isinstance(kind, ast.Tuple | ast.List))
    if is_flag or _constant(keywords.get("count"), False):
        nargs = 0
    return Argument(
        max(flags, key=len),
        call.lineno,
        tuple(flags),
        required=required and not may_come,
        nargs=None if nargs == 1 else nargs,
    )


def _read_typer(file: PythonFile) -> ScriptArguments | None:
    """Read typer.run(main), or an app with one command that `app()` runs."""
    made = [call for call in file.calls if call.target in ("typer.run", "typer.Typer")]
    if not made:
        return None
    call = _find_one(made)
    assert call
    if call.target == "typer.run":
        _require(file.is_certain(call.node) and isinstance(call.first_argument, ast.Name))
        assert isinstance(call.first_argument, ast.Name)
        function = file.functions.get(call.first_argument.id)
        completion = tuple[Argument, ...]()
    else:
        _require(not call.node.args and call.keywords.keys() <= {"help", "add_completion"})
        function = _typer_command(file, _assigned_name(file, call))
        completion = (
            Argument("completion", 0, ("--install-completion", "--show-completion"), nargs=0),
        )
    _require(function)
    assert function
    return ScriptArguments(
        (*_function_arguments(file, function), *completion, HELP),
        abbreviates=False,
    )


def _typer_command(file: PythonFile, app: ast.Name) -> ast.FunctionDef | None:
    """Return the one function with @app.command(), if `app()` certainly runs it."""
    functions, runs = list[ast.FunctionDef](), 0
    for use in _uses(file, app):
        parent = file.parents.get(use)
        if isinstance(parent, ast.Call) and parent.func is use:
            _require(not parent.args and not parent.keywords)
            runs += file.is_certain(parent)
            continue
        call = _method_call(file, use)
        owner = file.parents.get(call.node)
        _require(call.name == "command" and not call.node.args and not call.keywords)
        _require(isinstance(owner, ast.FunctionDef))
        assert isinstance(owner, ast.FunctionDef)
        _require(len(owner.decorator_list) == 1)
        functions.append(owner)
    _require(runs and len(functions) == 1)
    return functions[0]


def _function_arguments(file: PythonFile, function: ast.AST) -> Iterator[Argument]:
    """Yield the arguments that Typer makes from a function's parameters."""
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    given = function.args
    _require(not (given.vararg or given.kwarg or given.posonlyargs))
    defaults = [None] * (len(given.args) - len(given.defaults)) + [*given.defaults]
    pairs = [*zip(given.args, defaults, strict=True)]
    pairs += [*zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    for parameter, default in pairs:
        written = ast.unparse(parameter.annotation) if parameter.annotation else "str"
        plain = written.removeprefix("Optional[").removesuffix("]").removesuffix(" | None")
        _require(plain in _SIMPLE | {"bool"} and not isinstance(default, ast.Call))
        name = parameter.arg.replace("_", "-")
        if default is None and plain == "bool":
            raise _Unsure
        if default is None:
            yield Argument(parameter.arg.upper(), parameter.lineno, required=True)
            continue
        both = (f"--{name}", f"--no-{name}") if plain == "bool" else (f"--{name}",)
        yield Argument(both[0], parameter.lineno, both, nargs=0 if plain == "bool" else None)
