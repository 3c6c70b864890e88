"""What may stand in a play and beside the keyword of a step; for reader, docs and schema."""

from __future__ import annotations

from typing import Any

_TEXT = {"type": "string"}
_WORDS = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]}
_FLAG = {"type": "boolean"}
_VALUE = {"type": ["string", "number", "boolean"]}
_COUNT = {"type": "integer", "minimum": 0}
_STEPS = {"type": "array", "items": {"$ref": "#/$defs/step"}}
_VALUES = {"anyOf": [_VALUE, {"type": "array", "items": _VALUE}]}
_TEST = {
    "anyOf": [
        *_VALUES["anyOf"],
        {
            "type": "object",
            "properties": {"not": _VALUES, "min": _VALUE, "max": _VALUE},
            "additionalProperties": False,
        },
    ]
}

PLAY_KEYS: dict[str, tuple[str, dict[str, Any]]] = {
    "name": ("A title for outputs.", _TEXT),
    "hosts": ("Host pattern over the hosts of -f, -H or the settings. Default: all.", _WORDS),
    "vars": (
        "Default values of variables. -e and the variables of hosts and groups override them.",
        {"type": "object", "additionalProperties": _VALUE},
    ),
    "steps": ("What to do, in this order.", _STEPS),
    "handlers": (
        (
            "NAME: steps. They run once at the end, on hosts where a step that notifies them "
            "changed something."
        ),
        {"type": "object", "additionalProperties": _STEPS},
    ),
    "sudo": ("Run all steps as root, except those with sudo: false.", _FLAG),
    "any_errors_fatal": ("If a step fails on one host, stop on all hosts.", _FLAG),
    "serial": ("Number of hosts to process at a time. Default: all.", _COUNT),
}
_ITEM = {"anyOf": [_VALUE, {"type": "object", "additionalProperties": _VALUE}]}
STEP_KEYS: dict[str, tuple[str, dict[str, Any]]] = {
    "name": ("Name of the step, for the output and --from.", _TEXT),
    "tags": ("For --tags and --skip-tags; always and never as in Ansible.", _WORDS),
    "when": (
        "Facts and variables that must have these values.",
        {"type": "object", "additionalProperties": _TEST},
    ),
    "on": ("Host pattern: only these of the play's hosts.", _WORDS),
    "loop": (
        "Do the step once for each value, as ${item}, or mapping, as ${item.NAME}.",
        {"type": "array", "items": _ITEM, "minItems": 1},
    ),
    "sudo": ("Run as root.", _FLAG),
    "notify": ("Handlers to run at the end if the step changes something.", _WORDS),
    "ignore_errors": ("A failure does not stop the host.", _FLAG),
    "retries": ("Number of retries after a failure.", _COUNT),
    "delay": ("Time between retries. Default: 5 s.", _VALUE),
}
