"""The user's own project: its packages are importable on the hosts, with and without Git."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from ipexctl.local.import_roots import import_roots
from tests.env.test_project_env import Projects, projects
from tests.install.conftest import Shop, make_wheel, shop

__all__ = ["projects", "shop"]

PYPROJECT = """
[project]
name = "my-pkg"
version = "0.1"
dependencies = ["first"]
[project.optional-dependencies]
train = ["second"]
"""
SCRIPT = "import my_pkg.words; print(my_pkg.words.__name__)\n"


def laid_out(folder: Path, src: str, script: str, more: str = "") -> Path:
    package = folder / src / "my_pkg"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "words.py").touch()
    (folder / script).parent.mkdir(exist_ok=True)
    (folder / script).write_text(SCRIPT)
    (folder / "pyproject.toml").write_text(PYPROJECT + more)
    return folder


POETRY = '[tool.poetry]\npackages = [{include = "my_pkg", from = "lib"}]\n'
LAYOUTS = [
    ("src", "src", "train.py", ""), ("a script beside src", "src", "scripts/train.py", ""),
    ("flat, and a script below", ".", "scripts/train.py", ""),
    ("another folder", "lib", "train.py", POETRY),
]  # fmt: skip


@pytest.mark.parametrize("git", [True, False])
def test_its_packages_are_importable_on_the_hosts(
    projects: Projects, git: bool, subtests: pytest.Subtests
) -> None:
    projects.install(projects.make("alpha"))
    for number, (title, src, script, more) in enumerate(LAYOUTS):
        with subtests.test(title):
            folder = laid_out(projects.shop.folder / f"mine{number}", src, script, more)
            if git:
                subprocess.run(["git", "init", "-q", str(folder)], check=True)
            _import_own_package(projects, folder, script)


def _import_own_package(projects: Projects, folder: Path, script: str) -> None:
    for start, name in ((folder, script), ((folder / script).parent, Path(script).name)):
        done = projects.run(start, "--json", name)
        assert done.code == 0, done.err + done.out
        events = [json.loads(line) for line in done.out.splitlines()]
        assert [e["text"] for e in events if e["event"] == "line"] == ["my_pkg.words"]
        notes = [e["text"] for e in events if e["event"] == "note"]
        assert not [note for note in notes if "my_pkg" in note]
    own = projects.run(folder, "--env", "PYTHONPATH=elsewhere", script)
    assert own.code == 1 and "No module named 'my_pkg'" in own.out + own.err


def test_what_is_no_python_project_gets_no_path(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").touch()
    assert import_roots(tmp_path) == ()
    (tmp_path / "setup.py").touch()
    assert import_roots(tmp_path) == ("src",)
    out = '[tool.setuptools.packages.find]\nwhere = ["../.."]\n'
    (tmp_path / "pyproject.toml").write_text(out)
    assert import_roots(tmp_path) == ("src",)
    (tmp_path / "src/a.py").unlink()
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets/__init__.py").touch()
    assert import_roots(tmp_path) == ()  # it would hide the library of that name


NEEDS = [("-e .", {"first"}), (".[train]", {"first", "second"}), ("--editable=./", {"first"})]


@pytest.mark.parametrize(("line", "names"), NEEDS)
def test_editable_installs_of_itself_bring_what_it_needs(
    shop: Shop, line: str, names: set[str]
) -> None:
    for name in ("first", "second"):
        make_wheel(shop.wheels, name, "1.0", {f"{name}.py": b""})
    laid_out(shop.work, "src", "train.py")
    (shop.work / "needs.txt").write_text(f"{line}\n")
    assert shop.install("-r", "needs.txt").states == ["changed"]
    lock = (shop.work / "ipexctl.lock").read_text()
    assert {name for name in ("first", "second") if f'name = "{name}"' in lock} == names


def test_an_unknown_extra_and_another_folder_are_refused(shop: Shop) -> None:
    laid_out(shop.work, "src", "train.py")
    for line, said in (
        ("-e .[gpu]", "has no optional-dependencies named gpu"),
        ("-e ../other", "pip wheel LOCATION -w FOLDER"),
    ):
        (shop.work / "needs.txt").write_text(f"{line}\n")
        refused = shop.install("-r", "needs.txt")
        assert (refused.code, said in refused.err) == (2, True), refused.err


def test_a_bundle_is_made_with_the_users_packages_and_without_hosts(shop: Shop) -> None:
    make_wheel(shop.wheels, "first", "1.0", {"first.py": b""})
    laid_out(shop.work, "src", "train.py")
    (shop.work / "ipexctl.toml").write_text("hostfile = 'not-there'\n")
    words = ("--python", "3.11", "--mpi", "none", "--stack", "stock", "-o", "here.tar")
    made = shop.ipexctl("bundle", "-r", "pyproject.toml", *words)
    assert made.code == 0, made.err
    assert 'name = "first"' in (shop.work / "ipexctl.lock").read_text()
