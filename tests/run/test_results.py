"""--fetch and --outputs: which files of a run match, asked of a real agent on this machine."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ipexctl.common.result_answers import OutputFiles, PieceSent
from ipexctl.errors import Unreachable
from ipexctl.inventory.inventory import Host
from ipexctl.machines.agent import Agent, Reply
from ipexctl.machines.agent_start import start_host_agent
from ipexctl.machines.wire.transport import LocalTransport
from ipexctl.run.watch.fetch_outputs import Wish, check_patterns, fetch_outputs, resolve_patterns
from tests.refused import refused

RUN = "20261120-122117-df9ddb"
FILES = (
    "a[1]/x", "a1/x", "ckpt_1.pt", "ckpt_2.pt", "ckpt_a.pt", "ckpt_].pt", "exp/out/1.pt",
    "out/1.pt", "out/deep/2.pt",
)  # fmt: skip


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    agent = start_host_agent(LocalTransport(), Host("here", local=True))
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
        patterns = resolve_patterns(cwd, [pattern])
        asked = {"root": str(tmp_path), "run_id": RUN, "patterns": list(patterns)}
        found = agent.call("run_files.result_files.list", asked).done.read(OutputFiles)
        return sorted(path for path, _ in found.files)

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


@pytest.mark.parametrize("path", ["../mark", "out/../../mark", "/etc/hostname", ".", "../workers"])
def test_nothing_outside_of_the_runs_folder_is_read(agent, matching, tmp_path, path):
    for name in ("mark", "workers"):
        (tmp_path / "runs" / RUN / name).write_text("not of the ranks")
    with refused("invalid-request", repr(path)):
        read(agent, tmp_path, path)


def test_what_is_reached_through_a_link_is_not_read(agent, matching, tmp_path):
    work = tmp_path / "runs" / RUN / "work"
    (tmp_path / "secret").write_text("not of the ranks")
    (work / "away").symlink_to(tmp_path)
    (work / "out" / "secret").symlink_to(tmp_path / "secret")
    (work / "out" / "1.pt").write_text("mine")
    why, parts = read(agent, tmp_path, "away/secret")
    assert ("link" in why, parts) == (True, [])
    assert read(agent, tmp_path, "out/secret") == (os.strerror(errno.ELOOP), [])
    assert read(agent, tmp_path, "out/1.pt") == ("", [b"mine"])


def read(agent: Agent, root: Path, path: str) -> tuple[str, list[bytes]]:
    """Why not, and what came of it."""
    parts: list[bytes] = []
    asked = {"root": str(root), "run_id": RUN, "path": path, "offset": 0, "length": 100}
    reply = agent.call(
        "run_files.result_files.read", asked, on_event=lambda frame: parts.append(frame.body)
    )
    return reply.done.read(PieceSent).refused, parts


@pytest.mark.parametrize("option", ["--fetch", "--outputs"])
def test_a_refusal_names_the_option_that_was_typed(option):
    with refused("fetch-pattern-outside", f"{option} ../x: ") as caught:
        check_patterns(option, ["out", "../x"])
    assert caught.value.hint.endswith(f"{option} out")


def test_a_list_with_long_names_ends_before_it_is_too_long_for_one_answer(agent, tmp_path):
    folder = tmp_path / "runs" / RUN / "work"
    for _ in range(14):
        folder /= "é" * 120
    folder.mkdir(parents=True)
    for i in range(700):
        (folder / f"{i:03}").touch()
    asked = {"root": str(tmp_path), "run_id": RUN, "patterns": ["**"]}
    found = agent.call("run_files.result_files.list", asked).done.read(OutputFiles)
    assert found.more
    assert 500 < len(found.files) < 700
    assert found.files[-1][0].endswith(f"/{len(found.files) - 1:03}")


def test_a_file_that_became_shorter_is_not_taken(brought, tmp_path):
    def cut(path: str) -> None:
        (tmp_path / "runs" / RUN / "work/b").write_text("")

    outputs, refusal, files = brought("*", cut, "a", "b")
    assert (outputs, files) == ("outputs: outputs (1 file, 1 byte)", {"a": "a"})
    assert refusal.startswith("here: b ") and re.findall(r"\d+", refusal) == ["0", "1"]


@dataclass
class Losing:
    """An agent on whose host something happens between the list of files and their bytes."""

    agent: Agent
    event: Callable[[str], None]

    @property
    def host(self) -> Host:
        return self.agent.host

    def call(self, op: str, args: dict[str, object], **options) -> Reply:
        if op == "run_files.result_files.read":
            self.event(str(args["path"]))
        return self.agent.call(op, args, **options)


@pytest.fixture
def brought(agent: Agent, tmp_path: Path) -> Callable[..., list[object]]:
    """In words, and what is here then."""

    def ask(pattern: str, event: Callable[[str], None], *names: str) -> list[object]:
        work, folder = tmp_path / "runs" / RUN / "work", tmp_path / "here"
        work.mkdir(parents=True)
        folder.mkdir()
        for name in names:
            (work / name).write_text(name)
        wish = Wish((pattern,), RUN, {"here": str(tmp_path)}, "here")
        losing: Any = Losing(agent, event)
        words = fetch_outputs({agent.host: losing}, wish, folder, lambda text: None).words
        found = {p.name: p.read_text() for p in (folder / "outputs").rglob("*")}
        return [words[0].replace(f"{os.path.relpath(folder)}/", ""), *words[1:], found]

    return ask


def test_a_file_that_cannot_be_read_costs_no_other(brought, tmp_path):
    def gone(path: str) -> None:
        (tmp_path / "runs" / RUN / "work/b").unlink(missing_ok=True)

    outputs, refusal, files = brought("*", gone, "a", "b", "c")
    assert (outputs, files) == ("outputs: outputs (2 files, 2 bytes)", {"a": "a", "c": "c"})
    assert refusal.startswith("here: b ") and f": {os.strerror(errno.ENOENT)})" in refusal


def test_files_of_which_none_came_are_not_said_to_be_none(brought, tmp_path):
    def gone(path: str) -> None:
        (tmp_path / "runs" / RUN / "work/b").unlink()

    outputs, refusal, files = brought("b", gone, "b")
    assert (outputs.endswith(" was fetched"), files) == (True, {})
    assert refusal.startswith("here: b ") and f": {os.strerror(errno.ENOENT)})" in refusal


def test_no_match_is_told(brought):
    outputs, files = brought("*.pt", print, "b")
    assert outputs.startswith("outputs: no file ") and outputs.endswith("'**/*.pt'")
    assert (" *.pt;" in outputs, files) == (True, {})


def test_a_host_that_is_lost_on_the_way_gives_what_came_before(brought):
    def lost(path: str) -> None:
        if path == "b":
            raise Unreachable("here: connection lost")

    outputs, end, files = brought("*", lost, "a", "b", "c")
    assert (outputs, files) == ("outputs: outputs (1 file, 1 byte)", {"a": "a"})
    assert end.endswith(": here: connection lost")


SHARDS = {
    "node01": ("ck/.metadata", "ck/__0_0.distcp", "ck/__1_0.distcp", "ck/log"),
    "node02": ("ck/__2_0.distcp", "ck/__3_0.distcp", "ck/log"),
    "node03": ("ck/__4_0.distcp", "ck/log", "@node02/ck/other"),
}


@pytest.fixture
def shards(tmp_path: Path) -> Iterator[Callable[[bool], list[str]]]:
    """The files that come from three hosts, each of which has some shards of a checkpoint."""
    roots = {name: str(tmp_path / name) for name in SHARDS}
    agents = {}
    for name, paths in SHARDS.items():
        for path in paths:
            file = tmp_path / name / "runs" / RUN / "work" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(name)
        host = Host(name, local=True)
        agents[host] = start_host_agent(LocalTransport(), host)

    def bring(merge: bool) -> list[str]:  # noqa: FBT001
        said: list[str] = []
        wish = Wish(("**",), RUN, roots, "node01", merge=merge)
        done = fetch_outputs(agents, wish, tmp_path, said.append)
        assert done.folder
        files = (p for p in done.folder.rglob("*") if p.is_file())
        found = [f"{p.relative_to(done.folder)} {p.read_text()}" for p in files]
        return [*sorted(found), *said, *done.words[1:]]

    yield bring
    for agent in agents.values():
        agent.close()


def test_merge_collects_the_shards_of_all_hosts_in_one_folder(shards):
    *files, apart, refusal = shards(True)
    assert files == [
        "@node02/ck/log node02",
        "@node03/ck/log node03",
        "ck/.metadata node01",
        "ck/__0_0.distcp node01",
        "ck/__1_0.distcp node01",
        "ck/__2_0.distcp node02",
        "ck/__3_0.distcp node02",
        "ck/__4_0.distcp node03",
        "ck/log node01",
    ]
    assert apart.startswith("2 of 10 files ") and "@HOST" in apart
    assert refusal.startswith("node03: @node02/ck/other ")


def test_without_merge_each_host_has_its_folder(shards):
    assert shards(False) == [
        "@node02/ck/__2_0.distcp node02",
        "@node02/ck/__3_0.distcp node02",
        "@node02/ck/log node02",
        "@node03/@node02/ck/other node03",
        "@node03/ck/__4_0.distcp node03",
        "@node03/ck/log node03",
        "ck/.metadata node01",
        "ck/__0_0.distcp node01",
        "ck/__1_0.distcp node01",
        "ck/log node01",
    ]
