"""`--help` of every command: 80 columns, options in groups, examples that work, no fragments."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ipexctl.cli import help_layout, lazy_group
from tests.cli import command_tree, ipexctl

ROOT = Path(__file__).parents[2]
FRAGMENT = re.compile(r"(?:Of|As|Whose|Whom)\b")


COMMANDS = dict(command_tree())
SHARED = {"hostfile", "hosts", "limit", "exclude", "root", "forks"}
SHARED |= {"ssh_config", "ask_pass", "transport"}


def _shown(path: str, *words: str) -> str:
    env = {"PATH": "", "HOME": "/nonexistent", "COLUMNS": "80", "NO_COLOR": "1"}
    done = ipexctl(*path.split(), *words, cwd=ROOT, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("path", COMMANDS)
def test_help_fits_80_columns_and_ends_with_the_examples(path: str) -> None:
    """That the command line takes these examples, test_doc_commands.py shows."""
    short, full = _shown(path, "--help"), _shown(path, "--help", "all")
    assert [line for line in (short + full).splitlines() if len(line) > 80] == []
    examples = COMMANDS[path].epilog
    assert examples.startswith(f"  ipexctl {path}".rstrip())
    assert full.endswith(f"\n\nExamples:\n{examples}\n")
    last = "" if short == full or not path else f"\nAll options: ipexctl {path} --help all\n"
    assert short.endswith(f"\n\nExamples:\n{examples}\n{last}")


@pytest.mark.parametrize("path", [p for p, c in COMMANDS.items() if not hasattr(c, "commands")])
def test_help_all_explains_each_option_and_help_names_the_shared_ones(path: str) -> None:
    short, full = _shown(path, "--help"), _shown(path, "--help", "all")
    words = {"rare": set(), "shared": set(), "frequent": set()}
    for option in COMMANDS[path].params:
        if option.param_type_name == "option":
            shared = option.name in SHARED
            rare = option.name in getattr(COMMANDS[path].callback, "rare", ())
            words["shared" if shared else "rare" if rare else "frequent"].add(option.opts[0])
    rows = {re.split(r"[ ,]+", line.strip())[0] for line in full.splitlines()}
    brief = {re.split(r"[ ,]+", line.strip())[0] for line in short.splitlines()}
    assert rows >= words["shared"] | words["rare"] | words["frequent"]
    assert brief >= words["frequent"]
    assert brief & words["rare"] == set()
    named = short.partition("\nExamples:")[0].rpartition(":\n")[2] if words["shared"] else ""
    assert set(re.findall(r"(?<![\w-])-[\w-]+", named)) >= words["shared"]


def test_the_help_of_run_is_two_screens_and_its_examples_name_frequent_options() -> None:
    assert len(_shown("run", "--help").splitlines()) <= 48
    rare = COMMANDS["run"].callback.rare
    assert "yes" in rare and "yes" not in COMMANDS["tune"].callback.rare, "an option of its own"
    assert {"stall", "ports", "ui"} <= rare
    assert rare.isdisjoint({"n", "ppn", "name", "detach", "timeout", "restarts", "fetch"})


def test_what_the_sources_say_of_a_command_is_what_is_imported() -> None:
    for name, entry in lazy_group.find_commands().items():
        help = " ".join(COMMANDS[name].help.split())
        assert help.startswith(entry.brief), name
        assert lazy_group.declaration_of(name) == lazy_group.found_at(entry.place).declaration
    declaring = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in (ROOT / "ipexctl").rglob("*cli.py")
        for line in path.read_text("utf-8").splitlines()
        if re.match(r"@command(_group)?\(", line)
    ]
    assert len(declaring) == len(lazy_group.find_commands()) > 30


NEW = '''
@command("Runs", 15)
@on_hosts()
def greet(*, target: Any) -> None:
    """Greet
    every host. Then leave.
    """
'''


def test_a_new_command_takes_the_files_of_its_folder_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = {path: path.read_text("utf-8") for path in (ROOT / "ipexctl").rglob("*cli.py")}
    for path, text in old.items():
        copy = tmp_path / path.relative_to(ROOT / "ipexctl")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text)
    (tmp_path / "greet").mkdir()
    (tmp_path / "greet/cli.py").write_text(NEW)
    monkeypatch.setattr(lazy_group, "_PACKAGE", tmp_path)
    found = lazy_group.find_commands.__wrapped__()
    entry = found.pop("greet")
    assert entry == lazy_group.CommandEntry("greet.cli:greet", "Greet every host.", "Runs")
    assert found == lazy_group.find_commands()


def test_an_option_is_in_the_same_group_in_every_command() -> None:
    """What an option is called in several commands and does in one way."""
    shared = (
        "hostfile", "hosts", "limit", "exclude", "forks", "ssh_config", "ask_pass", "transport",
        "json", "merge", "fetch_limit", "no_fold", "ui", "torch", "mpi", "find_links", "check",
    )  # fmt: skip
    groups: dict[str, set[str]] = {}
    for command in COMMANDS.values():
        for option in command.params:
            if option.name in shared:
                group = getattr(option, "rich_help_panel", None) or "Options"
                groups.setdefault(option.name, set()).add(group)
    assert set(groups) == set(shared)
    assert {name: found for name, found in groups.items() if len(found) > 1} == {}
    assert {group for found in groups.values() for group in found} <= set(help_layout.GROUPS)


def test_no_help_is_a_fragment() -> None:
    texts = [
        text
        for path, command in COMMANDS.items()
        for text in (command.help, command.short_help, *(p.help for p in _documented(command)))
        if text
    ]
    assert len(texts) > 200
    assert [text for text in texts if FRAGMENT.match(text)] == []
    assert [text for text in texts if text[0].islower() and not text.startswith(_NAMES)] == []


_NAMES = ("glibc", "ipexctl", "quick:")  # these begin with a name


def _documented(command: Any) -> list[Any]:
    return [p for p in command.params if getattr(p, "help", None)]


def test_ipexctl_alone_leads_with_the_first_four_commands() -> None:
    done = ipexctl(cwd=ROOT, env={"PATH": "", "HOME": "/nonexistent", "COLUMNS": "80"})
    lines = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert len(lines) <= 24
    assert [line for line in lines if len(line) > 80] == []
    first = re.findall(r"ipexctl ([a-z]+)", done.stderr)[:4]
    assert first == ["init", "doctor", "install", "run"]
    words = set(re.findall(r"[a-z]+", done.stderr))
    frequent = lazy_group.find_commands().keys() - lazy_group.RARE
    assert [name for name in frequent if name not in words] == []
