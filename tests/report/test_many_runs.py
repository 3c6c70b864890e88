"""The page of many runs: settings that differ, metrics, what is read from a folder here."""

from __future__ import annotations

import csv
import io
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ipexctl.base.secret_mask import SecretMask
from ipexctl.remote.run import run_records
from ipexctl.report import report_page, run_report
from ipexctl.report.known_runs import (
    _known_by_hosts,
    find_links,
    is_given,
    is_named,
    read_from_here,
    read_points,
    run_folders,
)
from ipexctl.report.many.run_table import (
    KnownRun,
    arguments_of,
    differing_settings,
    runs_document,
)
from ipexctl.report.many.runs_text import csv_text, rank_runs, table_lines
from ipexctl.report.material.host_record import Printed
from ipexctl.report.material.metric_summary import better_end, summarize_metric
from ipexctl.run.outcome.run_state import Phase
from ipexctl.run.pace.run_speed import Speed
from tests.report.made_run import attempt, made

RUN_ID = "20260101-120000-abcdef"


def known(number: int, *losses: float, **parts: Any) -> KnownRun:
    run = made(id=f"20260101-12000{number}-abcdef")
    lines = tuple(Printed(step, loss=loss) for step, loss in enumerate(losses, 1))
    return KnownRun(replace(run, about=run.about.replace(name=f"run{number}")), parts, lines)


@pytest.mark.parametrize(
    ("argv", "found"),
    [
        (
            ["train.py", "--lr", "0.1", "--fast"],
            {"script": "train.py", "--lr": "0.1", "--fast": "(set)"},
        ),
        (["train.py", "--lr=0.1", "-n", "-3"], {"script": "train.py", "--lr": "0.1", "-n": "-3"}),
        (["t.py", "a=1", "model.b=2"], {"script": "t.py", "a": "1", "model.b": "2"}),
        (["t.py", "3", "x"], {"script": "t.py", "(no name)": "3 x"}),
        (["t.py", "--f", "a", "--f", "b"], {"script": "t.py", "--f": "a b"}),
        (("-m", "pkg.train", "--x"), {"script": "-m pkg.train", "--x": "(set)"}),
    ],
)
def test_arguments_by_name(argv: list[str] | tuple[str, ...], found: dict[str, str]) -> None:
    assert arguments_of(argv) == found


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("loss", "low"), ("eval_loss", "low"), ("val/perplexity", "low"), ("wer", "low"),
        ("accuracy", "high"), ("eval_f1", "high"), ("top1", "high"), ("mIoU", "high"),
        ("lr", ""), ("grad_norm", ""), ("places", ""),
    ],
)  # fmt: skip
def test_which_values_are_better(name: str, end: str) -> None:
    assert better_end(name) == end


def test_only_settings_that_differ_have_a_column() -> None:
    runs = [
        known(1, arguments={"script": "t.py", "--lr": "1", "--x": "0"}, variables={"A": "1"}),
        known(2, arguments={"script": "t.py", "--lr": "2", "--x": "0"}, variables=None),
        known(3, arguments={"script": "t.py", "--x": "0"}, variables={"A": "1"}),
    ]
    assert differing_settings(runs) == [("arguments", "--lr")]


def test_variables_that_ipexctl_sets_by_itself_have_no_column() -> None:
    variables = [{"OMP_NUM_THREADS": n, "MINE": n, "COMPRESS": n} for n in "12"]
    given = frozenset({"MINE", "COMPRESS"})
    runs = [known(n, variables=values) for n, values in enumerate(variables)]
    assert differing_settings(runs) == []
    runs[1] = replace(runs[1], given=given)  # once is enough: the other run has a default
    assert differing_settings(runs) == [("variables", "MINE"), ("variables", "COMPRESS")]
    document = runs_document(runs, SecretMask())
    assert [document["tables"][row["parts"]["variables"]] for row in document["runs"]] == variables
    reasons = ("", "yours, with --env, instead of 4", "--compress: precision", "a thread each")
    assert [is_given(why) for why in reasons] == [True, True, True, False]


def test_the_arguments_of_a_run_that_never_left_the_queue_are_those_of_its_command() -> None:
    stopped = made(Phase.STOPPED, command="train.py --lr 0.1 --note 'two words'")
    found = _known_by_hosts([stopped], (), {})
    assert found.parts["arguments"] == {
        "script": "train.py", "--lr": "0.1", "--note": "two words",
    }  # fmt: skip
    cut = _known_by_hosts([made(Phase.STOPPED, command="train.py 'no end")], (), {})
    assert cut.parts["arguments"] is None and found.given == frozenset()


def test_last_and_best_of_a_metric() -> None:
    rising = replace(attempt(made()), printed=known(1, 3.0, 1.0, 2.0).printed)
    found = summarize_metric(rising, "loss")
    assert found and (found["last"], found["best"], found["axis"]) == (2.0, 1.0, "step")
    assert found["best_at"] == 2.0  # the page says where, as it may be one early dip
    assert found["x"] == [1.0, 2.0, 3.0] and found["y"] == [3.0, 1.0, 2.0]
    ends_badly = replace(rising, printed=known(1, 3.0, float("nan")).printed)
    found = summarize_metric(ends_badly, "loss")
    assert found and (found["last"], found["ends"], found["best"]) == (None, "nan", 3.0)
    assert summarize_metric(rising, "accuracy") is None


def test_parts_that_runs_share_are_stored_once_and_secrets_are_masked() -> None:
    versions = {"torch": "2.9"}
    runs = [
        known(1, 1.0, arguments={"--api-key": "geheim-1"}, versions=versions),
        known(2, 2.0, arguments={"--api-key": "geheim-2"}, versions=versions, code=None),
    ]
    document = runs_document(runs, SecretMask())
    assert "geheim" not in json.dumps(document)
    first, second = (row["parts"] for row in document["runs"])
    assert first["versions"] == second["versions"] and second["code"] is None
    assert document["tables"][first["versions"]] == versions
    document |= {"project": "p", "notes": ["<b>"], "made": "today"}
    page = report_page.render_runs_page(document, run_report.read_assets())
    assert "default-src 'none'" in page and "<b>" not in page and "MIT License" in page


NAN = float("nan")


def sweep() -> dict[str, Any]:
    """The document of four runs of one script: good, better, diverged and failed."""
    rows = []
    for number, (rate, state, losses) in enumerate(
        [
            ("0.1", Phase.DONE, (3.0, 2.0)),
            ("0.01", Phase.DONE, (3.0, 1.0, 1.5)),
            ("1", Phase.DONE, (0.5, NAN)),
            ("=2", Phase.FAILED, ()),
        ]
    ):
        row = known(number, arguments={"script": "train.py", "--lr": rate})
        lines = tuple(
            Printed(step, loss=5.0, eval_loss=loss, spelled=(("eval_loss", "val_loss"),))
            for step, loss in enumerate(losses, 1)
        )
        made_run = replace(made(state), id=row.run.id, about=row.run.about)
        rows.append(replace(row, run=made_run, printed=lines))
    return runs_document(rows, SecretMask(), "ann@desk")


def test_metrics_have_the_names_that_the_script_gives_them() -> None:
    document = sweep()
    assert [metric["name"] for metric in document["metrics"]] == ["loss", "val_loss"]
    assert document["ranking"] == "val_loss"
    assert document["runs"][1]["metrics"]["val_loss"]["best"] == 1.0


def test_the_best_run_is_first_and_one_that_ends_with_nan_does_not_compete() -> None:
    document = sweep()
    assert [row["name"] for row in rank_runs(document)] == ["run1", "run0", "run2", "run3"]
    document["metrics"] = [{**metric, "better": "high"} for metric in document["metrics"]]
    assert [row["name"] for row in rank_runs(document)][:2] == ["run0", "run1"]


def test_the_terminal_has_the_best_line_and_a_table_that_fits() -> None:
    lines = table_lines(sweep(), 60)
    assert lines[0] == "best val_loss: 1 at step 2: run1 (lr 0.01)"
    assert lines[2].split() == ["run", "lr", "best", "val_loss", "state"]
    assert [line.split()[0] for line in lines[3:7]] == ["run1", "run0", "run2", "run3"]
    assert lines[6].split()[:4] == ["run3", "=2", "-", "failed:"]
    assert all(len(line) <= 60 for line in lines)


def test_csv_has_settings_and_each_metric_and_no_formula() -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text(sweep()))))
    assert [row["lr"] for row in rows] == ["0.01", "0.1", "1", "'=2"]
    assert (rows[0]["best val_loss"], rows[0]["last val_loss"]) == ("1.0", "1.5")
    assert (rows[2]["last val_loss"], rows[3]["best val_loss"]) == ("nan", "")
    assert rows[3]["cause"] == "rank 1 on node02 exited with code 1"


def test_patterns_match_names_and_ids() -> None:
    run = known(1).run
    assert [is_named(run, text) for text in ("", "run*", "run1", "2026*", "run", "x*")] == [
        True, True, True, True, False, False,
    ]  # fmt: skip


def test_a_run_that_only_this_folder_has(tmp_path: Path) -> None:
    folder = tmp_path / RUN_ID
    (folder / "logs").mkdir(parents=True)
    (folder / "outputs" / "tb").mkdir(parents=True)
    (folder / "outputs" / "tb" / "events.out.tfevents.1").touch()
    (folder / "outputs" / "wandb" / "offline-run-1").mkdir(parents=True)
    variables = [
        {"name": "A", "value": "1", "why": "a thread for each core"},
        {"name": "B", "value": None, "why": "yours, with --env or run.env"},
    ]
    hosts = [{"name": "node01", "ranks": [{}], "threads": 2, "variables": variables}]
    plan = {"name": "old", "argv": ["train.py", "--lr", "1"], "world_size": 1, "hosts": hosts}
    (folder / "plan.json").write_text(json.dumps(plan))
    (folder / "result.json").write_text('{"exit_code": 3, "ended_by": "ranks", "seconds": 5}')
    (folder / "logs" / "rank00000.node01.log").write_text("step 1 loss 2.5\nstep 2 loss 1.5\n")
    (tmp_path / "20260101-120000-bad000").mkdir()
    (tmp_path / "20260101-120000-bad000" / "plan.json").write_text('{"world_size": []}')
    (found,) = read_from_here([*run_folders(tmp_path).values()])
    assert (found.run.about.name, found.run.phase.value, found.run.seconds) == ("old", "failed", 5)
    assert found.parts["arguments"] == {"script": "train.py", "--lr": "1"}
    assert found.parts["variables"] == {"A": "1", "B": "set"} and found.parts["code"] is None
    assert found.given == {"B"}
    assert [line.loss for line in found.printed] == [2.5, 1.5]
    assert found.attempts == 1 and found.run.began == 1767268800.0  # ids have UTC
    again = tmp_path / f"{RUN_ID}-r02"
    again.mkdir()
    for name in ("plan.json", "result.json"):
        (again / name).write_bytes((folder / name).read_bytes())
    (found,) = read_from_here([*run_folders(tmp_path).values()])
    assert (found.run.id, found.attempts, found.run.seconds) == (again.name, 2, 0.0)
    links = dict(find_links(folder, tmp_path))
    assert links == {
        "TensorBoard tb": f"{RUN_ID}/outputs/tb",
        "W&B offline-run-1": f"{RUN_ID}/outputs/wandb/offline-run-1",
    }


def test_of_a_long_log_complete_lines_from_all_of_it_are_sent(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("".join(f"step {step} loss {1 / step:.9f}\n" for step in range(1, 20001)))
    parts, body = run_records.read_parts(str(path))
    assert sum(size for _, size in parts) == len(body) <= run_records.MOST_LOG
    data = path.read_bytes()
    assert b"".join(data[start : start + size] for start, size in parts) == body
    steps = [p.point.step for p in read_points(made(), "node01", 0, body, parts)]
    assert steps[0] == 1 and steps[-1] == 20000 and steps == sorted(set(steps))  # type: ignore[type-var]
    short = tmp_path / "short"
    short.write_text("loss 1\nno end")
    assert run_records.read_parts(str(short)) == ([(0, 7)], b"loss 1\n")


def test_a_row_has_its_times_and_speed_as_words_of_the_other_page() -> None:
    run = replace(known(1), printed=attempt(made()).printed, speed=Speed(2.0, 0.1, 3))
    (row,) = runs_document([run], SecretMask())["runs"]
    assert (row["took"], row["seconds"]) == ("1 min", 60.0)
    assert (row["speed"]["text"], row["speed"]["rate"]) == ("2.0 steps/s", 2.0)
    assert row["when"] == time.strftime("%Y-%m-%d %H:%M", time.localtime(1000.0))
    bare = replace(run, run=replace(run.run.lasting(0.0), began=0.0), printed=(), speed=None)
    (row,) = runs_document([bare], SecretMask())["runs"]
    assert not row["when"] and not row["took"] and row["seconds"] is row["speed"] is None
