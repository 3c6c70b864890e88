"""What the pages show as hostfiles is read as they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ipexctl.inventory.hostfile_formats import FORMS
from ipexctl.inventory.hostfile_text import parse_hostfile
from ipexctl.local.settings import VARIABLES
from ipexctl.local.settings_file import parse_settings, setting_kinds

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "hosts.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("kind", "counts"), [("hostfile", [27, 2]), ("yaml", [7, 4]), ("ini", [3])]
)
def test_every_example_of_the_page_names_its_hosts(kind, counts):
    texts = [text for found, text in BLOCKS if found == kind]
    name = "hosts.yaml" if kind == "yaml" else "hosts"
    assert [len(parse_hostfile(text, name).hosts) for text in texts] == counts


def test_the_settings_of_the_page_are_all_there_are():
    (text,) = (text for kind, text in BLOCKS if kind == "toml")
    assert parse_settings(text, "t").keys() == setting_kinds().keys()
    names = {name for names in VARIABLES.values() for name in names}
    assert [name for name in sorted(names) if f"`{name}`" not in PAGE] == []


def test_every_form_is_on_the_page():
    table = PAGE.partition("## Converting")[2].partition("\n\n##")[0]
    assert {form for form in FORMS if f"--to {form}`" not in table} == set()


def test_the_hostfile_of_the_readme_is_read():
    readme = (ROOT / "README.md").read_text("utf-8")
    (text,) = re.findall(r"\n\n((?:    .*\n)*    bignode slots=4\n)", readme)
    found = parse_hostfile(text, "hosts")
    assert [(h.name, h.user, h.port, h.slots) for h in found.hosts] == [
        *((f"node0{i}", "", 0, 0) for i in (1, 2, 3, 4)),
        ("10.0.0.7", "trainer", 2222, 0),
        ("bignode", "", 0, 4),
    ]
