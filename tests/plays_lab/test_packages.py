"""The step `package` with real package managers, each in a root of its own."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ipexctl.remote.play import apply_package

PACKAGES = (("practice-a", "1.0"), ("practice-a", "2.0"), ("practice-b", "1.0"))
pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]
SERVES = """
import json, sys
sys.path.insert(0, "/src")
from ipexctl.remote.failure import Failure
from ipexctl.remote.play import apply_package
from ipexctl.remote.play.task import Task
for line in sys.stdin:
    asked = json.loads(line)
    task = Task(asked["args"], asked["check"], False, lambda e: None, lambda: None, [])
    try:
        found = dict(zip(("changed", "detail"), apply_package.apply(task)))
    except Failure as e:
        found = {"failed": [e.what, e.why]}
    print(json.dumps(found), flush=True)
"""


def debian(top: Path, *packages: str) -> Path:
    """A root made by debootstrap, with the hosts' half of ipexctl."""
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        pytest.skip("needs root and debootstrap")
    root = top / "root"
    include = ",".join(("python3", *packages))
    made = subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={include}", "stable", str(root)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if made.returncode:
        pytest.skip(f"debootstrap: {made.stdout.splitlines()[-1:]}")
    source = Path(apply_package.__file__).parents[2]
    shutil.copytree(source / "remote", root / "src/ipexctl/remote")
    (root / "repo").mkdir()
    return root


def inside(root: Path, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    return subprocess.run(
        ["chroot", str(root), *command],
        text=True,
        capture_output=True,
        check=False,
        env=env,
        **more,
    )


def package(root: Path, *names: str, check: bool = False, **more: object) -> dict[str, object]:
    args = {"name": names, "state": "present", "update_cache": False, "use": "auto", **more}
    asked = json.dumps({"args": args, "check": check})
    done = inside(root, "python3", "-c", SERVES, input=asked)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


# --- apt -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def apt_root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Its only source is a repository of this test's packages."""
    top = tmp_path_factory.mktemp("apt")
    root = debian(top)
    for name, version in PACKAGES:
        build_deb(root / "repo", name, f"{version}-1")
    shutil.rmtree(root / "etc/apt/sources.list.d", ignore_errors=True)
    (root / "etc/apt/sources.list").write_text("deb [trusted=yes] file:/repo ./\n")
    yield root
    shutil.rmtree(top)


def build_deb(repository: Path, name: str, version: str) -> None:
    folder = repository / f"{name}-{version}"
    (folder / "DEBIAN").mkdir(parents=True)
    (folder / "DEBIAN/control").write_text(
        f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: none <a@b.c>\n"
        f"Description: practice\n"
    )
    package = repository / f"{name}_{version}_all.deb"
    subprocess.run(["dpkg-deb", "-b", str(folder), str(package)], check=True, capture_output=True)
    data = package.read_bytes()
    with (repository / "Packages").open("a") as file:
        file.write(
            f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: none <a@b.c>\n"
            f"Filename: ./{package.name}\nSize: {len(data)}\n"
            f"SHA256: {hashlib.sha256(data).hexdigest()}\nDescription: practice\n\n"
        )


def test_packages_by_the_real_apt(apt_root: Path):
    root = apt_root
    assert package(root, "practice-a=1.0-1", check=True)["changed"] is True
    first = package(root, "practice-a=1.0-1", "practice-b")  # it updates the lists by itself
    assert first["changed"] is True and first["detail"] == "practice-a 1.0-1, practice-b 1.0-1"
    assert package(root, "practice-a", "practice-b")["changed"] is False
    assert package(root, "practice-a", check=True)["changed"] is False
    assert package(root, "practice-a", state="latest", check=True)["changed"] is None
    newer = package(root, "practice-a", state="latest")
    assert newer["detail"] == "practice-a 1.0-1 -> 2.0-1"
    assert package(root, "practice-a", state="latest")["changed"] is False
    what, why = package(root, "no-such-package")["failed"]  # type: ignore[misc]
    assert what == "apt failed (exit 100)" and "no-such-package" in why
    assert package(root, "practice-b", state="absent")["detail"] == "practice-b removed"
    assert package(root, "practice-b", state="absent")["changed"] is False


# --- dnf and zypper ------------------------------------------------------------------------------

SPEC = """\
Name: {name}
Version: {version}
Release: 1
Summary: practice
License: none
BuildArch: noarch
%description
practice
%files
"""
SOURCES = {"yum.repos.d": "file:///repo", "zypp/repos.d": "dir:///repo"}


@pytest.fixture(scope="module")
def rpm_root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Debian has both as programs, with a database of RPM packages beside its own."""
    top = tmp_path_factory.mktemp("rpm")
    root = debian(top, "dnf", "zypper", "rpm", "createrepo-c")
    for name, version in PACKAGES:
        (root / "tmp/p.spec").write_text(SPEC.format(name=name, version=version))
        made = inside(root, "rpmbuild", "-bb", "--define", "_topdir /tmp/top", "/tmp/p.spec")
        assert made.returncode == 0, made.stderr
    for path in (root / "tmp/top/RPMS/noarch").iterdir():
        shutil.copy(path, root / "repo")
    assert inside(root, "createrepo_c", "-q", "/repo").returncode == 0
    for folder, url in SOURCES.items():
        path = root / "etc" / folder / "practice.repo"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"[practice]\nname=practice\nbaseurl={url}\ngpgcheck=0\nenabled=1\n")
    yield root
    shutil.rmtree(top)


@pytest.mark.parametrize(
    ("use", "unknown"),
    [
        ("dnf", "Unable to find a match: no-such-package"),
        ("zypper", "No provider of 'no-such-package' found"),
    ],
)
def test_packages_by_the_real_dnf_and_zypper(rpm_root: Path, use: str, unknown: str):
    root = rpm_root
    for name in ("practice-a", "practice-b"):  # of the other program
        inside(root, "rpm", "-e", name)
    assert package(root, "practice-a", use=use, check=True)["changed"] is True
    first = package(root, "practice-a=1.0-1", "practice-b", use=use)
    assert first["changed"] is True and first["detail"] == "practice-a 1.0-1, practice-b 1.0-1"
    for names in (("practice-a", "practice-b"), ("practice-a=1.0",)):
        assert package(root, *names, use=use)["changed"] is False
        assert package(root, *names, use=use, check=True)["changed"] is False
    assert package(root, "practice-a", use=use, state="latest", check=True)["changed"] is None
    newer = package(root, "practice-a", use=use, state="latest")
    assert newer["detail"] == "practice-a 1.0-1 -> 2.0-1"
    assert package(root, "practice-a", use=use, state="latest")["changed"] is False
    what, why = package(root, "no-such-package", use=use)["failed"]  # type: ignore[misc]
    assert what.startswith(f"{use} failed (exit ") and unknown in why
    if use == "dnf":  # Debian's zypper removes, and then cannot read its own database
        gone = package(root, "practice-b", use=use, state="absent")
        assert gone["detail"] == "practice-b removed"
        assert package(root, "practice-b", use=use, state="absent")["changed"] is False


@pytest.mark.parametrize("use", ["dnf", "zypper"])
def test_servers_that_dnf_and_zypper_do_not_reach(rpm_root: Path, use: str):
    name = "packages.no-such-host.invalid"
    paths = [rpm_root / "etc" / folder / "dead.repo" for folder in SOURCES]
    for path in paths:
        path.write_text(f"[dead]\nname=dead\nbaseurl=http://{name}/x\ngpgcheck=0\nenabled=1\n")
    try:
        for more in ({}, {"update_cache": True}):
            _, why = package(rpm_root, "no-such-package", use=use, **more)["failed"]  # type: ignore[misc]
            assert name in why
    finally:
        for path in paths:
            path.unlink()
