"""How hosts and ranks that are silent are told of, who is the cause, and what is kept here."""

from __future__ import annotations

import errno
import json
import os
import stat
import threading

import pytest

from ipexctl.common.run_events import HostLoad, Sample
from ipexctl.errors import InputError
from ipexctl.explain.known_failures import known_failures
from ipexctl.inventory.inventory import Inventory
from ipexctl.local.run_options import RunOptions
from ipexctl.project.files.missing_file import LeftOut
from ipexctl.run.outcome.event_reader import RankEnded
from ipexctl.run.outcome.first_cause import first_cause, known_cause, same_endings
from ipexctl.run.outcome.line_filter import ALL, read_line_filter
from ipexctl.run.outcome.rank_states import RankEnd, RankStates
from ipexctl.run.outcome.result_document import full_plan
from ipexctl.run.outcome.run_result import HostEnd, RunResult
from ipexctl.run.outcome.silent_hosts import Health
from ipexctl.run.outcome.verdict import HubRecord, decide_verdict
from ipexctl.run.plan.launch import PlannedHost, RunRequest
from ipexctl.run.plan.launch_plan import make_launch_plan
from ipexctl.run.watch.fetch_outputs import check_patterns, is_inside
from ipexctl.run.watch.run_folder import RunFolder
from ipexctl.run.watch.run_notices import BARS_EVERY, MOST_BARS, Teller
from ipexctl.run.watch.run_watchers import BACKLOG, Painter, View
from tests.made import facts, host, prepared


def made_plan(ranks=2, hosts=2, env=()):
    nodes = [PlannedHost(host(f"n{i}"), facts(f"n{i}"), prepared()) for i in range(hosts)]
    return make_launch_plan(nodes, RunRequest(("t.py",), ranks, env=env), "r1")


# --- silence -------------------------------------------------------------------------------------


def test_a_silent_host_is_told_of_once_and_again_when_it_is_heard():
    health = Health(made_plan(), 30)
    assert health.news(9.0, {"n0": 0.0, "n1": 0.0}) == []
    told = "n0 has not responded for 10 s; after 30 s it is considered lost (--host-timeout)"
    assert health.news(10.0, {"n0": 0.0, "n1": 9.0}) == [told]
    assert health.news(12.0, {"n0": 0.0, "n1": 12.0}) == []
    assert health.news(13.0, {"n0": 13.0, "n1": 12.0}) == ["n0 responds again"]


def test_a_rank_that_stands_still_is_told_of_at_10_s_and_acted_on_at_the_host_timeout():
    health = Health(made_plan(), 30)
    health.sample("n1", Sample(stopped={1: 9.0}))
    assert health.news(0.0, {}) == []
    health.sample("n1", Sample(stopped={1: 11.0}))
    (note,) = health.news(0.0, {})
    assert note.startswith("rank 1 on n1 ") and note.endswith("(--host-timeout)")
    assert " 11 s " in note and " 30 s " in note
    health.sample("n0", Sample())
    health.sample("n1", Sample(stopped={1: 31.0}))
    assert health.news(0.0, {}) == []
    health.sample("n1", Sample())


def test_what_comes_after_a_ranks_end_does_not_make_it_live_again():
    health = Health(made_plan(), 30)
    health.ended(0)
    health.sample("n0", Sample(stopped={0: 99.0}))
    assert health.news(99.0, {}) == []


def test_a_hosts_load_is_the_mean_of_its_cpus_and_the_peak_of_its_memory():
    health = Health(made_plan(), 30)
    for cpu, used in ((0.2, 10), (0.6, 30), (None, 20)):
        health.sample("n0", Sample(cpu, used, 100))
    assert health.summarize_load("n0") == HostLoad(pytest.approx(0.4), 30, 100)
    assert health.summarize_load("n1") == HostLoad()


# --- the cause -----------------------------------------------------------------------------------

GONE = ["torch.distributed.DistNetworkError: Failed to recv, got 0 bytes."]
A, B, C = RankEnd(0, "n0", 1), RankEnd(1, "n1", 1), RankEnd(2, "n0", 3)


@pytest.mark.parametrize(
    ("tails", "cause"),
    [
        ({0: ["ValueError: x"], 1: GONE}, A),
        ({0: GONE, 1: ["ValueError: x"]}, B),
        ({0: GONE, 1: GONE, 2: ["exit"]}, C),
        ({0: GONE, 1: GONE}, C),
        ({0: GONE, 1: []}, B),  # it exited without a word: nobody told it to
        ({}, A),
    ],
)
def test_a_rank_that_only_tells_of_a_lost_peer_is_not_the_cause(tails, cause):
    assert first_cause(A, [A, B, C], tails, known_failures()) == cause


KILLED, ABORTED = RankEnd(1, "n1", lost=True), RankEnd(1, "n1", None, 6)


@pytest.mark.parametrize(
    ("ends", "tails", "asked", "cause"),
    [
        ([A, KILLED], {0: GONE}, set(), KILLED),  # its killer left it no last words
        ([A, KILLED], {0: GONE, 1: ["step 7"]}, set(), KILLED),
        ([A, KILLED], {0: GONE}, {1}, A),  # the killer was us
        ([A, KILLED], {0: GONE, 1: ["step 7"]}, {1}, A),
        ([A, ABORTED], {0: GONE, 1: GONE}, set(), A),  # a victim too, by its own words
        ([A, KILLED], {0: ["ValueError: x"]}, set(), A),
        ([A, KILLED, C], {0: GONE, 2: ["ValueError: x"]}, {1}, C),
        ([A, C], {0: GONE, 2: ["ValueError: x"]}, {2}, C),  # its own words, only late
    ],
)
def test_a_killed_rank_is_the_cause_without_a_word_unless_we_killed_it(ends, tails, asked, cause):
    assert first_cause(A, ends, tails, known_failures(), asked) == cause


RAISED = ["[rank1]: Traceback (most recent call last):", "[rank1]: ValueError: x"]
ENDED = ["terminate called without an active exception"]
NO_PEER = ["Traceback (most recent call last):", "RuntimeError: Connection closed by peer"]
NAMED = ["terminate called after throwing an instance of 'gloo::IoException'", *NO_PEER[1:]]
SIX = RankEnd(0, "n0", None, 6)


@pytest.mark.parametrize(
    ("first", "tails", "cause"),
    [
        (SIX, {0: ENDED, 1: RAISED}, B),
        (SIX, {0: [*NO_PEER, *ENDED], 1: RAISED}, B),
        (SIX, {0: [*ENDED, *NO_PEER], 1: RAISED}, B),
        (SIX, {0: ["std::bad_alloc"], 1: RAISED}, SIX),  # a known reason of its own
        (SIX, {0: ENDED, 1: NO_PEER}, SIX),
        (SIX, {0: [*RAISED, *NAMED], 1: NO_PEER}, SIX),  # what it raised, before it aborted
        (B, {0: NAMED, 1: [*RAISED, *NAMED]}, B),
    ],
)
def test_an_exception_is_the_cause_of_an_abort(first, tails, cause):
    assert first_cause(first, [SIX, B], tails, known_failures()) == cause


def test_the_exception_of_a_rank_that_aborted_is_named():
    said = "\n".join([*RAISED, *ENDED])
    found = decide_verdict([HubRecord("n0", RankEnded(SIX, said))], 2, known_failures)
    assert found and (found.exit_code, found.last) == (134, "ValueError: x")
    assert "ValueError: x" in found.cause and found.first == SIX


def test_ranks_that_say_the_same_are_alike_whatever_their_numbers():
    tails = {0: ["rank 0: no file /data/1", ""], 1: ["rank 1: no file /data/2"], 2: ["rank 2: x"]}
    again = RankEnd(2, "n0", 1)
    assert same_endings(A, [A, B, again], tails) == (B,)
    assert same_endings(A, [A, B], {0: ["", " "], 1: [""]}) == ()


def result(**more):
    hosts = (HostEnd("n0", 0, "/l"), HostEnd("n1", None, ""))
    return RunResult("r1", 1, more.pop("ended_by", "rank-failed"), 1.0, made_plan(), hosts, **more)


@pytest.mark.parametrize(("cause", "lost"), [("n1", {"n1"}), ("n0", set()), ("", set())])
def test_only_the_host_that_ended_the_run_and_still_says_nothing_is_lost(cause, lost):
    assert result(ended_by="host-lost", lost_host=cause).lost == lost


@pytest.mark.parametrize("hint", ["oom-rank", "oom-limit", "oom"])
def test_a_rank_that_was_killed_for_memory_gets_the_fix_for_that(hint):
    end = RankEnd(0, "n0", None, 9, hints=(hint,))
    known = known_cause(result(first=end, cause=f"rank 0 on n0 {end}"), known_failures)
    assert known.slug == "out-of-memory"


@pytest.mark.parametrize(
    "line",
    [
        "FileNotFoundError: [Errno 2] No such file or directory: 'tiny/model.safetensors'",
        "OSError: Error no file named model.safetensors, or a.bin, found in directory tiny.",
        "ModuleNotFoundError: No module named 'lib'",
    ],
)
def test_a_file_that_was_not_sent_is_the_cause_of_what_is_not_found(line):
    left = LeftOut("tiny/model.safetensors", "left out by *.safetensors in .gitignore:1", "printf")
    end = RankEnd(0, "n0", 1, None)
    known = known_cause(
        result(first=end, cause="rank 0", tail=(line,), left_out=left), known_failures
    )
    assert left.path in known.why and left.why in known.why
    assert known.fix == left.fix


@pytest.mark.parametrize(
    "line",
    [
        "The server socket has failed to bind to [::]:40012 (errno: 98 - Address already in use).",
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local "
        "network address. port: 40012, useIpv6: false, code: -98, name: EADDRINUSE, message: a",
    ],
)
def test_the_fix_for_a_port_that_is_taken_names_that_port(line):
    end = RankEnd(0, "n0", 1, None)
    known = known_cause(result(first=end, cause="rank 0", tail=(line,)), known_failures)
    assert known.fix.startswith("ss -ltnp 'sport = :40012' ")


# --- the folder here -----------------------------------------------------------------------------


def test_the_runs_folder_is_private_and_holds_every_byte(tmp_path):
    record = RunFolder.make(tmp_path, "r1")
    pieces = [b"\x00\xff\r\n", b"no end", b"\n" * 70_000]
    for piece in pieces:
        record.append_log("../n0:2", 3, piece)
    record.append_log("n1", None, b"mpi")
    secret = made_plan(env=(("TOKEN", "zq9"),))
    record.keep_document("plan.json", full_plan(secret))
    folder = tmp_path / ".ipexctl" / "runs" / "r1"
    files = {str(p.relative_to(folder)): p for p in folder.rglob("*") if p.is_file()}
    assert sorted(files) == ["logs/mpi.n1.log", "logs/rank00003..._n0_2.log", "plan.json"]
    assert files["logs/rank00003..._n0_2.log"].read_bytes() == b"".join(pieces)
    assert "zq9" not in files["plan.json"].read_text()
    variables = json.loads(files["plan.json"].read_text())["hosts"][0]["variables"]
    assert ("TOKEN", None) in {(one["name"], one["value"]) for one in variables}
    assert (tmp_path / ".ipexctl" / ".gitignore").read_text() == "*\n"
    modes = {stat.S_IMODE(p.stat().st_mode) for p in files.values()}
    assert (modes, stat.S_IMODE(folder.stat().st_mode)) == ({0o600}, 0o700)
    assert record.describe_folder().trouble == ()


def test_a_log_that_somebody_made_a_link_of_is_not_followed(tmp_path):
    record = RunFolder.make(tmp_path, "r1")
    other = tmp_path / "precious"
    other.write_text("precious")
    (record.folder / "logs" / "rank00000.n0.log").symlink_to(other)
    record.append_log("n0", 0, b"x")
    record.append_log("n0", 1, b"x")
    assert other.read_text() == "precious"
    (trouble,) = record.describe_folder().trouble
    assert trouble.startswith(f"{record.folder} ") and f"({os.strerror(errno.ELOOP)})" in trouble


@pytest.mark.parametrize("path", ["a", "a/b.pt", "@x/ü", "a b/..c"])
def test_a_plain_path_below_the_folder_may_be_written(path):
    assert is_inside(path)


@pytest.mark.parametrize("path", ["", "/a", "../a", "a/../b", "a//b", "./a", "a/", "a\nb", "a\0"])
def test_any_other_path_of_a_host_may_not(path):
    assert not is_inside(path)


@pytest.mark.parametrize("pattern", ["/etc/passwd", "../x", "a/../../x", "~/x", "", "/"])
def test_only_what_is_below_the_scripts_folder_can_be_fetched(pattern):
    with pytest.raises(InputError):
        check_patterns("--fetch", [pattern])


# --- progress bars -------------------------------------------------------------------------------


class Bars:
    lossy = False

    def __init__(self):
        self.seen = []

    def bar(self, host, rank, text):
        self.seen.append((rank, text))

    def close(self): ...


def bars_of(choice, *, times=1):
    """What is shown of 20 ranks' bars at each of so many looks."""
    state, view = RankStates(made_plan(20)), Bars()
    painter = Painter(view, choice=choice)
    teller = Teller(state, painter)
    teller.show_bars(1.0)
    for rank in range(20):
        state.output(rank, f"1%\r{rank}%".encode())
    for look in range(1, times + 1):
        teller.show_bars(1.0 + look * (BARS_EVERY + 1))
    painter.close()
    return view.seen


@pytest.mark.parametrize(
    ("wanted", "ranks"),
    [
        (RunOptions("t.py"), range(MOST_BARS)),
        (RunOptions("t.py", ranks="3-19"), range(3, 3 + MOST_BARS)),
        (RunOptions("t.py", ranks="8"), [8]),
        (RunOptions("t.py", show_hosts=("n1",)), range(10, 10 + MOST_BARS)),
        (RunOptions("t.py", include=("^1[89]%",)), [18, 19]),
    ],
)
def test_only_so_many_of_the_bars_that_are_wanted_are_shown(wanted, ranks):
    hosts = Inventory((host("n0"), host("n1")), "made")
    assert bars_of(read_line_filter(wanted, hosts, {})) == [(rank, f"{rank}%") for rank in ranks]


def test_a_bar_that_was_left_out_is_shown_the_next_time():
    seen = bars_of(ALL, times=4)
    assert seen == [(rank, f"{rank}%") for rank in range(20)]


# --- a terminal that is too slow -----------------------------------------------------------------


class Slow:
    """A terminal that stands still until it is let go."""

    def __init__(self, *, lossy):
        self.lossy = lossy
        self.go = threading.Event()
        self.seen, self.missed = [], 0

    def lines(self, host, rank, texts):
        self.go.wait(30)
        self.seen += texts

    def dropped(self, lines):
        self.missed += lines

    def result(self, result): ...
    def close(self): ...


def test_a_terminal_holds_no_host_back_and_says_what_it_did_not_draw():
    view = Slow(lossy=True)
    painter = Painter(view)
    for i in range(100):
        if painter.is_full:
            painter.drop_lines("n0", 0, 10, 10_000)
        else:
            painter.paint_lines("n0", 0, [f"{i}" + "x" * 998] * 10, 10_000)
    assert (painter.take_shown_bytes(), painter.has_missed_lines(0)) == ({"n0": 1_000_000}, True)
    view.go.set()
    painter.result(result())
    painter.close()
    assert (len(view.seen) + view.missed, view.missed > 0) == (1000, True)
    assert len(view.seen) * 1000 < 2 * BACKLOG


def test_a_pipe_holds_the_hosts_back_and_misses_nothing():
    view = Slow(lossy=False)
    painter = Painter(view)
    for _ in range(100):
        assert not painter.is_full
        painter.paint_lines("n0", 0, ["x" * 999] * 10, 10_000)
    assert painter.take_shown_bytes() == {}
    view.go.set()
    painter.close()
    assert (len(view.seen), painter.take_shown_bytes()) == (1000, {"n0": 1_000_000})


def test_a_run_that_was_queued_is_shown_once_and_each_attempt_is():
    shown: list[str] = []
    view = View()
    view.planned = lambda run_id, plan: shown.append(run_id)  # type: ignore[method-assign]
    painter = Painter(view)
    for run_id in ("r1", "r1", "r1-r02"):
        painter.planned(run_id, made_plan())
    painter.close()
    assert shown == ["r1", "r1-r02"]


class Broken(Slow):
    """Every line of it fails like this."""

    def __init__(self, number: int) -> None:
        super().__init__(lossy=False)
        self.number = number

    def lines(self, host, rank, texts):
        raise OSError(self.number, os.strerror(self.number))


@pytest.mark.parametrize(
    ("number", "why", "told"),
    [
        (errno.EPIPE, "a closed stdout", []),
        (errno.EIO, "stdout, which cannot be written (Input/output error)", []),
        (
            errno.ENOSPC,
            "",
            ["stdout: No space left on device; the run continues, and its output is in its logs"],
        ),
    ],
)
def test_only_a_reader_that_left_ends_a_run_and_not_a_full_disk(number, why, told):
    said: list[str] = []
    painter = Painter(Broken(number), said.append)
    for _ in range(3):
        painter.paint_lines("n0", 0, ["x"], 10)
    painter.close()
    assert (painter.why if painter.gone else "", said) == (why, told)
    assert painter.take_shown_bytes() == {"n0": 30}


def test_the_logs_are_kept_in_no_folder_of_somebody_else_and_behind_no_link(tmp_path):
    (tmp_path / "target").mkdir()
    (tmp_path / ".ipexctl").symlink_to("target")
    record = RunFolder.make(tmp_path, "r1")
    assert (record.folder, list((tmp_path / "target").iterdir())) == (None, [])
    assert "is a link:" in record.trouble[0]
    (tmp_path / ".ipexctl").unlink()
    (tmp_path / ".ipexctl").mkdir(mode=0o700)
    (tmp_path / ".ipexctl" / "runs").mkdir()
    (tmp_path / ".ipexctl" / "runs").chmod(0o777)
    record = RunFolder.make(tmp_path, "r1")
    assert (record.folder, "writable by everyone" in record.trouble[0]) == (None, True)


def test_in_a_folder_where_others_could_put_another_one_the_logs_are_kept_in_the_users_own(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    record = RunFolder.make(shared, "r1")
    assert (record.folder, record.trouble) == (tmp_path / "state/ipexctl/runs/r1", [])
    assert list(shared.iterdir()) == []
    shared.chmod(0o1777)  # as /tmp
    assert RunFolder.make(shared, "r1").folder == shared / ".ipexctl/runs/r1"
