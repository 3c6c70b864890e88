"""What stops a run before it starts, what is only told, and what is not asked again."""

from __future__ import annotations

import io
import os
import re
import shlex
import socket
import sys
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from ipexctl.doctor.checks import all_checks
from ipexctl.doctor.report.finding import Finding, Severity, do
from ipexctl.facts.clocks_facts import ClockFacts
from ipexctl.facts.facts import Facts
from ipexctl.facts.reachability_facts import Peer
from ipexctl.inventory.inventory import Host, Inventory
from ipexctl.local.run_options import RunOptions
from ipexctl.local.shipped_tables import migration_rules
from ipexctl.machines.fleet import Fleet
from ipexctl.machines.target import ROOT, Target
from ipexctl.project.send_agreed import answer_no
from ipexctl.project.send_project import Project, project_of, read_project
from ipexctl.run import preflight as verb
from ipexctl.run import preflight_rules as core
from ipexctl.run.outcome.run_result import DetachedRun
from ipexctl.run.plan import launch_plan
from ipexctl.run.plan.launch import PlannedHost, RunRequest
from ipexctl.run.script.context import HostEnvironment, ProjectFiles
from ipexctl.run.script.review import Review
from ipexctl.run.script_files.script_sources import read_sources
from ipexctl.run.watch.run_notices import note_detached_run
from ipexctl.run.watch.run_watchers import Painter, View
from ipexctl.terminal.console import print_text
from ipexctl.user_code.source_reader import read_source
from tests import made
from tests.checks.cases import ANN
from tests.checks.hosts import GIB, MIB, ROWS, clean, part, state
from tests.refused import refused

SAME = {"node01": "/a/envs/k1", "node02": "/b/envs/k1"}
NO_SHM = part("mem", shm_there=False, shm_total=None, shm_free=None)
REFUSED = Peer("node01", "node02", "10.0.0.2", ok=False, error="refused")


def two(change=lambda facts: facts) -> list[Facts]:
    return [clean(), change(clean("node02", "10.0.0.2"))]


def judged(facts, prefixes=SAME, **more) -> tuple[list[str], list[str]]:
    found = core.judge_preflight(facts, prefixes, rows=ROWS, **more)
    return tuple([f"{f.id} {f.host}" for f in fs] for fs in (found.blockers, found.warnings))


CASES = {
    "nothing": (two(), {}, [], []),
    "no /dev/shm stops it": (two(NO_SHM), {}, ["SHM-003 node02"], []),
    "no disk space stops it": (two(part("disk", free=200 * MIB)), {}, ["DISK-003 node02"], []),
    "little is told": (two(part("disk", free=GIB // 2)), {}, [], ["DISK-003 node02"]),
    "a clock that is off is told": (
        two(lambda f: replace(f, clock=ClockFacts(600.0, 0.01))), {}, [], ["CLOCK-001 node02"],
    ),
    "who cannot reach whom stops it": (two(), {"peers": (REFUSED,)}, ["NET-003 node01"], []),
    "large packets that vanish stop it": (
        two(), {"peers": (replace(REFUSED, ok=True, lost=True),)}, ["NET-025 "], [],
    ),
    "another environment is told": (
        two(), {"prefixes": {**SAME, "node02": "/b/envs/k2"}}, [], ["SOFT-015 "],
    ),
    "what only makes it slow is left to the doctor": (two(part("mem", total=2 * GIB)), {}, [], []),
}  # fmt: skip


@pytest.mark.parametrize(("facts", "more", "blockers", "warnings"), CASES.values(), ids=CASES)
def test_what_stops_a_run_and_what_is_told(facts, more, blockers, warnings) -> None:
    assert judged(facts, **more) == (blockers, warnings)


@pytest.mark.parametrize(("cpus", "said"), [({2, 3}, []), ({1, 2}, ["LOAD-004 node01"])])
def test_another_run_is_told_of_where_it_uses_the_cores_of_this_one(cpus, said) -> None:
    node = PlannedHost(made.host("node01"), clean(), made.prepared())
    plan = launch_plan.make_launch_plan([node], RunRequest(("t.py",), 2), "r1")
    (host,) = plan.hosts
    first = replace(host, ranks=(replace(host.ranks[0], cpus=(0,), comm=(1,)),))
    run = replace(ANN, cpus=frozenset(cpus))
    facts = core.keep_competing_runs(
        state("load", runs=(run,))(clean()), replace(plan, hosts=(first,)), queued=False
    )
    assert judged([facts]) == ([], said)
    assert core.keep_competing_runs(facts, plan, queued=True).condition.load.runs == ()


def test_every_id_is_one_of_a_check_and_what_stops_a_run_can_fail() -> None:
    checks = {check.id: check for check in all_checks()}
    assert checks.keys() >= core.TELL
    assert [i for i in sorted(core.BLOCK) if Severity.FAIL not in checks[i].severities] == []


def test_a_refusal_is_a_table_with_fixes_and_the_way_past_it() -> None:
    blockers = core.judge_preflight([NO_SHM(f) for f in two()], SAME, rows=ROWS).blockers
    e = core.make_refusal(blockers)
    assert (e.slug, e.exit_code, " node[01-02] " in e.what) == ("preflight", 123, True)
    assert e.why.startswith("SHM-003    node[01-02]  /dev/shm ")
    assert [line.partition("   # ")[2] for line in e.hint.splitlines()[:-1]] == ["SHM-003"]
    assert "--force" in e.hint.splitlines()[-1].split()


def test_one_problem_of_many_hosts_is_a_few_rows_and_one_problem() -> None:
    hosts = [f"node{i:02d}" for i in range(1, 65)]
    made_up = [
        Finding("MEM-001", Severity.FAIL, host, "little memory", f"{i} MiB", "w", do(f"free {i}"))
        for i, host in enumerate(hosts)
    ]
    e = core.make_refusal(made_up)
    assert [line.split()[:2] for line in e.why.splitlines()] == [
        ["MEM-001", "node01"], ["MEM-001", "node02"], ["MEM-001", "node03"],
        ["MEM-001", "node[04-64]"],
    ]  # fmt: skip
    assert len(e.hint.splitlines()) == core.ROWS + 1
    assert (e.slug, " node[01-64] " in e.what) == ("preflight", True)


def test_an_argument_of_any_length_is_no_trouble(tmp_path) -> None:
    argv = ("t.py", "--model", "x" * 300)
    node = PlannedHost(made.host("node01"), clean(), made.prepared())
    plan = launch_plan.make_launch_plan([node], RunRequest(argv, 1), "r1")
    (tmp_path / "t.py").write_text("import transformers\n")
    files = read_project(Project(tmp_path), answer_no, {"XDG_CACHE_HOME": "/dev/null/none"})
    said: list[str] = []
    verb.review_script(argv, read_sources(tmp_path, "", argv), plan, files, [node], said.append)
    assert said == []


def reviewed(folder: Path, script: str, *args: str) -> list[str]:
    """What is said of a script of this folder, where the command was typed in the working one."""
    project, said = project_of(folder, Path.cwd()), []
    argv = (os.path.relpath(folder / script, project.start), *args)
    node = PlannedHost(made.host("node01"), clean(), made.prepared())
    plan = launch_plan.make_launch_plan([node], RunRequest(argv, 1), "r1")
    files = read_project(project, answer_no, {"XDG_CACHE_HOME": "/dev/null/none"})
    sources = read_sources(project.folder, project.cwd, argv)
    verb.review_script(argv, sources, plan, files, [node], said.append)
    return said


def test_a_model_here_that_is_not_sent_is_named_with_the_reason(tmp_path, monkeypatch) -> None:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "config.json").write_text("{}")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "t.py").write_text("import transformers\n")
    monkeypatch.chdir(tmp_path)
    (note,) = reviewed(tmp_path / "sub", "t.py", "--model", "tiny")
    assert f" {tmp_path}/sub " in note and f"`git init {tmp_path}`" in note
    assert "push tiny --as model`" in note
    (tmp_path / ".git").mkdir()
    assert reviewed(tmp_path / "sub", "t.py", "--model", "tiny") == []
    (tmp_path / ".gitignore").write_text("tiny/\n")
    (note,) = reviewed(tmp_path / "sub", "t.py", "--model", "tiny")
    assert "tiny/ in .gitignore:1" in note and "git init" not in note


def test_the_same_hosts_are_known_until_they_boot_or_change_their_environment() -> None:
    mark = core.preflight_mark(two(), SAME)
    assert core.preflight_mark(two()[::-1], SAME) == mark
    other = (
        core.preflight_mark(two(lambda f: replace(f, boot_id="other")), SAME),
        core.preflight_mark(two(), {**SAME, "node02": "/b/envs/k2"}),
        core.preflight_mark(two(part("net", nics=())), SAME),
        core.preflight_mark(two()[:1], SAME),
    )
    assert mark not in other and len(set(other)) == len(other)


# --- with agents ---------------------------------------------------------------------------------
PORTS = RunOptions("t.py", ports=(40000, 40100))  # nothing is asked between the hosts


@pytest.fixture
def flight(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    hosts = [Host("node01", local=True), Host("node02", local=True)]
    nodes = {}
    for i, (host, facts) in enumerate(zip(hosts, two(), strict=True), 1):
        change = part("net", ssh_address=f"127.0.0.{i}", nics=())
        nodes[host] = PlannedHost(host, change(facts), made.prepared())
    with Fleet(Target(), hosts=Inventory(tuple(hosts), "")) as fleet:
        fleet.map_hosts(fleet.connect)
        yield verb.Flight(fleet, nodes, RunOptions("t.py"))


def test_hosts_try_each_other_once_and_are_then_believed(flight) -> None:
    notes: list[str] = []
    verb.run_preflight_checks(flight, notes.append)
    asked = [agent._next for agent in flight.fleet.agents.values()]
    assert asked == [4, 4]  # listen, connect, stop listening
    verb.run_preflight_checks(flight, notes.append)
    assert notes == []
    assert [agent._next for agent in flight.fleet.agents.values()] == asked


@pytest.mark.parametrize(("name", "word"), [("bert", "bert"), ("", "r9")])
def test_hints_name_a_run_by_its_name(name, word) -> None:
    notes = notes_on_leaving(DetachedRun("r9"), name)
    assert [note.split()[-1] for note in notes[1:]] == [word, word]


def test_of_a_run_that_stays_in_the_queue_one_line_is_said_with_its_place() -> None:
    queued = DetachedRun("r9", queued="r9 is queued: place 2")
    assert notes_on_leaving(queued, "bert") == ["r9 is queued: place 2"]


def test_only_the_first_detached_run_of_a_folder_is_explained(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    run = DetachedRun("r9")
    assert len(notes_on_leaving(run, "bert", detailed=False, detach=True)) == 3
    assert notes_on_leaving(run, "bert", detailed=False, detach=True) == []
    assert len(notes_on_leaving(run, "bert", detailed=True, detach=True)) == 3
    assert len(notes_on_leaving(run, "bert", detailed=False)) == 3, "left by Ctrl-\\"


def notes_on_leaving(
    run: DetachedRun, name: str, *, detailed: bool = True, detach: bool = False
) -> list[str]:
    notes: list[str] = []
    view = View()
    view.detailed = detailed
    view.note = notes.append  # type: ignore[method-assign]
    painter = Painter(view)
    options = RunOptions("t.py", name=name, detach=detach)
    note_detached_run(painter, run, Target(), ROOT, options)
    painter.close()
    return notes


def test_each_command_of_a_hint_is_one_line_on_a_terminal_of_80_columns() -> None:
    folder = Path("/home/ann/a lab; of hers, perhaps (old)/hosts in the cellar")
    target = Target(hostfile=folder / "hostfile", ssh_config=folder / "ssh_config")
    view, out = View(), io.StringIO()
    console = Console(file=out, force_terminal=True, color_system=None, width=80)
    view.note = partial(print_text, console)  # type: ignore[method-assign]
    painter = Painter(view)
    options = RunOptions("t.py", name="bert", fetch=("out/*.pt", "my plots, 2/*"))
    note_detached_run(painter, DetachedRun("r9"), target, ROOT, options)
    painter.close()
    lines = [line for line in out.getvalue().splitlines() if line.startswith("  ")]
    words = ["ipexctl", "bert", "-f", str(target.hostfile), "-F", str(target.ssh_config)]
    found = [shlex.split(line) for line in lines]
    assert [[line[0], *line[2:7]] for line in found] == [words] * 3
    assert found[2][7:] == ["out/*.pt", "my plots, 2/*"]


def test_a_port_that_is_closed_late_is_not_one_that_was_opened_since(flight) -> None:
    agent = next(iter(flight.fleet.agents.values()))
    first, second = (agent.call("connection.listeners.listen").done["port"] for _ in range(2))
    agent.call("connection.listeners.close", {"port": first})
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", first), 5)
    socket.create_connection(("127.0.0.1", second), 5).close()


def test_blockers_stop_it_unless_forced_and_warnings_are_told_once(flight) -> None:
    notes = []
    nodes = {h: replace(n, facts=NO_SHM(n.facts)) for h, n in flight.nodes.items()}
    with refused("preflight", "SHM-003", "node[01-02]"):
        verb.run_preflight_checks(replace(flight, nodes=nodes), notes.append)
    assert notes == [] and not verb.MEMORY.path.exists()
    verb.run_preflight_checks(
        replace(flight, nodes=nodes, options=RunOptions("t.py", force=True)), notes.append
    )
    assert [n.split()[1] for n in notes] == ["SHM-003", "SHM-003"]
    low = part("disk", free=GIB // 2)
    nodes = {h: replace(n, facts=low(n.facts)) for h, n in flight.nodes.items()}
    told = []
    verb.run_preflight_checks(replace(flight, nodes=nodes, options=PORTS), told.append)
    assert told[0].split()[:3] == ["preflight:", "DISK-003", "node[01-02]"]


@pytest.mark.parametrize(
    ("change", "check"),
    [({"kill_user_processes": True}, "SYS-005"), ({"remove_ipc": True}, "SYS-006")],
)
def test_what_logout_would_end_is_told_of_a_run_that_lives_on(flight, change, check) -> None:
    at_logout = state("system", **change)
    nodes = {h: replace(n, facts=at_logout(n.facts)) for h, n in flight.nodes.items()}
    flight = replace(flight, nodes=nodes, options=PORTS)
    notes: list[str] = []
    verb.run_preflight_checks(flight, notes.append)
    assert notes == []
    verb.run_preflight_checks(replace(flight, options=replace(PORTS, lives_on=True)), notes.append)
    assert notes[0].split()[:3] == ["preflight:", check, "node[01-02]"]
    fix = "sudo loginctl enable-linger trainer"
    assert notes[1] == f"preflight: {check}: {fix}"
    lingers = {h: replace(n, facts=state("system", **change, linger=True)(n.facts))
               for h, n in flight.nodes.items()}  # fmt: skip
    verb.run_preflight_checks(
        replace(flight, nodes=lingers, options=replace(PORTS, lives_on=True)), notes.append
    )
    assert len(notes) == 2


@pytest.mark.parametrize("package", ["", "lib/__init__.py"])
def test_a_package_of_the_project_that_git_ignores_is_not_one_to_install(tmp_path, package) -> None:
    argv = ("t.py",)
    node = PlannedHost(made.host("node01"), clean(), replace(made.prepared(), modules=frozenset()))
    plan = launch_plan.make_launch_plan([node], RunRequest(argv, 1), "r1")
    (tmp_path / "lib").mkdir()
    files = {"t.py": "from lib.a import A\nimport lib.b\n", ".gitignore": "build/\nlib/\n"}
    for name, text in {**files, "lib/a.py": "", "lib/b.py": "", package or "x": ""}.items():
        (tmp_path / name).write_text(text)
    sent = read_project(Project(tmp_path), answer_no, {"XDG_CACHE_HOME": "/dev/null/none"})
    said: list[str] = []
    verb.review_script(argv, read_sources(tmp_path, "", argv), plan, sent, [node], said.append)
    (note,) = said
    assert "t.py:1: " in note and "lib/ in .gitignore:2" in note and "install" not in note
    assert re.findall(r"'(!\S+)'", note) == ["!/lib/"]


INVALID = "import apex\nprint 'x'\n"


@pytest.mark.parametrize(
    ("python", "stops"), [((3, 8), True), (sys.version_info[:2], True), ((), True), ((9, 9), False)]
)
def test_a_syntax_error_stops_unless_a_newer_python_may_read_it(python, stops) -> None:
    source = read_source("train.py", INVALID, main=True)
    hosts = [HostEnvironment("node01", {}, python=python)]
    found = Review([source], ("train.py",), hosts, ProjectFiles(()), migration_rules())
    with refused("script-syntax") if stops else nullcontext():
        found.check_syntax()


@pytest.mark.parametrize(
    "content",
    [
        "# -*- coding: latin-1 -*-\ngr\xf6\xdfe = 1\n".encode("latin-1"),
        b"x = [\n" + b"1,\n" * 300_000 + b"]\n",
    ],
    ids=["another encoding", "one that is not read to its end"],
)
def test_valid_files_have_no_syntax_error(tmp_path, content) -> None:
    (tmp_path / "t.py").write_bytes(content)
    assert [s for s in read_sources(tmp_path, "", ["t.py"]) if s.error] == []
