"""Read a play's YAML strictly: anything unknown is refused with its position.

The arguments of a step remain nodes until its values on a host are known; step_schema reads them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from collections.abc import Mapping as Values
from dataclasses import field, replace

from ipexctl.base.located_errors import (
    Bad,
    FoundErrors,
    ask_if_meant,
    did_you_mean,
    locate_errors,
    nearest_word,
)
from ipexctl.base.place import Place
from ipexctl.base.yaml_nodes import Mapping, Node, Scalar, Sequence, read_yaml
from ipexctl.play.text.conditions import check_condition
from ipexctl.play.text.play_values import Play, PlayStep
from ipexctl.play.text.step_schema import Step, describe_shape, one_line, read_keys, step_arguments
from ipexctl.quick_dataclass import dataclass

Kinds = Values[str, type[Step]]  # by keyword
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_RESERVED = ("host", "fact", "env", "secret", "item")
# Ansible's name -> what to write instead
HABITS = {
    "tasks": "steps",
    "become": "sudo",
    "with_items": "loop",
    "with_list": "loop",
    "register": "nothing: write the decision in Python (docs/python.md)",
    "gather_facts": "nothing: facts are gathered when a step needs them",
    "block": "nothing: one list of steps",
    "roles": "several files (ipexctl play a.yaml b.yaml)",
    "shell": "sh",
    "command": "sh",
    "raw": "sh",
    "apt": "package",
    "dnf": "package",
    "yum": "package",
    "pip": "install",
    "lineinfile": "line",
    "systemd": "service",
    "get_url": "get",
    "wait_for": "wait",
    "template": "copy with template: true",
    "synchronize": "data, or copy",
    "fail": "assert",
    "delegate_to": "on",
    "become_user": "nothing: sudo is for root",
    "debug": "sh with echo",
    "uri": "get",
    "wait_for_connection": "nothing: reboot waits",
    "script": "copy, then sh",
    "git": "sh with creates",
    "unarchive": "get, then sh with creates",
    "set_fact": "vars",
    "ignore_unreachable": "ignore_errors",
    "import_playbook": "several files",
    "environment": "env of a sh step",
    "pre_tasks": "steps",
    "post_tasks": "steps",
    "remote_user": "user@ in the hostfile, or ssh_config",
    "vars_files": "vars, or -e NAME=VALUE",
    "until": "retries and delay",
    "changed_when": "changes of a sh step",
    "failed_when": "unless, or assert",
    "max_fail_percentage": "any_errors_fatal",
    "no_log": "nothing: ${secret.NAME} is masked in all output",
    "run_once": "on: HOST",
    "local_action": "nothing: it would be Python (docs/python.md)",
    "args": "arguments below the keyword",
    "with_dict": "loop",
    "with_fileglob": "copy of a folder",
    "strategy": "nothing: hosts wait for each other only where they must",
    "become_method": "nothing: it is sudo",
    "include_tasks": "several files",
    "import_tasks": "several files",
    "import_role": "several files",
    "include_role": "several files",
    "vars_prompt": "-e NAME=VALUE, or ${secret.NAME}",
    "connection": "nothing: no -f and no -H is this machine",
    "async": "nothing: run detaches with detach: true",
    "directory": "file: {path: ..., state: directory}",
    "mkdir": "file: {path: ..., state: directory}",
    "folder": "file: {path: ..., state: directory}",
}


@dataclass
class _Reader:
    source: str
    kinds: Kinds
    sudo: bool = False
    number: int = 0
    handler: str = ""  # the handler whose steps are read
    notified: list[Scalar] = field(default_factory=list)
    errors: FoundErrors = field(default_factory=FoundErrors)

    # -- a play --

    def read_root(self, root: Node) -> Play:
        """Read the keys of a play and its steps. Raises InputError with the position."""
        root = self._only_one(root)
        if not isinstance(root, Mapping):
            what = f"expected a play with steps, not {describe_shape(root)}"
            raise Bad(what, hint="steps:\n  - sh: hostname", slug="wrong-yaml-shape").placed(
                root.place
            )
        for key, _ in root.items:
            with self.errors.collect_errors():
                self._require_known(key, step_arguments(Play), "a play")
        keys = read_keys(Play, root, ("steps", "vars", "handlers"))
        self.sudo = keys.get("sudo", False)
        steps = root.get("steps")
        if steps is None:
            self.errors.raise_all()  # an unknown key may be a misspelled `steps`
            what = "this play has no steps"
            raise Bad(what, hint="steps:\n  - sh: hostname", slug="no-steps").placed(root.place)
        return Play(
            source=self.source,
            steps=tuple(self._read_steps(steps, "steps")),
            vars=self._read_vars(root.get("vars")),
            handlers=self._read_handlers(root.get("handlers")),
            hosts_place=node.place if (node := root.get("hosts")) else None,
            **keys,
        )

    def _only_one(self, root: Node) -> Node:
        """Return the only play of a file: Ansible's files are lists of plays."""
        if isinstance(root, Sequence) and len(root.items) == 1:
            return root.items[0]
        if isinstance(root, Sequence):
            what = f"a file holds one play, but this list has {len(root.items)} entries"
            raise Bad(
                what,
                hint="ipexctl play a.yaml b.yaml   # several, one after the other",
                slug="several-plays-in-file",
            ).placed(root.place)
        return root

    def _read_vars(self, node: Node | None) -> dict[str, tuple[str, Place]]:
        """Return name -> (text, position) of the play's variables."""
        variables = {}
        for key, value in self._mapping_items(node, "vars"):
            if not _NAME.fullmatch(key.text) or key.text in _RESERVED:
                what = f"{key.text[:64]!r} cannot be the name of a variable"
                why = f"these names are reserved: {', '.join(_RESERVED)}"
                if key.text not in _RESERVED:
                    why = _NAME_RULE
                raise Bad(what, why=why, slug="not-a-variable-name").placed(key.place)
            if not isinstance(value, Scalar):
                what = f"{key.text}: a variable holds text, not {describe_shape(value)}"
                raise Bad(
                    what, hint="write the list into the argument of a step", slug="wrong-yaml-shape"
                ).placed(value.place)
            variables[key.text] = (value.text, value.place)
        return variables

    def _read_handlers(self, node: Node | None) -> dict[str, tuple[PlayStep, ...]]:
        handlers = {}
        for key, value in self._mapping_items(node, "handlers"):
            self.handler = self._read_name(key)
            handlers[self.handler] = tuple(self._read_steps(value, f"handler {key.text[:64]}"))
        return handlers

    def _read_name(self, key: Scalar) -> str:
        with locate_errors(key.place):
            return one_line(key.text)

    # -- a step --

    def _read_steps(self, node: Node, label: str) -> Iterator[PlayStep]:
        """Yield the steps of a list; errors in one step do not prevent checks of the others."""
        if not isinstance(node, Sequence):
            message = f"{label}: expected a list of steps, not {describe_shape(node)}"
            raise Bad(message, hint="- sh: hostname", slug="wrong-yaml-shape").placed(node.place)
        for item in node.items:
            with self.errors.collect_errors():
                yield from self._expand_loop(self._read_step(item))

    def _expand_loop(self, step: PlayStep) -> Iterator[PlayStep]:
        """Yield a step for each item of its loop."""
        loop = step.loop
        if loop is None:
            yield step
            return
        if not isinstance(loop, Sequence) or not loop.items:
            shape = "an empty list" if isinstance(loop, Sequence) else describe_shape(loop)
            raise Bad(
                f"loop: expected a list, not {shape}", hint="loop: [a, b]", slug="wrong-yaml-shape"
            ).placed(loop.place)
        for n, item in enumerate(loop.items):
            _check_item(item)
            self.number += n > 0
            yield replace(step, number=self.number, item=item)

    def _read_step(self, node: Node) -> PlayStep:
        """Read one step: its keyword with arguments, and the keys beside the keyword."""
        if isinstance(node, Scalar) and node.text in self.kinds:  # `- doctor`
            node = Mapping(((node, Scalar("", node.place, null=True)),), node.place)
        if not isinstance(node, Mapping):
            near = nearest_word(node.text, self.kinds) if isinstance(node, Scalar) else ""
            what = f"expected KEYWORD: ARGUMENTS, not {describe_shape(node)}"
            hint = f"- {self.kinds[near].example}" if near else "- sh: hostname"
            raise Bad(what, hint=hint, slug="wrong-yaml-shape").placed(node.place)
        pairs = [(key, value) for key, value in node.items if key.text in self.kinds]
        beside = self._arguments_beside(pairs, node)
        pairs = [entry for entry in pairs if entry[0] not in beside]
        for key, _ in node.items:
            if key.text not in (*self.kinds, *step_arguments(PlayStep)) and key not in beside:
                self._refuse_outside(key, pairs)
                args = [name for word, _ in pairs for name in step_arguments(self.kinds[word.text])]
                self._require_known(
                    key,
                    step_arguments(PlayStep),
                    "a step",
                    (*args, *step_arguments(PlayStep), *self.kinds),
                )
        if len(pairs) != 1:
            text = " and ".join(key.text for key, _ in pairs)
            what = (
                f"a step takes only one keyword, but this one has {text}" if pairs else _NO_KEYWORD
            )
            hint = f"one of: {', '.join(sorted(self.kinds))}"
            raise Bad(
                what, hint="use a separate step for each" if pairs else hint, slug="not-one-keyword"
            ).placed(node.place)
        key, value = pairs[0]
        if beside:
            main = Scalar(self.kinds[key.text].main, key.place)
            value = Mapping(((main, value), *beside.items()), value.place)
        self.number += 1
        when = node.get("when")
        if when is not None:
            check_condition(when)
        notify = node.get("notify")
        names = notify.items if isinstance(notify, Sequence) else (notify,)
        self.notified += [name for name in names if isinstance(name, Scalar)]
        keys = {"sudo": self.sudo, **read_keys(PlayStep, node, ("when", "loop"))}
        return PlayStep(
            number=self.number,
            kind=key.text,
            node=value,
            place=key.place,
            when=when,
            loop=node.get("loop"),
            handler=self.handler,
            **keys,
        )

    def _arguments_beside(
        self, pairs: list[tuple[Scalar, Node]], node: Mapping
    ) -> dict[Scalar, Node]:
        """Accept `sh: make` with `creates: ...` beside it; the value alone is the main argument.

        An argument may have the name of a keyword: `env`.
        """
        for key, value in pairs:
            kind = self.kinds[key.text]
            names = step_arguments(kind).keys() - {kind.main} - step_arguments(PlayStep).keys()
            if not kind.main or isinstance(value, Mapping):
                continue
            if not all(k is key or k.text in names for k, _ in pairs):
                continue
            return {k: v for k, v in node.items if k is not key and k.text in names}
        return {}

    def _refuse_outside(self, key: Scalar, pairs: list[tuple[Scalar, Node]]) -> None:
        """Raise InputError if a key beside the keyword is an argument that belongs below it."""
        for keyword, value in pairs:
            if key.text not in step_arguments(self.kinds[keyword.text]):
                continue
            what = f"{key.text} is an argument of {keyword.text}, and must be indented below it"
            hint = f"{keyword.text}:\n    {key.text}: ...   # indented below {keyword.text}"
            if isinstance(value, Mapping):
                hint = f"{key.text}: ... with the other arguments of {keyword.text}"
            raise Bad(what, hint=hint, slug="argument-outside-step").placed(key.place)

    def check_notified(self, play: Play) -> None:
        for name in self.notified:
            if name.text not in play.handlers:
                near = did_you_mean(name.text, play.handlers)
                what = f"there is no handler {name.text[:64]!r}{near}"
                hint = "" if near else f"handlers:\n  {name.text[:64]}: [...]"
                with self.errors.collect_errors():
                    raise Bad(what, hint=hint, slug="unknown-handler").placed(name.place)

    # -- values --

    def _require_known(
        self, key: Scalar, known: Collection[str], label: str, near: Collection[str] = ()
    ) -> None:
        """Raise InputError for a key that is not in `known`, with the likely correction."""
        if key.text in known:
            return
        base = key.text.rpartition(".")[2]
        habit = HABITS.get(base)
        if base != key.text and base in self.kinds and not habit:
            habit = base
        if key.text in self.kinds and known is step_arguments(Play):
            raise Bad(
                f"{key.text} is a step",
                hint=f"steps:\n  - {key.text}: ...",
                slug="step-outside-steps",
            ).placed(key.place)
        hint = f"use {habit} instead of {key.text}" if habit else ""
        if habit and habit.startswith(_NOTHING):
            hint = f"leave it out: {habit.removeprefix(_NOTHING)}"
        words = near or known
        nearest = "" if habit else nearest_word(key.text, words)
        if not nearest:  # `apt`, `aptt`
            habit = habit or HABITS.get(nearest_word(key.text, HABITS), "")
            nearest = habit if habit in words else ""
        raise Bad(
            f"unknown key {key.text[:64]!r} in {label}{'' if hint else ask_if_meant(nearest)}",
            hint=hint or ("" if nearest else f"keys: {', '.join(words)}"),
            slug="unknown-key",
            meant=(key.text, nearest),
        ).placed(key.place)

    def _mapping_items(self, node: Node | None, label: str) -> tuple[tuple[Scalar, Node], ...]:
        if node is None or (isinstance(node, Scalar) and node.null):
            return ()
        if not isinstance(node, Mapping):
            message = f"{label}: expected NAME: VALUE, not {describe_shape(node)}"
            raise Bad(message, slug="wrong-yaml-shape").placed(node.place)
        return node.items


def _check_item(node: Node) -> None:
    values = node.items if isinstance(node, Mapping) else (("item", node),)
    for key, value in values:
        if isinstance(key, Scalar) and not _NAME.fullmatch(key.text):
            error = Bad(
                f"loop: {key.text[:64]!r} cannot be a name",
                why=_NAME_RULE,
                slug="not-a-variable-name",
            )
            raise error.placed(key.place)
        if not isinstance(value, Scalar) or value.null:
            what = f"loop: an item is a value or a mapping of values, not {describe_shape(value)}"
            hint = "loop: [{name: a, size: 1}, {name: b, size: 2}]"
            raise Bad(what, hint=hint, slug="wrong-yaml-shape").placed(value.place)


_NOTHING = "nothing: "
_NAME_RULE = "a name consists of letters, digits and _, at most 64"
_NO_KEYWORD = "this step has no keyword"


def read_play(text: str, source: str, kinds: Kinds) -> Play:
    """Read a play. `kinds`: the known steps. Raises InputError with the position."""
    reader = _Reader(source, kinds)
    root = read_yaml(text, source, "a play")
    with reader.errors.collect_errors():
        play = reader.read_root(root)
        reader.check_notified(play)
    reader.errors.raise_all()
    return play
