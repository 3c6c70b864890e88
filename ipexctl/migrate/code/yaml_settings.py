"""Find uses of the discontinued stack in YAML: Accelerate configs and Kubernetes jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import yaml

from ipexctl.errors import InputError
from ipexctl.migrate.code.launcher_command import LeftOut, Settings, Tables, command_of
from ipexctl.migrate.code.migrate_finding import Command, Edit, Finding, Lines, Reading, found
from ipexctl.migrate.code.shell_code import Around, ShellReader
from ipexctl.user_code.launchers.accelerate_config import read_config
from ipexctl.user_code.launchers.line_request import LineRequest
from ipexctl.user_code.typed_word import Word, as_typed

_ACCELERATE = frozenset({"compute_environment", "distributed_type", "ipex_config", "mpirun_config"})
_JOBS = frozenset({"PyTorchJob", "MPIJob", "TrainJob", "Job", "Pod", "Deployment", "StatefulSet"})
_DEEPEST = 40
_SHELL = re.compile(r"(?:.*/)?(?:ba|z|da|k)?sh")


def read_yaml_settings(text: str, tables: Tables, around: Around, script: str) -> Reading:
    """`script`: the one that an Accelerate configuration is for."""
    try:
        documents = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError, ValueError) as e:
        return Reading(unread=f"not valid YAML: {' '.join(str(e).split())[:160]}")
    readings = []
    for root in documents:
        keys = _keys(root)
        if _ACCELERATE & keys.keys():
            readings.append(_Accelerate(text, tables, root).read(script))
        elif _text(keys.get("kind")) in _JOBS or "services" in keys:
            readings.append(_Job(tables, around, root).read())
    commands = {c.text: c for r in reversed(readings) for c in reversed(r.commands)}
    findings = (f for r in readings for f in r.findings)
    return Reading(tuple(dict.fromkeys(findings)), tuple(sorted(commands.values(), key=_line)))


# --- Accelerate ----------------------------------------------------------------------------------


class _Accelerate:
    def __init__(self, text: str, tables: Tables, root: yaml.Node) -> None:
        self.text, self.tables, self.rules, self.root = text, tables, tables.rules, root
        self.lines = Lines(text)

    def read(self, script: str) -> Reading:
        first, left_out = self.root.start_mark, LeftOut(self.tables)
        own = "\n" * first.line + self.text[first.index : self.root.end_mark.index]
        try:
            request = read_config(own, "Accelerate config", self.tables.keys, left_out)
        except InputError as e:
            left_out(e)
            request = LineRequest("")
        if request.hostfile.startswith("~/"):
            request = replace(request, hostfile=Word(request.hostfile, request.hostfile))
        made = command_of([request], [script], Settings(), left_out)
        command = replace(made, line=first.line + 1, launcher="accelerate launch")
        return Reading(tuple(self._findings(self.root, "")), (command,))

    def _findings(self, node: yaml.Node, above: str) -> Iterator[Finding]:
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        for key, value in pairs:
            name = f"{above}{_text(key)}"
            if rule := self.rules.find("key", name):
                removable = rule.edit and (len(pairs) > 1 or not above)
                edit = self._removed(key, value) if removable else None
                yield found(rule, _text(key), key.start_mark.line + 1, edit)
            elif isinstance(value, yaml.MappingNode) and not above:
                yield from self._findings(value, f"{name}.")

    def _removed(self, key: yaml.Node, value: yaml.Node) -> Edit | None:
        """The lines of a key of a block."""
        start = self.lines.starts[key.start_mark.line]
        if self.text[start : key.start_mark.index].strip():
            return None
        last = _last(value)
        end = self.lines.end(last + 1)
        return Edit(start, end)


def _last(node: Any) -> int:
    """The last line of a value, from 0: the end mark of a block is on a later line."""
    if isinstance(node, yaml.ScalarNode) or node.flow_style or not node.value:
        return int(node.end_mark.line)
    item = node.value[-1]
    return _last(item[1] if isinstance(item, tuple) else item)


# --- Kubernetes ----------------------------------------------------------------------------------


class _Job:
    def __init__(self, tables: Tables, around: Around, root: yaml.Node) -> None:
        self.rules, self.root, self.seen = tables.rules, root, set[int]()
        kind, hosts = _text(_keys(root).get("kind")), dict[str, int]()
        spec = _keys(_keys(root).get("spec"))
        for key in ("pytorchReplicaSpecs", "mpiReplicaSpecs"):
            for role, value in _keys(spec.get(key)).items():
                hosts[role] = _number(_keys(value).get("replicas"))
        if kind == "MPIJob":  # the launcher itself has no ranks
            hosts.pop("Launcher", None)
        each = _text(spec.get("nprocPerNode")) or ("1" if kind == "PyTorchJob" else "")
        ppn = int(each) if each.isdecimal() else None
        job = LineRequest(kind, ppn=ppn, nodes=sum(hosts.values())) if hosts else None
        launcher = kind if kind == "PyTorchJob" else ""
        self.shell = ShellReader(tables, around, edits=False, launcher=launcher, job=job)

    def read(self) -> Reading:
        readings = list(self._readings(self.root, 0))
        findings = (f for r in readings for f in r.findings)
        return Reading(tuple(findings), tuple(c for r in readings for c in r.commands))

    def _readings(self, node: yaml.Node, depth: int) -> Iterator[Reading]:
        if depth > _DEEPEST or id(node) in self.seen:  # an alias is the node that it stands for
            return
        self.seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            keys = _keys(node)
            if "command" in keys or "args" in keys:
                yield self._container(keys)
            for value in keys.values():
                yield from self._readings(value, depth + 1)
        elif isinstance(node, yaml.SequenceNode):
            for value in node.value:
                yield from self._readings(value, depth + 1)

    def _container(self, keys: Mapping[str, yaml.Node]) -> Reading:
        variables, findings = dict[str, Word](), list[Finding]()
        for item in _items(keys.get("env")):
            pair = _keys(item)
            if "name" in pair and "value" in pair:
                name, value = _text(pair["name"]), _text(pair["value"])
                variables[name] = as_typed((value,))[0]
                if rule := self.rules.find("variable", name, value):
                    findings.append(found(rule, name, pair["name"].start_mark.line + 1))
        nodes = [n for key in ("command", "args") for n in _items(keys.get(key))]
        inner = self._commands(nodes, variables)
        found_here = sorted([*findings, *inner.findings], key=lambda one: one.line)
        return Reading(tuple(found_here), inner.commands)

    def _word(self, node: yaml.Node) -> Word:
        (word,) = as_typed((_text(node),))
        return Word(word, word.raw, node.start_mark.line + 1)

    def _commands(self, nodes: Sequence[yaml.Node], variables: dict[str, Word]) -> Reading:
        """The words of command and args together; after sh -c, they are shell text."""
        words = [self._word(n) for n in nodes]
        code = next((i + 1 for i, w in enumerate(words) if re.fullmatch(r"-\w*c", w)), 0)
        shell = bool(words) and _SHELL.fullmatch(words[0]) and 0 < code < len(words)
        if shell or len(words) == 1:
            node = nodes[code if shell else 0]
            text, first = _text(node), node.start_mark.line + 1
            block = getattr(node, "style", "") == "|"
            lines = Lines(text)
            return self.shell.read(
                text, lambda at: first + lines.line_of(at) if block else first, variables
            )
        return self.shell.of([words] if words else [], lambda line: line, variables=variables)


def _number(node: yaml.Node | None) -> int:
    text = _text(node)
    return int(text) if text.isdecimal() else 1


def _items(node: yaml.Node | None) -> Sequence[yaml.Node]:
    """The items of a list; a string is a list of one."""
    if isinstance(node, yaml.SequenceNode):
        return [item for item in node.value if isinstance(item, yaml.Node)]
    return [node] if isinstance(node, yaml.ScalarNode) else []


def _keys(node: yaml.Node | None) -> dict[str, yaml.Node]:
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return {_text(key): value for key, value in pairs}


def _text(node: yaml.Node | None) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def _line(command: Command) -> int:
    return command.line
