"""--fetch and --outputs: which files of a run match, asked of a real agent on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ipexctl.core.model import Host
from ipexctl.errors import InputError
from ipexctl.hosts.agent import Agent, connect
from ipexctl.hosts.transport import LocalTransport
from ipexctl.verbs.results import check_patterns, from_the_top

RUN = "20261120-122117-df9ddb"
FILES = (
    "a[1]/x", "a1/x", "ckpt_1.pt", "ckpt_2.pt", "ckpt_a.pt", "ckpt_].pt", "exp/out/1.pt",
    "out/1.pt", "out/deep/2.pt",
)  # fmt: skip


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    agent = connect(LocalTransport(), Host("here", local=True))
    yield agent
    agent.close()


@pytest.fixture
def matching(agent: Agent, tmp_path: Path) -> Callable[[str, str], list[str]]:
    """The files that a pattern brings, for ranks that start in a folder."""
    work = tmp_path / "runs" / RUN / "work"
    for name in FILES:
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("")

    def ask(cwd: str, pattern: str) -> list[str]:
        patterns = from_the_top(cwd, [pattern])
        asked = {"root": str(tmp_path), "run_id": RUN, "patterns": list(patterns)}
        found = agent.call("results.list", asked).done["files"]
        return sorted(path for path, _ in found)

    return ask


@pytest.mark.parametrize(
    ("pattern", "files"),
    [
        ("out", "out/1.pt out/deep/2.pt"),
        ("./out", "out/1.pt out/deep/2.pt"),
        ("out/./deep//", "out/deep/2.pt"),
        ("./out/*.pt", "out/1.pt"),
        ("./**/*.pt", " ".join(f for f in FILES if f.endswith(".pt"))),
        (".", " ".join(FILES)),
        ("./", " ".join(FILES)),
        ("ckpt_[0-9].pt", "ckpt_1.pt ckpt_2.pt"),
        ("ckpt_[!0-9].pt", "ckpt_].pt ckpt_a.pt"),
        ("ckpt_[]2].pt", "ckpt_2.pt ckpt_].pt"),
        ("ckpt_[2-0a].pt", "ckpt_a.pt"),
        ("ckpt_[9-0].pt", ""),
        ("out[!a]1.pt", ""),
        ("out[.-0]1.pt", ""),
        ("a[1]/x", "a1/x"),
        ("a[[]1]/x", "a[1]/x"),
        ("a[1", ""),
    ],
)
def test_a_pattern_is_what_a_shell_makes_of_it(matching, pattern, files):
    assert matching("", pattern) == sorted(files.split())


@pytest.mark.parametrize(
    ("cwd", "pattern", "files"),
    [
        ("exp", "./out/*", "exp/out/1.pt"),
        ("exp", ".", "exp/out/1.pt"),
        ("exp/out", "[0-9].pt", "exp/out/1.pt"),
        ("a[1]", "x", "a[1]/x"),
    ],
)
def test_a_pattern_begins_where_ranks_start(matching, cwd, pattern, files):
    assert matching(cwd, pattern) == files.split()


@pytest.mark.parametrize("option", ["--fetch", "--outputs"])
def test_a_refusal_names_the_option_that_was_typed(option):
    with pytest.raises(InputError) as refused:
        check_patterns(option, ["out", "../x"])
    assert refused.value.what == f"{option} ../x: not below the folder of the script"
    assert refused.value.hint.endswith(f"{option} out")
