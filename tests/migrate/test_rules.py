"""Each rule by its own example, and what the table may not have."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from ipexctl.local.shipped_tables import migration_rules
from ipexctl.migrate.migrate import migrate
from ipexctl.run.script.context import HostEnvironment, ProjectFiles
from ipexctl.run.script.review import Review
from ipexctl.user_code.migration_rules import Rule
from ipexctl.user_code.source_reader import read_source
from tests.cli import ipexctl

RULES = migration_rules().all


def given(folder: Path, rule: Rule) -> Path:
    """The rule's example as a file."""
    path = folder / rule.file
    path.write_text(rule.example)
    return path


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_finds_its_example_once(rule: Rule, tmp_path: Path) -> None:
    path = given(tmp_path, rule)
    (file,) = migrate([str(path)]).files
    (one,) = [f for f in file.reading.findings if f.rule == rule][-1:]
    assert "{" not in one.text and "\n" not in one.text
    if rule.kind not in ("import", "name"):  # an example imports what it uses
        assert [f.rule.id for f in file.reading.findings if f.rule.kind == rule.kind] == [rule.id]


def test_the_example_of_the_page_is_what_is_printed(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/migrate.md").read_text("utf-8")
    given, printed = page.partition("For this `run.sh`\n")[2].split("it prints\n")
    (tmp_path / "run.sh").write_text(textwrap.dedent(given).strip() + "\n")
    done = ipexctl("migrate", "run.sh", cwd=tmp_path)
    assert done.stdout.strip() == textwrap.dedent(printed.partition("## ")[0]).strip()


def test_a_rule_says_since_when_and_where_that_was_read() -> None:
    assert [r.id for r in RULES if not r.source or not r.since] == []
    assert len({r.id for r in RULES}) == len(RULES)


ARGUMENTS = [r for r in RULES if r.kind == "argument" and r.file == "train.py"]


@pytest.mark.parametrize("rule", ARGUMENTS, ids=lambda rule: rule.id)
def test_the_preflight_of_a_run_says_the_same(rule: Rule, tmp_path: Path) -> None:
    """It adds which version the hosts have."""
    (file,) = migrate([str(given(tmp_path, rule))]).files
    (one,) = file.reading.findings
    hosts = [HostEnvironment("node01", {"transformers": "5.23.0", "accelerate": "1.15.0"})]
    source = read_source("train.py", rule.example, main=True)
    files = ProjectFiles(("train.py",))
    notes = Review([source], ("train.py",), hosts, files, migration_rules()).notes()
    advice = f"{one.text}, the hosts have 5.23.0; {one.advice}"
    assert [note for note in notes if advice in note], notes
