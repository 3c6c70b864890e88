"""What explains the speed of one run against another: by values of real runs, in each of which one
reason was planted, and by cases that are made up."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ipexctl.base.host_answer import Answer, read_record
from ipexctl.base.secret_mask import MASK
from ipexctl.common.rank_paces import RankPace
from ipexctl.common.run_inputs import HostInputs, RunInputs
from ipexctl.project.files.project_files import ProjectFile, Tree
from ipexctl.report.comparison import difference_lines
from ipexctl.report.comparison.recorded_inputs import (
    RunRecord,
)
from ipexctl.report.comparison.run_difference import RunComparison, compare_runs
from ipexctl.report.comparison.step_costs import step_costs
from ipexctl.report.sections.differences import comparison_document
from ipexctl.run.outcome.run_inputs import MOST_FILES, collect_run_inputs
from ipexctl.run.pace.rank_pace import HostPace
from ipexctl.run.pace.run_speed import Counted, Speed, measure_speed, round_known
from ipexctl.run.plan.launch import HostPlan, LaunchPlan, PlannedHost, RankPlace
from tests import made

Row = tuple[float, float, float, float, float]  # the fields of a RankPace after `rank`
FILES = {"data.csv": "d1", "train.py": "a1"}
PACKAGES = {"numpy": "2.4.6", "rich": "14.0", "torch": "2.13.0+cpu"}


def run(
    name: str, rate: float, *rows: Row, spread: float = 0.05, windows: int = 10,
    programs: dict[str, float] | None = None, threads: int = 1,
    argv: tuple[str, ...] = ("train.py", "--batch", "64"), files: dict[str, str] = FILES,
) -> RunRecord:  # fmt: skip
    """One rank on each host. `programs`: of node02."""
    names = [f"node{i + 1:02d}" for i in range(len(rows))]
    hosts = tuple(
        HostPlan(
            host, host, "", "eth0", (RankPlace(i, 0, (0, 1)),), (),
            (("OMP_NUM_THREADS", str(threads)),), threads=2,
        )
        for i, host in enumerate(names)
    )  # fmt: skip
    plan = LaunchPlan(hosts, "10.0.0.1", 29500, argv, (), "")
    paces = {
        host: HostPace(host, (RankPace(i, *row),), 1.0)
        for i, (host, row) in enumerate(zip(names, rows, strict=True))
    }
    if programs:
        paces["node02"] = replace(paces["node02"], programs=tuple(programs.items()))
    facts = {host: HostInputs("AMD EPYC", 2, kernel="Linux 6.18") for host in names}
    tree = "".join(files.values())
    given = RunInputs(files, tree=tree, environment="261f5d8ec5beb533", packages=PACKAGES)
    return RunRecord(name, plan, facts, paces, given, Speed(rate, spread, windows))


def but(record: RunRecord, host: str = "", **changes: Any) -> RunRecord:
    """With other inputs of the run, or other facts of a host."""
    if host:
        hosts = {**record.hosts, host: record.hosts[host].replace(**changes)}
        return replace(record, hosts=hosts)
    assert record.inputs
    return replace(record, inputs=record.inputs.replace(**changes))


# of real runs
BASE = run(
    "base", 24.76, (12.524, 0.757, 92592057, 0.134, 0.134), (15.026, 0.741, 83888033, 0.105, 0.183),
    spread=0.128, windows=2,
)  # fmt: skip
AGAIN = run(
    "again", 25.92, (10.013, 0.852, 99866858, 0.125, 0.287),
    (12.514, 0.825, 100722738, 0.124, 0.275), spread=0.024, windows=2,
)  # fmt: skip
BUSY = run(
    "busy", 12.41, (22.521, 0.465, 53730030, 0.148, 0.412), (25.039, 0.497, 49165467, 0.062, 0.639),
    spread=0.04, windows=3, programs={"python3": 0.491, "lab-host": 0.0, "timeout": 0.0},
)  # fmt: skip
CODE_FILES = {"data.csv": "d1", "train.py": "a2"}
CODE = run(
    "code", 14.74, (20.021, 0.829, 58130348, 0.083, 0.242), (22.522, 0.799, 55966421, 0.089, 0.239),
    spread=0.092, windows=3, files=CODE_FILES,
)  # fmt: skip
TWO = run("two", 12.2, (20.019, 1.768, 0.0, 0.0, 0.228), spread=0.025, windows=3, threads=2)
ONE = run("one", 7.33, (35.028, 0.986, 0.0, 0.0, 0.011), spread=0.064, windows=6)
QUOTA = run(
    "quota", 8.0, (37.525, 0.307, 33030510, 0.172, 0.194), (42.697, 0.294, 29521234, 0.034, 0.658),
    spread=0.125, windows=6,
)  # fmt: skip
# made up
QUIET = run("quiet", 10.0, (60.0, 0.9, 1e6, 0.02, 0.0), (60.0, 0.9, 1e6, 0.02, 0.0))
TWICE = run("twice", 5.0, (60.0, 0.9, 5e5, 0.01, 0.0), (60.0, 0.9, 5e5, 0.01, 0.0))
LATE = run("late", 5.0, (60.0, 0.45, 5e5, 0.01, 0.0), (60.0, 0.9, 5e5, 0.01, 0.0))
NETWORK = run("network", 5.0, (60.0, 0.45, 5e5, 0.5, 0.0), (60.0, 0.45, 5e5, 0.5, 0.0))
PAUSED = run("paused", 5.0, (60.0, 0.45, 5e5, 0.01, 0.0), (60.0, 0.5, 5e5, 0.01, 0.0))
OTHER_BATCH = replace(TWICE.plan, argv=("train.py", "--batch", "128"))
OTHER_NIC = replace(QUIET.plan, hosts=tuple(replace(h, nic="eth1") for h in QUIET.plan.hosts))
THREE = run("three", 5.0, *((60.0, 0.45, 5e5, 0.5, 0.0) for _ in range(3)))
THIRD_LATE = run("late", 5.0, *((60.0, cpus, 5e5, 0.01, 0.0) for cpus in (0.45, 0.45, 0.95)))
NEW_TORCH = {**PACKAGES, "torch": "2.12.0+cpu"}
FREQUENCY = {"max_khz": 1_200_000}
CASES = {  # run, against; what explains the speed, in this order; what differs besides
    "the same twice": (AGAIN, BASE, [], []),
    "a busy program": (BUSY, BASE, ["other-programs"], []),
    "a busy program, the other way": (BASE, BUSY, ["other-programs"], []),
    "more work in a step": (CODE, BASE, ["code"], []),
    "more work, and a quiet machine": (but(TWICE, files=CODE_FILES, tree="x"), QUIET, ["code"], []),
    "a thread less": (ONE, TWO, ["threads"], []),
    "a thread less, the other way": (TWO, ONE, ["threads"], []),
    "a thread less and new code": (
        but(ONE, files=CODE_FILES, tree="x"), TWO, ["code", "threads"], [],
    ),
    "a slow host, and its frequency": (
        but(LATE, "node02", **FREQUENCY), QUIET, ["frequency"], [],
    ),
    "a slow host without a reason": (LATE, QUIET, [], []),
    "code beside a slow host's frequency": (
        but(but(LATE, "node02", **FREQUENCY), files=CODE_FILES, tree="x"), QUIET,
        ["code", "frequency"], [],
    ),
    "a slow network": (NETWORK, QUIET, [], []),
    "a quota on one host": (but(QUOTA, "node02", quota=0.3), BASE, ["cpu-quota"], []),
    "the same load without a quota": (QUOTA, BASE, [], []),
    "a quota that is used up": (but(PAUSED, "node02", quota=0.5), QUIET, ["cpu-quota"], []),
    "a quota that is not used up": (
        but(TWICE, "node02", quota=8.0), QUIET, [], ["cpu-quota"],
    ),
    "a larger batch": (replace(TWICE, plan=OTHER_BATCH), QUIET, ["arguments"], []),
    "a larger batch and new code": (
        replace(but(TWICE, files=CODE_FILES, tree="x"), plan=OTHER_BATCH), QUIET,
        ["code", "arguments"], [],
    ),
    "another torch": (but(TWICE, packages=NEW_TORCH, environment="x"), QUIET, ["packages"], []),
    "new data": (but(TWICE, data={"bert": "v2"}), QUIET, ["data"], []),
    "new code that is as fast": (but(QUIET, files=CODE_FILES, tree="x"), QUIET, [], ["code"]),
    "a program that costs nothing": (
        replace(QUIET, paces={**QUIET.paces, "node02": BUSY.paces["node02"]}), QUIET,
        [], ["other-programs"],
    ),
    "more memory": (but(TWICE, "node01", memory=1 << 30), QUIET, [], ["memory"]),
    "a tuning variable": (
        but(TWICE, "node01", variables={"KMP_BLOCKTIME": "200"}), QUIET, ["variables"], [],
    ),
    "a third host": (THREE, QUIET, ["ranks", "hosts"], []),
    "a third host that is late": (THIRD_LATE, QUIET, ["ranks", "hosts"], []),
    "another interface": (replace(NETWORK, plan=OTHER_NIC), QUIET, ["network"], []),
    "nothing measured": (
        replace(but(TWICE, files=CODE_FILES, tree="x"), paces={}), QUIET, [], ["code"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("now", "was", "reasons", "others"), CASES.values(), ids=CASES)
def test_what_can_change_a_longer_part_comes_first(now, was, reasons, others):
    found = compare_runs(now, was).differences
    assert [one.slug for one in found if one.explains] == reasons
    assert [one.slug for one in found if not one.explains] == others
    assert [one.explains for one in found] == sorted((o.explains for o in found), reverse=True)


def test_the_parts_of_a_step_are_told():
    host, now, was = compare_runs(BUSY, BASE).step or ("", None, None)
    assert (host, round(1000 * now.step), round(1000 * was.step)) == ("node02", 81, 40)
    assert compare_runs(replace(BUSY, paces={}), BASE).step is None
    found = comparison_document(compare_runs(BUSY, BASE))
    assert found["step_seconds"]["waited"] == [
        now.waited, was.waited,
    ]  # fmt: skip


def test_two_threads_that_sleep_most_of_a_step_wait_for_a_cpu_no_longer_than_each_of_them_does():
    asleep = run("asleep", 5.0, (60.0, 0.4, 0.0, 0.0, 0.4), threads=2)
    cost = step_costs(asleep)["node01"]
    parts = [cost.computing, cost.waited, cost.idle]
    assert parts == pytest.approx([0.2 * 0.2, 0.2 * 0.2, 0.6 * 0.2])


def test_a_slow_host_is_named_with_its_program():
    (one,) = compare_runs(BUSY, BASE).differences
    assert (one.host, one.now, one.was) == ("node02", "0.5", "0.0")
    assert "python3 0.5" in one.text


def test_hosts_that_differ_alike_are_one_difference():
    changed = but(but(QUIET, "node01", kernel="Linux 7"), "node02", kernel="Linux 7")
    (one,) = compare_runs(changed, QUIET).differences
    assert (one.slug, one.host, one.explains) == ("kernel", "node[01-02]", False)


def test_a_secret_argument_is_not_shown():
    plan = replace(QUIET.plan, argv=("train.py", "--api-key", "s3cret", "--lr", "1"))
    (one,) = compare_runs(replace(QUIET, plan=plan), QUIET).differences
    assert one.text == f"arguments: --api-key {MASK} --lr 1, against --batch 64"


# --- speed ----------------------------------------------------------------------------------------


def test_speed_is_the_median_of_windows_without_the_first():
    steps = [Counted(t, max(0, 10 * (t - 5))) for t in range(5, 41)]
    steps.insert(0, Counted(0.0, 0))  # 5 s until the first step
    assert measure_speed(steps) == Speed(10.0, 0.0, 6, "step", 0.0, 300)
    rough = measure_speed([Counted(0.0, 1), Counted(1.0, 2)])
    assert rough == Speed(1.0, 0.0, 1, "step", 0.0, 1)
    assert str(rough) == "about 1 steps/s" and not rough.is_comparable
    assert measure_speed([], rates=[2.0]) == Speed(2.0, 0.0, 1)
    assert measure_speed([], rates=[2.0, 2.5, 2.0]) == Speed(2.0, 0.125, 3)
    assert measure_speed([]) is measure_speed([Counted(1.0, 1)]) is None


@pytest.mark.parametrize(
    ("within", "speed", "one"),
    [
        (0.01, "8.89 steps/s", "112 ms"),
        (0.3, "8.9 steps/s", "110 ms"),
        (1.0, "about 9 steps/s", "about 100 ms"),
        (6.0, "None", ""),
    ],
)
def test_a_speed_has_the_digits_that_are_known(within, speed, one):
    steps = [Counted(i * 0.1125, i, within) for i in range(81)]  # 9 s: no two windows
    found = measure_speed(steps[:40] if within > 5 else steps)
    assert (str(found), found.unit_time if found else "") == (speed, one)


def test_epochs_are_the_speed_of_a_script_without_steps():
    epochs = [Counted(20.0 * i, i, 0.1) for i in range(6)]
    found = measure_speed([], epochs)
    assert found and (found.unit, found.windows, found.steps_per_second) == ("epoch", 4, None)
    assert (str(found), found.unit_time) == ("3.00 epochs/min", "20.0 s")
    assert measure_speed(steps := [Counted(i, i) for i in range(40)], epochs) == (
        measure_speed(steps)
    )
    hours = measure_speed([], [Counted(7200.0 * i, i) for i in range(4)])
    assert (str(hours), hours and hours.unit_time) == ("0.500 epochs/h", "120 min")


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (112.46, 0.001, "112"), (112.46, 0.05, "110"), (112.46, 0.3, "about 100"),
        (0.996, 0.001, "0.996"), (0.9996, 0.001, "1.00"), (2345.6, 0.0, "2,350"),
        (0.0123, 0.2, "about 0.01"), (0.0, 0.0, "0"), (97.0, 0.3, "about 100"),
    ],
)  # fmt: skip
def test_digits_follow_what_is_known(value, error, text):
    assert round_known(value, error) == text


def test_a_new_count_of_steps_begins_a_window():
    epoch = [(float(t), t * 4) for t in range(11)]
    rows = [*epoch, *((t + 10.5, step) for t, step in epoch)]
    speed = measure_speed([Counted(t, step) for t, step in rows])
    assert speed and (speed.rate, speed.spread, speed.windows) == (4.0, 0.0, 3)


def test_steps_are_not_compared_with_epochs():
    found = compare_runs(replace(BUSY, speed=Speed(0.5, 0.1, 9, "epoch")), BASE)
    assert found.factor is found.growth is found.step is None
    assert text(found).splitlines()[0].endswith("one prints epochs, the other steps")


@pytest.mark.parametrize(("windows", "differs"), [(2, False), (12, True)])
def test_the_spread_of_a_few_windows_is_not_trusted(windows, differs):
    now = replace(QUIET, speed=Speed(8.0, 0.1, windows))
    assert (
        compare_runs(now, replace(QUIET, speed=Speed(10.0, 0.1, windows))).speed_differs is differs
    )


# --- what is kept ---------------------------------------------------------------------------------


def kept(sent: Tree | None, **variables: str) -> tuple[RunInputs, HostInputs]:
    """As it comes back from a journal."""
    node = PlannedHost(made.host("n1"), made.facts("n1"), made.prepared())
    plan = HostPlan("n1", "n1", "/e", "eth0", (), (), tuple(variables.items()))
    found = collect_run_inputs([plan], [node], sent, {"bert": "v1"})
    assert found.of_all is not None
    kinds = (found.of_all, found.hosts["n1"])
    documents = [Answer("n1", json.loads(json.dumps(one.document()))) for one in kinds]
    return documents[0].read(RunInputs), documents[1].read(HostInputs)


def test_code_is_kept_where_a_project_has_too_many_files():
    data = [ProjectFile(f"{i:04d}.bin", 1, f"{i:064x}") for i in range(2 * MOST_FILES)]
    read, _ = kept(Tree((), (*data, ProjectFile("a/b/train.py", 9, "ab" * 32))))
    assert read.files and len(read.files) == MOST_FILES
    assert len(json.dumps(read.document())) < 50_000
    assert read.files["a/b/train.py"] == "ab" * 8
    assert (read.packages, read.data) == ({"torch": "2.13.0"}, {"bert": "v1"})
    assert kept(None)[0].files is None  # --no-sync


def test_secrets_are_not_kept():
    _, host = kept(None, HF_TOKEN="hf_x", OMP_NUM_THREADS="2", WANDB_API_KEY="k")
    assert host.variables == {"HF_TOKEN": MASK, "OMP_NUM_THREADS": "2", "WANDB_API_KEY": MASK}


def test_an_odd_record_is_read_as_unknown():
    odd = {"cpu": 7, "cores": "x", "quota": -1, "variables": [1], "governors": "no"}
    assert read_record(HostInputs, odd) == HostInputs("", None) == read_record(HostInputs, None)
    assert read_record(RunInputs, {"packages": 3, "files": {"a": 1}}) == RunInputs()


# --- what is shown --------------------------------------------------------------------------------


def text(found: RunComparison) -> str:
    return "\n".join(difference_lines.comparison_lines(found))


def test_the_lines_lead_with_the_speed_and_its_reason():
    assert text(compare_runs(BUSY, BASE)).splitlines()[0:5:3] == [
        "busy is 0.50 times as fast as base: 12.4 ± 4% steps/s, against 24.8 ± 13% steps/s",
        "longer in busy on node02: waiting for a CPU",
    ]
    assert text(compare_runs(NETWORK, QUIET)).splitlines()[-3:-1] == [
        "longer in network on node01: exchanging data", "  no recorded difference explains it",
    ]  # fmt: skip
    assert text(compare_runs(QUIET, QUIET)).splitlines()[-1].endswith("are the same")
    unknown = compare_runs(replace(CODE, speed=None), BASE)
    assert unknown.speed_differs is False and "\nwhat differs:\n" in text(unknown)


def test_what_is_not_known_is_not_called_the_same():
    lines = text(compare_runs(replace(QUIET, inputs=None), QUIET))
    assert "not known: code, packages and data of quiet" in lines and "are the same" not in lines


def test_the_document_has_the_same():
    found = json.loads(json.dumps(comparison_document(compare_runs(CODE, BASE))))
    assert found["speed_differs"] is True and found["measured"] is True
    (one,) = found["differences"]
    assert (one["slug"], one["part"], one["explains"]) == ("code", "computing", True)
