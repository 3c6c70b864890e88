"""What may stand in the repository: every tracked file is looked at."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ipexctl

ROOT = Path(__file__).parents[2]
VENDORS_MAY = ("ipexctl/stack/stacks.toml", "docs/stacks.md")
LONGEST = 700
LONGEST_FUNCTION = 60
SAID = ("what", "why", "hint")


def _hosts(*parts: tuple[str, str]) -> str:
    """A pattern for host names; written in two parts, so that this file does not match itself."""
    return "|".join(re.escape(f"{name}.{end}") for name, end in parts)


REGISTRIES = _hosts(
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("debian", "org/debian"),
    ("deb.debian", "org"),
    ("archive.ubuntu", "com"),
    ("anaconda", "org"),
    ("npmjs", "org"),
    ("crates", "io"),
    ("huggingface", "co"),
)
VENDORS = _hosts(("download.pytorch", "org"), ("pytorch-extension.intel", "com"))
# Paths of one developer's machine.
MACHINES = "|".join(["/" + "work/(?:main|shared|\\.library)", "/opt/" + "(?:wheels|pypi|runenv)"])


def _tracked() -> list[str]:
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def _matches(pattern: str, *, but_not_in: tuple[str, ...] = ()) -> list[str]:
    found = []
    for name in _tracked():
        if name in but_not_in:
            continue
        text = (ROOT / name).read_bytes().decode("utf-8", "replace")
        for number, line in enumerate(text.splitlines(), 1):
            found += [f"{name}:{number}: {m[0]}" for m in re.finditer(pattern, line)]
    return found


def test_no_file_names_a_package_registry() -> None:
    assert _matches(REGISTRIES) == []


def test_vendor_indexes_stand_only_in_the_version_table_and_its_page() -> None:
    assert _matches(VENDORS, but_not_in=VENDORS_MAY) == []


def test_no_file_names_a_path_of_one_machine() -> None:
    assert _matches(MACHINES) == []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (REGISTRIES, "index-url = https://pypi." + "org/simple"),
        (VENDORS, "https://download.pytorch." + "org/whl/cpu"),
        (MACHINES, "cd /work" + "/main"),
        (MACHINES, "--find-links /opt" + "/wheels"),
    ],
)
def test_the_patterns_find_what_they_are_for(pattern: str, text: str) -> None:
    assert re.search(pattern, text)


def test_scripts_that_are_called_by_name_are_executable() -> None:
    scripts = [".ci/run", "tools/bootstrap.sh", "tests/clean-room.sh", "examples/demo.sh"]
    assert [s for s in scripts if not os.access(ROOT / s, os.X_OK)] == []


def test_no_lock_of_one_machines_resolver_is_tracked() -> None:
    assert [name for name in _tracked() if Path(name).name == "uv.lock"] == []


def test_no_function_is_too_long_but_those_that_declare_options() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in (ROOT / "ipexctl").rglob("*.py")
        for node in _functions(path)
        if (node.end_lineno or 0) - node.lineno >= LONGEST_FUNCTION
        and not path.stem.endswith("cli")
    ]
    assert long == []


def _functions(path: Path) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef):
            yield node


def test_no_source_file_is_longer_than_one_can_read() -> None:
    long = {
        name: lines
        for name in _tracked()
        if name.endswith(".py")
        and (lines := len((ROOT / name).read_text("utf-8").splitlines())) >= LONGEST
    }
    assert long == {}


def _forgotten_f(source: str) -> list[str]:
    """Texts of errors with a {name} in them that nobody fills in."""
    tree = ast.parse(source)
    said = [k.value for k in ast.walk(tree) if isinstance(k, ast.keyword) and k.arg in SAID]
    said += [a for r in ast.walk(tree) if isinstance(r, ast.Raise) for a in _arguments(r.exc)]
    filled = {
        id(part)
        for text in (node for one in said for node in ast.walk(one))
        if isinstance(text, ast.JoinedStr | ast.Attribute)  # f"..." and "...".format
        for part in ast.walk(text)
    }
    texts = (node for one in said for node in ast.walk(one) if isinstance(node, ast.Constant))
    return sorted(
        {
            f"{text.lineno}: {text.value}"
            for text in texts
            if isinstance(text.value, str)
            and id(text) not in filled
            and re.search(r"\{[a-z_]\w*\}", text.value)
        }
    )


def _arguments(call: ast.expr | None) -> list[ast.expr]:
    return call.args if isinstance(call, ast.Call) else []


def test_no_text_of_an_error_lacks_its_f() -> None:
    found = {
        name: lines
        for name in _tracked()
        if name.startswith("ipexctl/") and name.endswith(".py")
        and (lines := _forgotten_f((ROOT / name).read_text("utf-8")))
    }  # fmt: skip
    assert found == {}


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ('raise E(f"no {x}", hint="push {name}")', ["1: push {name}"]),
        ('raise E("no {x}")', ["1: no {x}"]),
        ('e = E(what, why="a" if b else "{c}" + f"{d}")', ["1: {c}"]),
        ('E(what, hint="{a}".format(a=1), why=f"{b}{{c}} {d:{e}}")', []),
        ('raise E("- {name: node2}", why="{}")', []),
    ],
)
def test_a_forgotten_f_is_found(source: str, lines: list[str]) -> None:
    assert _forgotten_f(source) == lines


def test_version_is_said_once_and_everywhere_the_same() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "ipexctl", "--version"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == f"ipexctl {ipexctl.__version__}\n"
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.search(rf"^## {re.escape(ipexctl.__version__)}\b", changes, re.MULTILINE)


def test_architecture_has_each_process_that_hosts_fork() -> None:
    """Each file that forks, and the name of each process that has one of its own."""
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    table = text.partition("## The processes of a run on a host")[2].partition("\n## ")[0]
    sources = {path: path.read_text("utf-8") for path in (ROOT / "ipexctl/remote").rglob("*.py")}
    forking = [path for path, source in sources.items() if "os.fork()" in source]
    assert len(forking) > 3
    assert [path.name for path in forking if f"{path.parent.name}/{path.name}`" not in table] == []
    named = re.findall(r'"(ipexctl-[a-z]+)"', "".join(sources.values()))
    assert sorted(set(named) - set(re.findall(r"`(ipexctl-[a-z]+)`", table))) == []
    assert "ipexctl-run" in named and "ipexctl-keeper" in named
