"""Fixtures that several test folders share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from ipexctl.errors import NotHere
from ipexctl.lab import Lab, LabSpec
from ipexctl.lab.here import check

MakeLab = Callable[[LabSpec], Lab]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever starts a lab carries the marker `lab`, so that `-m "not lab"` needs no root."""
    for item in items:
        if "lab_root" in getattr(item, "fixturenames", ()):
            item.add_marker("lab")


@pytest.fixture(scope="session")
def lab_root(tmp_path_factory: pytest.TempPathFactory):
    """Where the labs of this test run keep their files; the reason to skip where none can start."""
    try:
        check(LabSpec.plain(1))
    except NotHere as missing:
        pytest.skip(f"{missing.what}; {missing.hint}")
    return tmp_path_factory.mktemp("labs")


@pytest.fixture(scope="session")
def lab3(lab_root) -> Iterator[Lab]:
    """Three plain hosts for the whole test run: leave them as you found them."""
    lab = Lab.up(LabSpec.plain(3, name="lab3"), owner=os.getpid(), root=lab_root)
    yield lab
    lab.down()


@pytest.fixture
def make_lab(lab_root) -> Iterator[MakeLab]:
    """Start labs of any shape; they end with the test, or with pytest."""
    labs: list[Lab] = []

    def make(spec: LabSpec) -> Lab:
        labs.append(Lab.up(spec, owner=os.getpid(), root=lab_root))
        return labs[-1]

    yield make
    for lab in labs:
        if lab.is_up():
            lab.down()
