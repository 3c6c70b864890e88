"""pip's configuration in uv's words."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ipexctl.errors import InputError
from ipexctl.packages.indexes import Indexes, absolute_place, from_pip, merge_indexes

PIP_CONF = """
[global]
index-url = https://mirror.invalid/simple
extra-index-url =
    https://one.invalid/simple
    https://two.invalid/simple
cert = /etc/ca.pem
[install]
find_links = /wheels /more
"""


@pytest.fixture
def conf(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "pip.conf").write_text(PIP_CONF)
    return {"PIP_CONFIG_FILE": str(tmp_path / "pip.conf"), "HOME": str(tmp_path)}


def test_pips_file_is_read(conf: dict[str, str]) -> None:
    assert from_pip(conf) == Indexes(
        index_url="https://mirror.invalid/simple",
        extra=("https://one.invalid/simple", "https://two.invalid/simple"),
        find_links=("/wheels", "/more"),
        cert="/etc/ca.pem",
    )


def test_the_environment_replaces_what_the_file_says(conf: dict[str, str]) -> None:
    found = from_pip({**conf, "PIP_FIND_LINKS": "/mine", "PIP_EXTRA_INDEX_URL": "file:///x"})
    assert (found.find_links, found.extra) == (("/mine",), ("file:///x",))


def test_devnull_as_the_file_means_no_file_at_all(conf: dict[str, str]) -> None:
    assert from_pip({**conf, "PIP_CONFIG_FILE": os.devnull}) == Indexes()


def test_a_broken_file_is_told_by_its_name(tmp_path: Path, conf: dict[str, str]) -> None:
    (tmp_path / "pip.conf").write_text("no section = here")
    with pytest.raises(InputError, match=r"pip\.conf") as refused:
        from_pip(conf)
    assert refused.value.slug == "pip-config-invalid"


def test_options_come_first_and_what_uv_was_told_replaces_pips_word() -> None:
    pip = Indexes("https://pip.invalid", ("https://e.invalid",), ("/pip",))
    options = Indexes(extra=("https://mine.invalid",), find_links=("/mine",))
    assert merge_indexes(options, pip, {}) == Indexes(
        "https://pip.invalid", ("https://mine.invalid", "https://e.invalid"), ("/mine", "/pip")
    )
    told = {"UV_DEFAULT_INDEX": "x", "UV_INDEX": "y", "UV_FIND_LINKS": "z"}
    assert merge_indexes(options, pip, told) == Indexes("", ("https://mine.invalid",), ("/mine",))


def test_folders_that_are_not_there_are_left_out(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    indexes = Indexes(
        extra=(tmp_path.as_uri(), gone.as_uri(), "https://e.invalid"),
        find_links=(str(tmp_path), str(gone), "https://page.invalid"),
    )
    assert indexes.environ() == {
        "UV_INDEX": f"{tmp_path.as_uri()} https://e.invalid",
        "UV_FIND_LINKS": f"{tmp_path},https://page.invalid",
    }


def test_no_index_leaves_only_the_folders() -> None:
    indexes = Indexes("https://i.invalid", ("https://e.invalid",), ("https://p.invalid",),
                      no_index=True)  # fmt: skip
    assert indexes.arguments() == ("--no-index",)
    assert indexes.environ() == {"UV_FIND_LINKS": "https://p.invalid"}


def test_the_home_of_nobody_is_only_a_folder_that_is_not_there() -> None:
    assert absolute_place("~nobody-of-that-name/wheels").endswith("/~nobody-of-that-name/wheels")
    assert absolute_place("~/wheels") == str(Path.home() / "wheels")
