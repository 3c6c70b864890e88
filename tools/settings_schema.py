"""ipexctl/schema/settings.json, from the declarations that the reader of ipexctl.toml uses."""

from __future__ import annotations

from typing import Any

from ipexctl.local.settings_file import LARGEST, NAME, SECTIONS, SettingKind, setting_kinds

SECTION_DOCS = {
    "run": "Options of ipexctl run; those on the command line override them.",
    "prune": "Limits of what is kept; only in ~/.config/ipexctl/config.toml.",
}


def settings_schema() -> dict[str, Any]:
    found = {key: _json_schema(kind) for key, kind in setting_kinds().items()}
    top = {key: schema for key, schema in found.items() if "." not in key}
    for name in SECTIONS:
        inner = {k.partition(".")[2]: s for k, s in found.items() if k.startswith(f"{name}.")}
        top[name] = {"description": SECTION_DOCS[name], **_object(inner)}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Settings of ipexctl",
        **_object(top),
    }


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _json_schema(kind: SettingKind) -> dict[str, Any]:
    default = {} if kind.default in (None, "", {}, ()) else {"default": kind.default}
    return {"description": kind.doc, **_json_type(kind), **default}


def _json_type(kind: SettingKind) -> dict[str, Any]:
    if kind.choices:
        return {"enum": list(kind.choices)}
    if kind.type is int:
        return {"type": "integer", "minimum": kind.least, "maximum": LARGEST}
    if kind.type is dict:
        names = {"pattern": f"^{NAME}$"}
        values = {"type": ["string", "integer"]}
        return {"type": "object", "propertyNames": names, "additionalProperties": values}
    if kind.type is tuple:
        return {"type": "array", "items": {"type": "string"}}
    if kind.type is bool:
        return {"type": "boolean"}
    return {"type": "string", "pattern": r"^[^\x00-\x1f\x7f]+$"}
