"""The schema of ipexctl.toml that editors use, and its reader, accept the same."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ipexctl.base import toml
from ipexctl.errors import InputError
from ipexctl.local.run_options import COMPRESSIONS
from ipexctl.local.settings_file import SettingKind, parse_settings, setting_kinds
from ipexctl.remove.prune_limits import PruneLimits
from ipexctl.schema.schema_files import LINES, schema_file, schema_line
from tests.inventory.conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))

from settings_schema import settings_schema  # noqa: E402

SCHEMA = json.loads(schema_file("settings").read_text("utf-8"))
VALUES = (
    "1", "0", "-1", "999999", "1000000", "1.5", "true", '"fp16"', '"a\\nb"', '""', "[1]", '["a"]',
    "{}",
    '{ A = "b", C = 1 }', '{ "A B" = 1 }', "{ A = true }", "{ A = [1] }",
)  # fmt: skip


def schema_takes(text: str) -> bool:
    return bool(jsonschema.Draft7Validator(SCHEMA).is_valid(toml.loads(text)))


def reader_takes(text: str) -> bool:
    try:
        parse_settings(text, "t")
    except InputError:
        return False
    return True


def test_the_shipped_schema_is_that_of_the_declarations() -> None:
    assert settings_schema() == SCHEMA
    jsonschema.Draft7Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("key", setting_kinds())
def test_reader_and_schema_agree_on_every_key(key: str) -> None:
    taken = {value: reader_takes(f"{key} = {value}\n") for value in VALUES}
    assert {value: schema_takes(f"{key} = {value}\n") for value in VALUES} == taken
    assert any(taken.values()) or setting_kinds()[key].choices
    for wrong in (f"{key}x", f"x{key}", key.upper()):
        assert not schema_takes(f"{wrong} = 1\n") and not reader_takes(f"{wrong} = 1\n")


def test_every_key_has_a_description() -> None:
    kinds: dict[str, SettingKind] = setting_kinds()
    assert [key for key, kind in kinds.items() if not kind.doc.endswith(".")] == []
    assert kinds["run.compress"].choices == COMPRESSIONS
    limits: dict[str, Any] = vars(PruneLimits())
    assert {k: v.default for k, v in kinds.items() if k.startswith("prune.")} == {
        f"prune.{name}": value for name, value in limits.items()
    }


def test_the_settings_in_the_docs_are_valid() -> None:
    blocks = [
        block
        for page in sorted((ROOT / "docs").rglob("*.md"))
        for block in re.findall(r"^```toml\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
        if reader_takes(block)
    ]
    assert len(blocks) >= 2 and [block for block in blocks if not schema_takes(block)] == []


def test_new_settings_files_name_their_schema(shell) -> None:
    assert shell("init", "--no-probe", "a").returncode == 0
    text = (shell.folder / "ipexctl.toml").read_text()
    assert text.splitlines()[0] == schema_line("settings") and schema_takes(text)
    printed = shell("schema").stdout
    assert [schema_line(name) in printed for name in LINES] == [True, True]
    for name in LINES:
        assert shell("schema", name).stdout == schema_file(name).read_text("utf-8")
        assert Path(schema_line(name).partition("file://")[2]).is_file()
    assert shell("schema", "nosuch").slug == "unknown-value"
