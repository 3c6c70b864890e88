"""The real command on this machine with stand-in wheels: CUDA builds, and packages of one's own."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

import pytest

from ipexctl.base.blob import Blob
from ipexctl.install.command.install_text import chosen_text, install_question
from ipexctl.install.install_plan import Plan
from ipexctl.stack.lock_file import LockedPackage, parse_lock
from ipexctl.terminal.confirm import confirm
from tests.answering_terminal import answering
from tests.install.conftest import Shop, make_wheel
from tests.install.test_choice import chosen


def only_cuda(shop: Shop) -> None:
    next(shop.wheels.glob("torch-*")).unlink()
    shop.torch("2.13.0", "nvidia-cublas")
    make_wheel(shop.wheels, "nvidia_cublas", "13.0", {"cublas.py": b""})


def test_a_cuda_build_is_taken_only_with_the_option_that_agrees_to_it(shop: Shop) -> None:
    only_cuda(shop)
    for options in ((), ("-y",), ("--check",)):
        refused = shop.install(*options)
        assert (refused.code, refused.slug) == (2, "only-cuda")
        assert "2.13.0+cpu" in refused.err and "--allow-cuda" in refused.err
    assert (shop.envs(), (shop.work / "ipexctl.lock").exists()) == ([], False)
    taken = shop.install("--allow-cuda")
    assert (taken.states, taken.document["cuda"]) == (["changed"], True)
    again = shop.install()  # the lock has been agreed to
    assert (again.states, again.document["cuda"]) == (["ok"], True)


GPU = LockedPackage(
    "nvidia-cublas", "13.0", "nvidia_cublas-13.0-py3-none-any.whl", "e" * 64, 4 * 10**9
)


def with_cuda(no_cpu_build: str = "") -> Plan:
    told = chosen("torch-2.13", "asked for")
    lock = replace(told.lock, packages=(*told.lock.packages, GPU))
    found = replace(told.found, lock=lock, no_cpu_build=no_cpu_build)
    return replace(told, found=found, lacking=(Blob("nvidia.whl", "e" * 64, 3 * 10**9),))


def test_what_a_cuda_build_costs_is_told_before_the_question() -> None:
    shown = chosen_text(with_cuda("your indexes have no torch 2.13.0+cpu")).splitlines()
    assert [line.strip() for line in shown[1:3]] == [
        "torch 2.13.0+cpu is a CUDA build: 3.0 GB to fetch (about 4 min at 100 Mbit/s), "
        "4.0 GB for each of 2 hosts",
        "your indexes have no torch 2.13.0+cpu",
    ]


def answered(told: Plan, said: bytes) -> bool:
    with answering(said) as terminal, open(terminal.fd, closefd=False) as stdin:
        return confirm(install_question(told), stdin)


ANSWERS = [
    (with_cuda(), "", True), (with_cuda(), "n", False), (with_cuda(), "y", True),
    (with_cuda("none"), "", False), (with_cuda("none"), "n", False),
    (with_cuda("none"), "y", True),
]  # fmt: skip


@pytest.mark.parametrize(("told", "said", "agreed"), ANSWERS)
def test_a_cuda_build_needs_a_yes_and_all_else_a_no(told: Plan, said: str, agreed: bool) -> None:
    assert answered(told, said.encode() + b"\n") is agreed


@pytest.mark.parametrize("told", [with_cuda(), with_cuda("none")])
def test_the_end_of_what_is_typed_is_a_no(told: Plan) -> None:
    assert answered(told, b"\x04") is False


def test_packages_of_ones_own_are_installed_and_stay_until_the_file_changes(shop: Shop) -> None:
    for version in ("1.0", "1.1"):
        make_wheel(shop.wheels, "mine", version, {"mine.py": b""}, ("other",))
    make_wheel(shop.wheels, "other", "3", {"other.py": b""})
    file = shop.work / "requirements.txt"
    file.write_text("mine<1.1\n")
    first = shop.install("-r", "requirements.txt")
    assert first.states == ["changed"], first.err
    place = shop.work / "ipexctl.lock"
    lock = parse_lock(place.read_text(), "")
    assert lock.requirements == ("mine<1.1",)
    assert {p.name: p.version for p in lock.packages} == {
        "mine": "1.0", "numpy": "2.0", "other": "3", "torch": "2.13.0+cpu",
    }  # fmt: skip
    text = place.read_text()
    assert [shop.install().states, shop.install("-r", "requirements.txt").states] == [["ok"]] * 2
    assert place.read_text() == text
    file.write_text("mine\n")
    assert shop.install("-r", "requirements.txt").states == ["ok"]  # it keeps what fits
    assert parse_lock(place.read_text(), "").version("mine") == "1.0"
    file.write_text("mine>=1.1\n")
    assert shop.install("-r", "requirements.txt").states == ["changed"]
    assert parse_lock(place.read_text(), "").version("mine") == "1.1"


@pytest.mark.skipif(sys.version_info[2] == 0, reason="this Python is a first one of its minor")
def test_the_patch_number_of_the_hosts_python_counts(shop: Shop) -> None:
    """torch 1.10 is for 3.6.2 and later; a bare 3.6 is 3.6.0 to a resolver."""
    later = "patchy; python_version == '3.{0}' and python_full_version > '3.{0}.0'"
    make_wheel(shop.wheels, "patchy", "1.0", {"patchy.py": b""})
    needs = tuple(later.format(minor) for minor in range(8, 20))
    make_wheel(shop.wheels, "needing", "1.0", {"needing.py": b""}, needs)
    (shop.work / "r.txt").write_text("needing\n")
    done = shop.install("-r", "r.txt", "--python", os.path.realpath(sys.executable))
    assert done.states == ["changed"], done.err
    assert parse_lock((shop.work / "ipexctl.lock").read_text(), "").version("patchy") == "1.0"


def test_a_file_as_windows_writes_it_may_name_folders_by_variables(shop: Shop) -> None:
    own = shop.folder / "own"
    own.mkdir()
    make_wheel(own, "other", "3", {"other.py": b""})
    text = "\ufeffother\r\n-f ${SHELF}/own\r\ntorch==2.2.2; sys_platform == 'win32'\r\n"
    (shop.work / "requirements.txt").write_text(text, "utf-8")
    shelf = {"SHELF": str(shop.folder)}
    done = shop.install("-r", "requirements.txt", "--check", **shelf)
    assert (done.code, done.document["row"]) == (0, "torch-2.13"), done.err


def test_what_contradicts_the_stack_is_told(shop: Shop) -> None:
    (shop.work / "pyproject.toml").write_text('[project]\ndependencies = ["torch==2.5"]\n')
    clash = shop.install("-r", "pyproject.toml")
    assert (clash.code, clash.slug) == (2, "requirements-do-not-fit")
    assert [word in clash.err for word in ("torch==2.5", "2.13.0", "--torch ")] == [True] * 3
    broken = shop.install("-r", "not-there.txt")
    assert (broken.code, broken.slug) == (2, "requirements-missing")
    assert "echo not-there.txt" not in broken.err  # that is no package


def test_a_requirements_file_that_has_changed_since_the_lock_is_named(shop: Shop) -> None:
    for name in ("six", "tqdm"):
        make_wheel(shop.wheels, name, "1.0", {f"{name}.py": b""})
    needs = shop.work / "needs" / "requirements.txt"
    needs.parent.mkdir()
    needs.write_text("-c limits.txt\nsix\n")
    limits = needs.with_name("limits.txt")
    limits.write_text("six<2\n")
    outside = shop.folder / "outside.txt"
    outside.write_text("six\n")

    def warnings(*options: str) -> list[str]:
        done = shop.install(*options)
        assert done.code == 0, done.err
        return list(done.document["warnings"])

    kept = "needs/requirements.txt has changed since ipexctl.lock was written; "
    kept += "the locked requirements are kept. To use the new ones, add -r needs/requirements.txt"
    named = ("-r", str(needs.relative_to(shop.work)))
    assert (warnings(*named), warnings(), warnings("--check")) == ([], [], [])
    needs.write_text("# another comment\n-c limits.txt\nsix\n")
    assert warnings() == []
    for file, text in ((limits, "six<3\n"), (needs, "six\ntqdm\n"), (needs, "???\n")):
        file.write_text(text)
        assert warnings("--check") == [kept]
    before = (shop.work / "ipexctl.lock").read_text()
    assert (warnings(), warnings("--upgrade")) == ([kept],) * 2
    assert (shop.work / "ipexctl.lock").read_text() == before
    needs.write_text("six\ntqdm\n")
    assert (warnings(*named), warnings()) == ([], [])
    needs.unlink()
    assert warnings() == []
    (gone,) = warnings("-r", str(outside))
    assert "tqdm" in gone and " add -r " not in gone  # its file is not here any more
    assert (outside.write_text("tqdm\n"), warnings()) == (5, [])
    assert "outside" not in (shop.work / "ipexctl.lock").read_text()


def test_packages_that_go_with_another_requirements_file_are_named(shop: Shop) -> None:
    for name in ("six", "tqdm"):
        make_wheel(shop.wheels, name, "1.0", {f"{name}.py": b""})
    (shop.work / "requirements.txt").write_text("six\n")
    (shop.work / "extra.txt").write_text("tqdm\n")

    def warnings(*options: str) -> list[str]:
        return list(shop.install(*options, "--check").document["warnings"])

    assert shop.install("-r", "requirements.txt").document["warnings"] == []
    (warning,) = warnings("-r", "extra.txt")
    assert " six; " in warning and warning.endswith(" add -r requirements.txt")
    assert warnings("-r", "requirements.txt", "-r", "extra.txt") == []
    (shop.work / "requirements.txt").write_text("tqdm\n")
    assert warnings("-r", "requirements.txt") == []  # its own change
