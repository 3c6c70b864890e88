"""What a host keeps of a run for its report, and what it tells."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

from ipexctl.base.host_answer import Answer
from ipexctl.common.journal_records import (
    RUN_FORMAT,
    InputsNoted,
    LookNoted,
    RunBegan,
    WrittenRecord,
)
from ipexctl.common.rank_paces import HostSample
from ipexctl.common.run_about import RunAbout
from ipexctl.common.run_answers import RecordAnswer
from ipexctl.common.run_events import Sample
from ipexctl.common.run_inputs import HostInputs
from ipexctl.remote.run import run_list
from ipexctl.remote.run.last_minute import Pace
from ipexctl.remote.run_files import journal, run_folders
from ipexctl.report.material import host_record

SAMPLE = Sample(0.51234, 123456, ranks={3: 1.234})
INPUTS = InputsNoted({"cpu": "EPYC"}, {"packages": {}, "environment": "abc"})


def test_samples_are_few_and_come_back(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(journal, "MOST_ROWS", 20)
    folder = tmp_path / "runs" / "r-1234"
    (folder / "journals").mkdir(parents=True)
    path = journal.samples_path(str(folder), "n")
    sent = {3: [1000, 0.25]}
    traffic = SimpleNamespace(sent=lambda: sent)
    pace = Pace(
        SimpleNamespace(took={3: (1.0, 2.0)}, rank_pids=dict), traffic, journal.History(path)
    )
    for _ in range(95):
        pace.add(0.5)
        pace.keep(SAMPLE)
    assert len(Path(path).read_text().splitlines()) <= 20
    kept = journal.create_journal(str(folder), "n")
    for record in (
        RunBegan(RUN_FORMAT, RunAbout(), began=5.0),
        INPUTS,
        LookNoted(1, [], 0.0),
    ):
        kept.add(record)
    assert journal.list_journal_hosts(str(folder)) == ["n"]
    asked = {"root": str(tmp_path), "run_id": "r-1234", "known_as": "n"}
    monkeypatch.setattr(run_folders.root_folder, "check_existing_root", lambda root: root)
    told = run_list.op_record(None, **asked)
    assert told.began == 5.0
    assert told.records == [WrittenRecord(INPUTS, 0.0)]
    sent = Answer("n", json.loads(json.dumps(told.document())))
    found = host_record.read_host_record("n", sent.read(RecordAnswer))
    assert found.of_run and found.of_run.environment == "abc" and len(found.samples) <= 20
    assert found.inputs == HostInputs("EPYC")
    assert found.samples[0].ranks == (host_record.RankSample(3, 1.23, 1000, 0.25, None, 0, 0, 0),)
    assert found.samples[0].cpu == 0.512 and found.samples[0].net is None


def test_a_disk_that_is_full_ends_the_samples_and_nothing_else(tmp_path: Path):
    history = journal.History(str(tmp_path / "no" / "samples"))
    pace = Pace(SimpleNamespace(took={}, rank_pids=dict), SimpleNamespace(sent=dict), history)
    pace.add(0.5)
    pace.keep(SAMPLE)
    assert pace.history is None and len(pace.samples) == 1


def test_many_samples_are_thinned():
    rows = [HostSample(0.0, ranks=dict.fromkeys(range(64), (1, 2, ())))] * 2000
    assert 300 < len(run_list.thin_samples(rows)) < 400
