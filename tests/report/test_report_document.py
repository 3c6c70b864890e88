"""What a report shows, from what hosts recorded."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from ipexctl.base.host_answer import Answer
from ipexctl.base.secret_mask import SecretMask
from ipexctl.common.attempt_record import KeeperAnswer
from ipexctl.common.journal_records import InputsNoted, JournalRecord, PartEnded
from ipexctl.common.run_answers import RecordAnswer
from ipexctl.common.run_events import Moving, Placement, RankStarted, Stalled
from ipexctl.common.run_inputs import RunInputs
from ipexctl.report import run_report
from ipexctl.report.comparison.run_difference import Difference
from ipexctl.report.material import curves, host_record
from ipexctl.report.material.host_record import HostRecord, Printed
from ipexctl.report.material.report_material import Attempt
from ipexctl.report.report_document import LONGEST, report_document
from ipexctl.report.sections import timeline
from ipexctl.run.outcome.host_reports import RunOnHost
from ipexctl.run.outcome.listed_checkpoints import ListedCheckpoint
from ipexctl.run.outcome.run_state import Phase
from tests.made import noted, run_row, written
from tests.refused import refused
from tests.report import made_run
from tests.report.made_run import attempt, made, material


def recorded(**inputs: Any) -> Attempt:
    first, second = attempt(made()).records
    return Attempt(made(), (replace(first, of_run=RunInputs(**inputs)), second))


def read_recorded(*records: JournalRecord) -> HostRecord:
    return host_record.read_host_record("n", RecordAnswer(0.0, written(*records)))


def cards(found: dict) -> dict[str, str]:
    return {card["label"]: card["value"] for card in found["cards"]}


def test_a_queued_run_has_its_place_and_its_arguments():
    place = "place 1 in the queue; before it: 20260101-110000-fedcba of ann"
    row = run_row("", queued=True, waited=True, keeper=KeeperAnswer(waits=place))
    host = RunOnHost(row, "node01")
    queued = made(Phase.QUEUED, command="train.py --lr 0.1", waits=place, seen=(host,), ok=0)
    record = replace(
        attempt(made()).records[0], plan=None, starts=(), ends=(), over=None, inputs=None
    )
    found = report_document(material(Attempt(queued, (record,)), began="2026-01-01 11:59"))
    assert place in found["notes"][0] and found["settings"] == [["--lr", "0.1"]]
    assert [span[0] for span in found["timeline"]["lanes"][0]["spans"]] == ["in the queue"]
    assert found["facts"][1] == ["Queued", "2026-01-01 11:59"]


def test_a_good_run():
    found = report_document(material(attempt(made())))
    assert found["tone"] == "good" and found["cause"] is None
    assert found["headline"] == "Succeeded after 1 min: 2 ranks on 2 hosts"
    shown = cards(found)
    assert (shown["Speed"], shown["Loss"]) == ("2.00 steps/s", "0.01005")
    assert shown["Time"] == "1 min"
    assert shown["Waiting"] == "25%"
    assert [one["title"] for one in found["heat"]] == [
        "Step time of each rank",
        "CPUs that each rank uses",
    ]
    assert len(found["usage"]) == 4
    assert found["variables"][0] == ["OMP_NUM_THREADS", "4", "a thread for each core", "all hosts"]
    assert found["variables"][1] == ["TOKEN", "********", "set with --env or run.env", "all hosts"]
    assert found["places"][0]["hosts"] == "node[01-02]"
    json.dumps(found, allow_nan=False)


def test_a_run_whose_loss_became_nan_is_not_green():
    good = attempt(made())
    bad = [replace(one, loss=float("nan")) if one.step > 20 else one for one in good.printed]
    found = report_document(material(replace(good, printed=tuple(bad))))
    assert found["tone"] == "warm" and found["headline"] == (
        "Ended with exit code 0 after 1 min, but the loss is nan since step 21: 2 ranks on 2 hosts"
    )
    (card,) = (card for card in found["cards"] if card["label"] == "Loss")
    assert (card["value"], card["tone"]) == ("nan since step 21", "warm")
    json.dumps(found, allow_nan=False)
    failed = replace(attempt(made(Phase.FAILED)), printed=tuple(bad))
    found = report_document(material(failed))
    assert found["tone"] == "bad" and found["headline"].startswith("Failed with exit code 1 after")
    assert ", and the loss is nan since step 21: " in found["headline"]


def test_a_failed_run_leads_with_the_traceback_of_the_first_rank():
    tail = "step 4\n\x1b[31mTraceback (most recent call last):\x1b[0m\n  boom\nRuntimeError: no"
    tail = tail.replace("\x1b[31m", "")
    found = report_document(material(attempt(made(Phase.FAILED), tail=tail)))
    assert found["tone"] == "bad" and found["cause"]["text"] == (
        "rank 1 on node02 exited with code 1"
    )
    assert found["cause"]["lines"][0].startswith("Traceback")
    assert found["cause"]["lines"][-1] == "RuntimeError: no"
    result = {"same": [{"rank": 0}], "victims": [{"rank": 2}, {"rank": 3}]}
    failed = replace(attempt(made(Phase.FAILED)), result=result)
    assert report_document(material(failed))["cause"]["text"].split("; ")[1:] == [
        "1 more rank failed in the same way",
        "2 more ranks failed after it",
    ]


def test_ranks_that_wait_for_a_slow_host():
    found = report_document(material(attempt(made(hosts=4), slow=0.6)))["waiting"]
    assert "for node04" in found["headline"]
    shares = {part["kind"]: part["share"] for part in found["parts"]}
    assert shares["slow"] == max(shares.values()) and sum(shares.values()) == pytest.approx(1, 0.01)


def test_a_run_that_sleeps_is_not_to_be_tuned_and_says_once_what_it_waits_for():
    notes, advice = {}, {}
    for busy in (0.2, 1.2):
        run = made()
        records = tuple(made_run.record(h, 2, 1, busy=busy) for h in range(2))
        still = tuple(
            replace(record, samples=tuple(replace(s, cpu=0.1) for s in record.samples))
            for record in records
        )
        found = report_document(material(replace(attempt(run), records=still)))
        notes[busy] = next(c["note"] for c in found["cards"] if c["label"] == "Waiting")
        advice[busy] = [command for _, command in found["waiting"]["proposals"]]
        assert found["waiting"]["headline"].endswith(
            "neither for the network nor for a slow host, "
            "but for something else: input, disks, sleep"
        )
    assert notes[0.2].endswith("; mostly other waits: input, disks, sleep")
    assert advice == {0.2: [], 1.2: ["ipexctl tune train.py"]}


def test_a_restarted_run_has_both_attempts_on_one_axis():
    first = attempt(made(Phase.FAILED))
    second = attempt(replace(made(), id="20260101-120000-abcdef-r02", began=1070.0))
    found = report_document(material(first, second))
    assert found["headline"] == "Succeeded after 2 min 10 s: 2 ranks on 2 hosts, 1 restart"
    assert cards(found)["Time"] == "2 min 10 s"
    assert [one["name"] for one in found["loss"]["series"]] == [
        "loss, attempt 1",
        "loss, attempt 2",
    ]
    assert found["usage"][0]["x"][-1] > 100
    assert [row[0] for row in found["attempts"]] == ["1", "2"]
    lane = found["timeline"]["lanes"][0]["spans"]
    assert [kind for kind, _, _ in lane].count("training") == 2
    assert next(span for span in lane if span[0] == "restart")[1:] == [60.0, 70.0]
    assert found["timeline"]["to"] == 130.0


def test_warnings_of_the_result_are_notes():
    lost = "rank 0: --compress fp16: gradients too small for fp16 became 0"
    found = report_document(material(replace(attempt(made()), result={"warnings": [lost]})))
    assert found["notes"][0] == lost


def without_stalls(found: dict) -> list[list]:
    return [[s for s in lane["spans"] if s[0] != "stall"] for lane in found["timeline"]["lanes"]]


def test_the_lane_of_a_lost_host_ends_with_its_last_record():
    first = attempt(made(Phase.FAILED))
    silent = made_run.record(1, 2, 1, seconds=30.0, ended=False)
    first = replace(first, records=(first.records[0], silent))
    spans = without_stalls(report_document(material(first)))[1]
    assert spans[-1] == ["lost", 27.5, 60.0] and spans[-2][0] == "training"
    assert spans[-2][2] == 27.5


def test_spans_of_two_attempts_do_not_overlap():
    second = attempt(replace(made(), id="20260101-120000-abcdef-r02", began=1050.0))
    for spans in without_stalls(report_document(material(attempt(made(Phase.FAILED)), second))):
        assert all(a[2] <= b[1] + 0.01 for a, b in zip(spans, spans[1:], strict=False))


def test_the_last_loss_is_that_of_the_furthest_step():
    printed = (
        Printed(9, 10, loss=0.9, rank=0, at=1.0),
        Printed(10, 10, loss=0.5, rank=0, at=2.0),
        Printed(9, 10, loss=0.9, rank=1, at=1.0),
    )
    found = report_document(material(replace(attempt(made()), printed=printed)))
    card = next(one for one in found["cards"] if one["label"] == "Loss")
    assert (card["value"], card["note"]) == ("0.5", "at step 10 of 10; 0.9 at first")


def test_numbers_that_no_axis_can_hold():
    printed = tuple(Printed(n, loss=1.7 * 10.0 ** (n * 30), at=float(n)) for n in range(11))
    of = replace(attempt(made()), printed=(*printed, Printed(12, loss=float("nan"), at=12.0)))
    found = report_document(material(of))
    json.dumps(found, allow_nan=False)
    assert found["loss"]["note"] == "nan or inf first at step 12"
    assert found["loss"]["series"][0]["y"][:2] == [1.7, 1.7e30]


def test_the_environment_is_what_the_run_recorded(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    packages = {"torch": "2.13.0+cpu", "impi-rt": "2021.18.1"}
    read = read_recorded(InputsNoted({}, {"environment": "abc", "packages": packages}))
    of = Attempt(made(), (read,))
    found = dict(run_report._recorded_environment(of))
    assert found["PyTorch"] == "2.13.0+cpu" and found["MPI"].endswith("2021.18.1")


def test_a_run_that_goes_on_and_one_of_which_nothing_is_known():
    going = attempt(made(Phase.RUNNING), ended=False)
    found = report_document(material(going))
    assert found["headline"].startswith("Running for 1 min") and "2026-01-01" in found["notes"][0]
    spans = found["timeline"]["lanes"][0]["spans"]
    assert spans[-1] == ["training", spans[-1][1], 60.0]
    assert made(Phase.RUNNING).seconds_at(1200.0) == 200.0 and made().seconds_at(1200.0) == 60.0
    bare = report_document(material(Attempt(made(Phase.LOST))))
    assert cards(bare)["Speed"] == cards(bare)["Loss"] == cards(bare)["Waiting"] == "unknown"
    assert bare["loss"] is bare["rate"] is None and not bare["timeline"]["lanes"]


def test_the_other_run_is_laid_over():
    other = attempt(replace(made(), id="20260101-110000-aaaaaa"), steps=50)
    told = (Difference("b", "other folder"), Difference("a", "code", part="computing"))
    found = report_document(
        material(attempt(made()), other=other, comparison=made_run.compared(*told))
    )
    names = [series["name"] for series in found["loss"]["series"]]
    assert names == ["loss", "loss of the other run"]
    assert found["compared"] and found["comparison"]["times_as_fast"] is None
    assert [d["explains"] for d in found["comparison"]["differences"]] == [False, True]
    assert "+100%" in next(c["note"] for c in found["cards"] if c["label"] == "Speed")


def test_the_other_run_is_called_by_its_name():
    other = attempt(replace(made(), about=made().about.replace(name="mini"), id="r2"))
    found = report_document(material(attempt(made()), other=other))
    assert found["cards"][2]["note"] == "1 min in mini"


def test_stalls_lie_over_the_training():
    stall = ((30.0, Stalled(10.0, 1)), (40.0, Moving()))
    found = report_document(material(attempt(made(), facts=stall)))
    assert ["stall", 20.0, 40.0] in found["timeline"]["lanes"][0]["spans"]


def test_texts_lose_colours_and_secrets_and_are_cut():
    text = "\x1b[31mred\x1b[0m \x07key hunter2hunter2 " + "x" * 1_000_000
    mask = SecretMask(["hunter2hunter2"])
    found = report_document(material(recorded(packages={text: "1"}), mask=mask))
    name = found["packages"][0][0]
    assert name.startswith("red key ********") and len(name) == LONGEST + 1
    assert found["masked"] == ["packages", "variables"]
    assert found["notes"] == ["Secrets are masked (********) in: packages, variables."]


def test_findings_of_the_preflight():
    row = ("CLOCK-001", "node02", "its clock is off")
    found = report_document(material(recorded(findings=(row,))))
    assert found["findings"] == [list(row)]
    assert report_document(material(attempt(made())))["findings"] is None
    read = read_recorded(InputsNoted({}, {"packages": {}, "findings": [list(row), ["x"], 5]}))
    assert read.of_run and read.of_run.findings == (row,)


def test_checkpoints_and_packages():
    held = (
        ListedCheckpoint("out/5", "", 2_000_000, 3.0, step=5),
        ListedCheckpoint("out/6", "lacks x", 5, 1.0),
    )
    found = report_document(material(recorded(packages={"torch": "2.13"}), checkpoints=held))
    assert [row[3] for row in found["checkpoints"]] == ["complete", "lacks x"]
    assert found["packages"] == [["torch", "2.13"]]


def test_many_ranks_and_steps_are_few_numbers():
    run = made(hosts=16, ppn=4)
    of = replace(attempt(run, steps=2), printed=made_run.lines(64, 800, slow=17))
    began = time.process_time()
    found = report_document(material(of))
    assert time.process_time() - began < 20
    assert len(json.dumps(found)) < 400_000
    assert len(found["loss"]["x"]) == curves.BUCKETS
    heat = found["heat"][0]
    assert len(heat["rows"]) == 64 and heat["text"].startswith("most: rank 17 with")


def odd_fact(event: Any, **more: Any) -> dict[str, Any]:
    return {"record": {"kind": "FactNoted", "fact": {"event": event}}, "at": 1.0, **more}


@pytest.mark.parametrize(
    "raw",
    [
        {"began": float("nan")}, {"records": 3}, {"samples": [1]},
        {"samples": [{"at": 1, "cpu": -3}]}, {"samples": [{"at": 1, "ranks": {"x": [1, 2, []]}}]},
        {"records": [3, {}, {"record": 3}, {"record": {}, "at": 1.0}]},
        {"records": [{"record": {"kind": "PartEnded", "why": "x", "survivors": "0"}, "at": 1.0}]},
        {"records": [{"record": PartEnded("x", 0).document(), "at": "x"}]},
        {"records": [{"record": PartEnded("x", 0).document(), "at": 1e99}]},
        {"records": [{"record": {"kind": "Moon"}, "at": 1.0}]},
        {"records": [{"record": Moving().document(), "at": 1.0}]},  # an event is no record
        {"records": [odd_fact(PartEnded("x", 0).document())]},  # and no record is an event
        {"records": [odd_fact(3), odd_fact({"kind": "Moon"}), odd_fact({"kind": "RankStarted"})]},
        {"records": [odd_fact({"kind": "RankStarted", "rank": True, "started": 1})]},
    ],
)  # fmt: skip
def test_odd_words_of_a_host(raw):
    """Hosts pass over records of their journals that are not as declared."""
    with refused("agent-reply-invalid", "n: the agent sent an invalid reply ('"):
        Answer("n", {"began": 0.0, "records": [], **raw}).read(RecordAnswer)


def test_odd_inputs_are_left_out():
    sockets = [[0, None, [["x"], [1, True]]], 5]
    records = written(
        InputsNoted({"sockets": sockets, "variables": {"A": 1}, "reasons": 5}),
        noted(RankStarted(0, 100, where=Placement())),
        noted(RankStarted(1, 101, where=Placement((1,)))),
    )
    found = host_record.read_host_record("n", RecordAnswer(0.0, records))
    assert found.inputs
    assert found.inputs.sockets == ((0, None, ((1,),)),)
    assert found.inputs.variables == {} and found.places == ((1, (1,)),)
    assert found.starts == ((0, 0.0), (1, 0.0)) and found.ends == ()


def test_curves():
    x = curves.thin_values(range(10_000), 100)
    found = curves.make_curve([(n, float(n % 7)) for n in range(10_000)], x)
    assert len(x) == 100 and found.low[5] == 0 and found.high[5] == 6
    assert curves.make_curve([(1, float("nan"))], (1.0,)).middle == (None,)
    assert curves.growing_points([(0, 1), (1, 5), (2, 1), (3, 6)]) == [(0, 1), (1, 5), (3, 6)]
    assert curves.interval_rates([(0, 0), (10, 20)], [0, 5, 10, 15]) == [2.0, 2.0, None]
    rows = [(f"rank {n}", [float(n)]) for n in range(1000)]
    merged = curves.merged_rows(rows)
    assert len(merged) <= curves.ROWS and merged[0] == ("rank 0 to rank 3", [3.0])


def test_what_came_before_ends_where_the_run_begins():
    spans = timeline.spans_before_run(made_run.record(0, 1, 1))
    assert [kind for kind, _, _ in spans] == ["connect", "plan", "sync"]
    assert spans[-1][2] == pytest.approx(0.0) and spans[0][1] == pytest.approx(-1.7)
