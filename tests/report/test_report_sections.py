"""What a section of a report makes of a run, where test_report_document does not see it."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ipexctl.base.host_answer import Answer
from ipexctl.base.values import texts_of
from ipexctl.common.attempt_record import AttemptBegins
from ipexctl.common.run_inputs import RunInputs
from ipexctl.report import sections
from ipexctl.report.material.host_record import Printed
from ipexctl.report.material.report_material import Attempt, Material
from ipexctl.report.sections import (
    SECTIONS,
    attempts,
    cards,
    differences,
    environment,
    git,
    places,
    result,
    usage,
    variables,
    waiting,
)
from ipexctl.report.sections.result import describe_exception
from ipexctl.report.sections.settings import read_arguments
from ipexctl.run.outcome.listed_checkpoints import ListedCheckpoint, explain_beginning
from ipexctl.run.outcome.run_state import Phase
from tests.report.made_run import attempt, made, material

SPELLED = (("eval_loss", "val_loss"),)

FOLDER = Path(sections.__file__).parent
SCRIPTS = {path.stem: path.read_text("utf-8") for path in FOLDER.glob("*.js")}


def of_hosts(count: int) -> Material:
    return material(attempt(made(hosts=count)))


def test_each_module_and_script_is_a_section():
    assert {path.stem for path in FOLDER.glob("[!_]*.py")} == set(SECTIONS)
    assert [name for name, text in SCRIPTS.items() if f"sections.{name} = " not in text] == []
    assert SCRIPTS.keys() <= SECTIONS.keys()


def test_a_section_without_a_script_is_a_table():
    tables = {name: one for name, one in SECTIONS.items() if name not in SCRIPTS}
    assert "variables" in tables
    for name, one in tables.items():
        rows = one.section_document(of_hosts(2))[name]
        assert one.EMPTY and max(one.MONO) < len(one.HEADS)
        assert all(len(texts_of(row)) == len(one.HEADS) for row in rows)


def test_a_key_of_the_document_belongs_to_one_section():
    bare = material(Attempt(made(Phase.LOST)))
    for of in (bare, of_hosts(2)):
        keys = [key for one in SECTIONS.values() for key in one.section_document(of)]
        assert len(keys) == len(set(keys)) and {"headline", "cards", "heat"} <= set(keys)


def test_bytes_that_the_ranks_report_come_before_those_of_samples():
    of = replace(attempt(made()), result={"exchange": {"bytes": 5_000_000}})
    facts = dict(environment.section_document(material(of))["facts"])
    assert facts["Exchanged"] == "5.0 MB between the ranks"


def test_the_best_of_each_metric_is_a_card_and_the_loss_of_training_has_its_own():
    lines = tuple(
        Printed(step, loss=5.0, eval_loss=loss, numbers=(("acc", acc),), spelled=SPELLED)
        for step, loss, acc in ((1, 3.0, 0.2), (2, 1.0, 0.5), (3, 2.0, 0.7))
    )
    shown = {
        card["label"]: (card["value"], card["note"])
        for card in cards.section_document(material(replace(attempt(made()), printed=lines)))[
            "cards"
        ]
    }
    assert shown["Best val_loss"] == ("1", "at step 2; 2 at the end")
    assert shown["Best acc"] == ("0.7", "at step 3")
    assert "Best loss" not in shown and "Loss" in shown


def test_other_programs_are_named_among_the_waits():
    of = attempt(made())
    busy = tuple(
        replace(record, samples=tuple(replace(s, cpu=1.0) for s in record.samples))
        for record in of.records
    )
    for records, words in ((of.records, "input, disks"), (busy, "busy CPUs")):
        found = waiting.section_document(material(replace(of, records=records)))["waiting"]
        assert words in found["parts"][-1]["name"]


def test_without_another_run_nothing_differs():
    found = differences.section_document(of_hosts(2))
    assert found == {"other": "", "compared": [], "comparison": None}


def test_many_hosts_are_drawn_as_a_median_with_a_range():
    few, many = (usage.section_document(of_hosts(count))["usage"][0] for count in (2, 9))
    assert [one["name"] for one in few["series"]] == ["node01", "node02"]
    (one,) = many["series"]
    assert one["name"] == "median of 9 hosts"


def test_a_host_whose_ranks_ran_elsewhere_has_a_map_of_its_own():
    of = attempt(made(hosts=3))
    moved = replace(of.records[0], places=((0, (8, 9)), (1, (0, 1, 2, 3)), (2, (0, 1, 2, 3))))
    records = (moved, *(replace(record, places=()) for record in of.records[1:]))
    first, rest = places.section_document(material(replace(of, records=records)))["places"]
    assert (first["hosts"], first["shown"]) == ("node01", "")
    assert first["ranks"] == [{"rank": 0, "planned": (0, 1, 2, 3), "real": (8, 9)}]
    assert (rest["hosts"], rest["shown"]) == ("node[02-03]", "node02")


def test_another_value_of_a_variable_is_a_row_with_its_hosts():
    of = attempt(made())
    assert of.records[1].inputs
    inputs = of.records[1].inputs.replace(variables={"OMP_NUM_THREADS": "2"}, reasons={})
    records = (of.records[0], replace(of.records[1], inputs=inputs))
    rows = variables.section_document(material(replace(of, records=records)))["variables"]
    assert rows[:2] == [
        ["OMP_NUM_THREADS", "2", "set with --env or run.env", "node02"],
        ["OMP_NUM_THREADS", "4", "a thread for each core", "node01"],
    ]


def test_the_environment_begins_with_who_started_the_run_and_where():
    of = material(attempt(made()), environment=(("PyTorch", "2.13.0"),))
    found = environment.section_document(of)
    assert found["facts"][:3] == [
        ["Hosts", "node[01-02]"],
        ["Started by", "ann@desk"],
        ["Folder", "/home/ann/bert"],
    ]
    assert [*found["environment"]] == [("PyTorch", "2.13.0")]


def test_an_attempt_repeats_the_steps_after_its_checkpoint():
    first = attempt(made(Phase.FAILED), steps=37)
    second = replace(made(), id="20260101-120000-abcdef-r02", began=1070.0)
    lines = tuple(line for line in attempt(second, steps=60).printed if (line.step or 0) >= 35)
    saved = ListedCheckpoint("out/step-30.pt", "", 100, 5.0, 30)
    partial = ListedCheckpoint("out/step-40.pt", "not copied", 100, 5.0, 40)
    of = material(
        first,
        replace(attempt(second), printed=lines),
        checkpoints=(partial, saved),
        began_from=((1, "", "none was found"), (2, "out/step-30.pt", "")),
        queued=125.0,
    )
    one, two = attempts.section_document(of)["attempts"]
    assert one[2:5] == ["the beginning", "1 to 37", ""]
    assert one[6] == "rank 1 on node02 exited with code 1"
    assert two[2:5] == ["out/step-30.pt", "31 to 60", "7 steps"]
    made_cards = cards.section_document(of)["cards"]
    shown = {card["label"]: (card["value"], card["note"]) for card in made_cards}
    assert shown["Last checkpoint"][0] == "step 30"
    # 2 attempts with 2 ranks of 3 CPUs, until the last sample
    facts = dict(environment.section_document(of)["facts"])
    assert facts["CPU time"] == "11 min 30 s, used by the ranks"
    note = shown["Time"][1]
    assert note.startswith("all attempts, 10 s between them; 1 min in attempt 2: ")
    assert "2 min 5 s" in result.section_document(of)["queued"]
    assert result.section_document(replace(of, queued=3.0))["queued"] == ""
    assert attempts.section_document(of_hosts(2)) == {"attempts": []}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"kept": False}, "--checkpoints GLOB was not given"),
        ({"kept": True}, "no checkpoint is complete; none was found"),
        ({"kept": True, "open": ["out/5"]}, "no checkpoint is complete; not complete: out/5"),
        ({"kept": True, "away": "out/5"}, "no host that is reached has out/5"),
    ],
)
def test_an_attempt_without_a_checkpoint_says_why(fields: dict[str, Any], why: str):
    second = replace(made(), id="20260101-120000-abcdef-r02", began=1070.0)
    begins = AttemptBegins(2, ["node01"], **fields)
    assert explain_beginning(begins) == why
    starts = tuple((number, "", explain_beginning(begins)) for number in (1, 2))
    of = material(attempt(made(Phase.FAILED)), attempt(second), began_from=starts)
    rows = attempts.section_document(of)["attempts"]
    assert [row[2] for row in rows] == ["the beginning", f"the beginning ({why})"]


def test_an_attempt_that_begins_again_repeats_steps_that_count_from_0():
    second = replace(made(), id="20260101-120000-abcdef-r02", began=1070.0)

    def count_from_0(of, steps):
        lines = attempt(of, steps=steps).printed
        return replace(
            attempt(of), printed=tuple(replace(p, step=p.step and p.step - 1) for p in lines)
        )

    of = material(count_from_0(made(Phase.FAILED), 37), count_from_0(second, 60))
    one, two = attempts.section_document(of)["attempts"]
    assert [row[3:5] for row in (one, two)] == [["0 to 36", ""], ["0 to 59", "37 steps"]]
    silent = material(replace(attempt(made()), printed=()), replace(attempt(second), printed=()))
    rows = attempts.section_document(silent)["attempts"]
    assert [row[3:5] for row in rows] == [["none printed", ""]] * 2


def test_an_exception_is_placed_at_the_last_line_of_the_users_own_code():
    text = """Traceback (most recent call last):
  File "train.py", line 3, in <module>
    import helper
  File "/home/ann/helper.py", line 7, in <module>
    import torch
  File "/x/lib/python3.11/site-packages/torch/__init__.py", line 9, in <module>
    import gone
ModuleNotFoundError: No module named 'gone'"""
    expected = "import failed at helper.py:7: ModuleNotFoundError: No module named 'gone'"
    assert describe_exception(text.splitlines()) == expected
    assert describe_exception(["killed"]) == ""


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("--lr 1e-4 --bf16", [["--lr", "1e-4"], ["--bf16", "(set)"]]),
        ("--lr=1e-4 -n 3", [["--lr", "1e-4"], ["-n", "3"]]),
        ("--shift -0.5 --name ''", [["--shift", "-0.5"], ["--name", "(set)"]]),
        ("--files a b --fast", [["--files", "a b"], ["--fast", "(set)"]]),
        (
            "--fast model.width=64 +x=[1,2]",
            [["--fast", "(set)"], ["model.width", "64"], ["+x", "[1,2]"]],
        ),
        ("conf.yaml --seed 1", [["(no name)", "conf.yaml"], ["--seed", "1"]]),
        ("", []),
    ],
)
def test_arguments_have_names_and_values(typed: str, expected: list[list[str]]):
    assert read_arguments(shlex.split(typed)) == expected


def test_the_code_of_a_run_has_its_commit_and_changes():
    state = {"commit": "a1b2", "branch": "fast", "changed": [["changed", "train.py"]]}
    raw = {"packages": {}, "git": {**state, "diff": "-lr = 1\n+lr = 2\n+TOKEN = 'abcdef123'"}}
    of = attempt(made())
    records = (replace(of.records[0], of_run=Answer("n", raw).read(RunInputs)), of.records[1])
    found = git.section_document(material(replace(of, records=records)))["git"]
    assert found["rows"] == [("Commit", "a1b2"), ("Branch", "fast"), ("Changed", "train.py")]
    assert found["diff"][:2] == ["-lr = 1", "+lr = 2"] and "abcdef" not in found["diff"][2]
    assert git.section_document(of_hosts(2)) == {"git": None}
