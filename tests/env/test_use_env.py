"""install --use-env: environments that are there already, with stand-in packages in them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ipexctl.common.install_answers import ExistingEnv
from ipexctl.stack.env_match import EnvLook, env_modules, find_disagreement, key_of
from tests.install.conftest import Outcome, Shop

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"


def ipexctl(shop: Shop, *words: str) -> Outcome:
    return shop.ipexctl(*words, "--root", str(shop.root))


def use(shop: Shop, path: Path, *words: str) -> Outcome:
    return ipexctl(shop, "install", "--use-env", str(path), "--json", *words)


def made(shop: Shop, name: str, torch: str = "2.13.0+cpu") -> Path:
    """A venv with the stand-in torch in it, put there by unpacking."""
    path = shop.folder / name
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", path], check=True)
    site = path / "lib" / f"python{PYTHON}" / "site-packages"
    subprocess.run([sys.executable, "-m", "zipfile", "-e", shop.torch(torch), site], check=True)
    return path


def everything(path: Path) -> dict[str, tuple[int, int]]:
    found = (p for p in path.rglob("*") if "__pycache__" not in p.parts and p.name != "lib64")
    return {str(p): (p.lstat().st_mtime_ns, p.lstat().st_size) for p in found if not p.is_dir()}


def test_it_becomes_current_proved_and_untouched_and_a_second_run_changes_nothing(
    shop: Shop,
) -> None:
    path = made(shop, "theirs")
    before = everything(path)
    done = use(shop, path)
    assert (done.code, done.states) == (0, ["changed"]), done.err
    assert done.document["torch"] == "2.13.0+cpu"
    assert "no mpirun: " in done.detail
    assert shop.current == f"envs/{done.document['environment']}"
    shown = subprocess.run(
        [shop.root / "current" / "bin" / "python", "-c", "import torch; print(torch.__file__)"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert Path(shown.strip()).resolve().is_relative_to(path.resolve())
    assert everything(path) == before
    again = use(shop, path)
    assert (again.code, again.states) == (0, ["ok"])
    listed = ipexctl(shop, "env", "ls").out
    assert listed.splitlines()[1].split()[1:3] == ["current", "tested"]
    assert listed.splitlines()[1].endswith(f"used from {path}")


def test_check_says_what_would_be_and_makes_nothing(shop: Shop) -> None:
    path = made(shop, "theirs")
    done = use(shop, path, "--check")
    assert (done.code, done.states) == (0, ["changed"])
    assert shop.current == ""
    assert shop.envs() == []


def test_it_goes_back_and_forth_with_an_installed_one_and_can_be_removed(shop: Shop) -> None:
    assert shop.install().states == ["changed"]
    own = shop.current
    path = made(shop, "theirs")
    before = everything(path)
    assert use(shop, path).states == ["changed"]
    theirs = shop.current
    assert ipexctl(shop, "install", "--rollback", "--json").states == ["changed"]
    assert shop.current == own
    assert ipexctl(shop, "install", "--rollback", "--json").states == ["changed"]
    assert shop.current == theirs
    assert shop.install().states == ["changed"]  # the lock again: nothing is built
    assert shop.current == own
    other = made(shop, "others")
    assert use(shop, other).states == ["changed"]
    gone = ipexctl(shop, "env", "rm", theirs[5:], "-y")
    assert (gone.code, (shop.root / theirs).exists()) == (0, False), gone.out
    assert everything(path) == before


def test_what_changed_in_it_is_proved_anew(shop: Shop) -> None:
    path = made(shop, "theirs")
    assert use(shop, path).states == ["changed"]
    current = shop.current
    info = next(path.glob("lib/python3*/site-packages/torch-*.dist-info"))
    (info / "RECORD").write_text("torch.py,,\n")
    (path / "share").mkdir()
    again = use(shop, path)
    assert (again.states, again.detail.splitlines()[0]) == (["changed"], "torch 2.13.0+cpu")
    assert (shop.current, os.readlink(shop.root / current / "share")) == (
        current, str(path / "share"),
    )  # fmt: skip
    assert use(shop, path).states == ["ok"]


def test_one_that_fails_its_proof_leaves_current_as_it_was(shop: Shop) -> None:
    assert shop.install().states == ["changed"]
    own = shop.current
    path = made(shop, "theirs")
    module = next(path.glob("lib/python3*/site-packages/torch.py"))
    module.write_text(module.read_text().replace("128.0", "7.0"))
    done = use(shop, path)
    assert (done.code, done.states, shop.current) == (1, ["failed"], own)
    assert "backward gave 7.0" in done.detail


def no_python(path: Path) -> None:
    path.mkdir()


def no_torch(path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", path], check=True)


def not_its_own(path: Path) -> None:
    (path / "bin").mkdir(parents=True)
    (path / "bin" / "python").symlink_to(sys.executable)


def for_everybody(path: Path) -> None:
    not_its_own(path)
    path.chmod(0o777)


REFUSED = [
    (lambda path: None, "there is no bin/python in it"),
    (no_python, "there is no bin/python in it"),
    (no_torch, "there is no torch in"),
    (not_its_own, "belongs to"),
    (for_everybody, "is writable by everyone"),
]


@pytest.mark.parametrize(("make", "said"), REFUSED)
def test_what_is_no_environment_is_refused_in_words(shop: Shop, make: Any, said: str) -> None:
    path = shop.folder / "theirs"
    make(path)
    done = use(shop, path)
    assert (done.code, done.states) == (1, ["failed"]), done.err
    assert said in done.detail
    assert shop.current == ""


CONTRADICTIONS = [
    (("--torch", "2.13"), "--use-env cannot be combined with options that select packages"),
    (("--rollback",), "--use-env cannot be combined with options that select packages"),
    (("--bundle", "x"), "--use-env cannot be combined with options that select packages"),
]


@pytest.mark.parametrize(("words", "said"), CONTRADICTIONS)
def test_it_goes_with_nothing_that_installs(shop: Shop, words: tuple[str, ...], said: str) -> None:
    refused = use(shop, shop.folder, *words)
    assert (refused.code, said in refused.err) == (2, True), refused.err


def test_a_relative_path_and_one_of_our_own_are_refused(shop: Shop) -> None:
    assert use(shop, Path("theirs")).slugs == ["path-invalid"]
    assert shop.install().states == ["changed"]
    assert use(shop, shop.root / "current").slugs == ["env-is-ours"]


# --- what is read of it: pure --------------------------------------------------------------

ENV = ExistingEnv("/opt/env", (3, 11, 4), {"torch": "2.13.0+cpu"}, False)
LOOK = EnvLook("a", ENV)
OLD = {"torch": "2.8.0+cpu", "intel-extension-for-pytorch": "2.8.0"}


def test_hosts_must_agree_on_what_ranks_exchange() -> None:
    b = EnvLook("b", ENV)
    assert find_disagreement((LOOK, b)) == ""
    newer = EnvLook("b", ENV.replace(packages={"torch": "2.12.0"}))
    other = EnvLook("b", ENV.replace(python=(3, 12, 0)))
    assert [find_disagreement((LOOK, look)).split()[:2] for look in (newer, other)] == [
        ["torch", "2.13.0+cpu"], ["Python", "3.11"],
    ]  # fmt: skip


def test_ipex_and_the_bindings_are_proved_in_their_order() -> None:
    packages = {**OLD, "oneccl-bind-pt": "2.8.0"}
    assert env_modules(EnvLook("a", ENV.replace(packages=packages))) == (
        ("torch", "torch", "2.8.0+cpu"),
        ("intel_extension_for_pytorch", "intel_extension_for_pytorch", "2.8.0"),
        ("oneccl_bindings_for_pytorch", "oneccl-bind-pt", "2.8.0"),
    )
    for bindings in ({"torch-ccl": "1.10.0"}, {"oneccl-bind-pt": "1.11.0"}):
        look = EnvLook("a", ENV.replace(packages={**OLD, **bindings}))
        assert env_modules(look)[-1][0] == "torch_ccl"


def test_its_name_is_one_on_all_hosts_whatever_their_homes() -> None:
    assert key_of("~/env") == key_of("~/env") != key_of("/home/a/env")
