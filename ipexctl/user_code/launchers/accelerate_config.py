"""Read an Accelerate config as a request for a run. accelerate_keys.toml lists the keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from ipexctl.base import toml, yaml_nodes
from ipexctl.base.located_errors import Bad, did_you_mean
from ipexctl.base.yaml_nodes import Mapping, Node, Scalar, read_yaml
from ipexctl.quick_dataclass import dataclass
from ipexctl.user_code.launchers.launcher_table import Flag, flag_of, listed_values
from ipexctl.user_code.launchers.line_request import (
    NUMBER,
    Given,
    LineRequest,
    request_of,
)

_TRUE = frozenset({"true", "yes", "on"})
_FALSE = frozenset({"false", "no", "off"})
_NUMBERS = frozenset({"ranks", "host-count"})


@dataclass(frozen=True)
class Keys:
    """The keys; each has one name: num_processes, dynamo_config.dynamo_mode, fsdp_config.*"""

    all: tuple[Flag, ...]

    @property
    def sections(self) -> frozenset[str]:
        names = (key.names[0] for key in self.all)
        return frozenset(name.partition(".")[0] for name in names if "." in name)

    def find_keys(self, name: str) -> tuple[Flag, ...]:
        section = name.partition(".")[0]
        return tuple(key for key in self.all if key.names[0] in (name, f"{section}.*"))


def parse_keys(text: str) -> Keys:
    return Keys(tuple(flag_of(raw, [raw["key"]]) for raw in toml.loads(text)["keys"]))


def read_config(text: str, source: str, keys: Keys) -> LineRequest:
    """Read a config. Raises InputError for an unsupported key, with its position."""
    root = read_yaml(text, source)
    if not isinstance(root, Mapping):
        raise Bad(
            "this is not an Accelerate config",
            hint="accelerate config",
            slug="not-an-accelerate-config",
        ).placed(root.place)
    options = list[Given]()
    for name, node in _flatten_config(root, keys):
        try:
            options += _read_key(name, node, keys)
        except Bad as e:
            raise e.placed(node.place) from None
    ignored = list[tuple[str, str]]()
    if any(
        key.text == "distributed_type" and _scalar_text(value) == "no" for key, value in root.items
    ):
        options, ignored = _as_one_process(options)
    request = request_of(source, options)
    return replace(request, ignored=(*request.ignored, *ignored))


def _as_one_process(options: list[Given]) -> tuple[list[Given], list[tuple[str, str]]]:
    """Ignore numbers of processes: Accelerate starts one for distributed_type NO."""
    over = [row for row in options if row.flag.becomes in _NUMBERS and row.value != "1"]
    why = "with distributed_type: NO, Accelerate starts one process; -n N starts N ranks"
    ignored = [(f"{row.flag.names[0]}: {row.value}", why) for row in over]
    return [_given_option(row.flag, "1") if row in over else row for row in options], ignored


def _flatten_config(root: Mapping, keys: Keys) -> Iterator[tuple[str, Scalar | Node]]:
    """Yield pairs of section.key and value, without empty sections and lists."""
    for key, value in root.items:
        if key.text in keys.sections and isinstance(value, Mapping):
            for subkey, node in value.items:
                yield f"{key.text}.{subkey.text}", node
        elif key.text in keys.sections and isinstance(value, Scalar) and value.null:
            continue
        else:
            yield key.text, value


def _read_key(name: str, node: Node, keys: Keys) -> list[Given]:
    """Return the key's row of the table, with its value; empty for a default value. Raises Bad."""
    entries = keys.find_keys(name)
    value = _scalar_text(node)
    if not entries:
        names = [row.names[0] for row in keys.all]
        raise Bad(
            f"unknown key {name}{did_you_mean(name, names)}",
            why="ipexctl interprets the keys of this file itself and does not know this one",
            hint="remove it, or use an option of ipexctl run",
            slug="accelerate-key-unknown",
        )
    if any(value in key.default for key in entries):
        return []
    for key in entries:
        if re.fullmatch(key.value or "(?s:.*)", value):
            if key.becomes == "refused":
                message = f"{name}: {value or 'a list or mapping'} is not supported here"
                raise Bad(message, why=key.why, hint=key.type, slug="accelerate-key-unsupported")
            if key.becomes in _NUMBERS and not re.fullmatch(NUMBER, value):
                raise Bad(
                    f"{name}: {value}: expected a whole number of at least 1", slug="not-a-count"
                )
            return [_given_option(key, value)]
    accepted = [key for key in entries if key.becomes != "refused"]
    values = listed_values(text for key in accepted for text in (*key.default, key.value) if text)
    why = f"supported values: {values}" if values else ""
    raise Bad(f"{name}: {value}: unknown value", why=why, slug="unknown-value")


def _given_option(key: Flag, value: str) -> Given:
    name = key.names[0]
    typed = f"{name}: {value}" if key.becomes == "ignored" else f"{name.rpartition('.')[2]} {value}"
    return Given(key, value.upper() if key.upper else value, typed)


def _scalar_text(node: Node) -> str:
    """Return "yes", "no", or the text; "" for no value."""
    if not isinstance(node, Scalar):
        return "" if isinstance(node, yaml_nodes.Sequence) and not node.items else "..."
    if node.null:
        return ""
    lower = node.text.lower()
    return "yes" if lower in _TRUE else "no" if lower in _FALSE else node.text
