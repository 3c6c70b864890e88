"""The journal of a run: what is read back, however its file was cut or damaged."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipexctl.common.journal_records import (
    RUN_FORMAT,
    FactNoted,
    JournalRecord,
    LogBegan,
    OwnRankEnded,
    OwnRankStarted,
    PartEnded,
    RanksSignalled,
    ResultNoted,
    RunBegan,
    WrittenRecord,
)
from ipexctl.common.message import Message
from ipexctl.common.run_about import RunAbout
from ipexctl.common.run_events import Begun, Event, Exit, Fact, Noted, RankExited
from ipexctl.explain.known_failures import known_failures
from ipexctl.remote.run import run_list
from ipexctl.remote.run_files import journal
from ipexctl.run.outcome import host_reports, listed_runs
from ipexctl.run.outcome.host_reports import RunOnHost
from ipexctl.run.outcome.run_choice import Caller, choose_run, free_name
from ipexctl.run.outcome.run_state import Phase
from ipexctl.run.watch.run_format import find_other_version
from tests.made import journal_bytes, run_row
from tests.refused import refused

RUN = "20260101-000000-000001"
ABOUT = RunAbout("bert", ("a", "b"), 2, "train.py", "ann@pc", "/home/ann/bert")
ME = Caller("ann@pc", Path("/home/ann/bert"))
DONE = [
    WrittenRecord(RunBegan(RUN_FORMAT, ABOUT, began=1000.0)),
    WrittenRecord(OwnRankStarted(0), 0.1),
    WrittenRecord(OwnRankEnded(0, Exit(0)), 5.0),
    WrittenRecord(PartEnded("ended", 0), 5.1),
]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=4,
)
FITTING = {
    "int": st.integers(0, 3), "float": st.floats(0, 9), "Line": st.text(), "AnyText": st.text(),
    "bool": st.booleans(), "dict[str, Any]": st.dictionaries(st.text(), ANYTHING),
    "Exit": st.fixed_dictionaries({"code": st.none() | st.integers(0, 3)}), "Any": ANYTHING,
    "int | None": st.none() | st.integers(), "Signed": st.integers(), "Signed | None": st.none(),
    "int | str": st.integers(0, 3) | st.text(), "str": st.text(),
}  # fmt: skip


def documents(*kinds: type[Message], **given: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Documents of these kinds, with values as declared, but for one at most that may be anything
    or missing."""
    return st.one_of([documents_of(kind, given) for kind in kinds])


def documents_of(
    kind: type[Message], given: dict[str, st.SearchStrategy[Any]]
) -> st.SearchStrategy[Any]:
    fitting = {name: given.get(name, FITTING.get(type_)) for name, type_ in kind._types.items()}
    known = {name: values for name, values in fitting.items() if values is not None}
    names = st.sampled_from([*fitting, "kind"])
    whole = st.fixed_dictionaries({"kind": st.just(kind.__name__), **known})
    less = st.builds(lambda one, name: {n: one[n] for n in one if n != name}, whole, names)
    odd = st.builds(lambda one, name, value: {**one, name: value}, whole, names, ANYTHING)
    return whole | less | odd


EVENT = documents(*Event.variants.values())
FACT = documents(Fact, event=EVENT)
RECORD = documents(*JournalRecord.variants.values(), fact=FACT)
WRITTEN = documents(WrittenRecord, record=RECORD) | documents(WrittenRecord, record=EVENT)


def kept(tmp_path: Path, records: Iterable[WrittenRecord]) -> Path:
    opened = journal.create_journal(str(tmp_path), "node1")
    for one in records:
        opened.add(one.record, one.at, sync=True)
    os.close(opened.fd)
    return tmp_path / "journals" / "node1"


def row(host: str, *records: WrittenRecord, alive: bool = False, run: str = RUN) -> RunOnHost:
    summary = run_list.summarize_journal(list(records))
    said = run_row(run, host, alive=alive, journal=summary)
    return host_reports.read_on_host(host, said, known_failures)


def started(rank: int) -> WrittenRecord:
    return WrittenRecord(OwnRankStarted(rank))


def ended(rank: int, how: Exit) -> WrittenRecord:
    return WrittenRecord(OwnRankEnded(rank, how), 2.0)


def began(version: int = RUN_FORMAT, at: float = 1000.0, **about: Any) -> WrittenRecord:
    return WrittenRecord(RunBegan(version, ABOUT.replace(**about), at))


# --- the file ------------------------------------------------------------------------------------


def test_what_was_added_is_read_back_and_more_can_be_added_after_the_run(tmp_path: Path) -> None:
    path = kept(tmp_path, DONE)
    assert journal.parse_records(journal.read_journal_bytes(str(path))) == DONE
    assert path.stat().st_size == journal.ROOM  # a full disk does not stop it
    assert path.stat().st_mode & 0o777 == 0o600
    result = ResultNoted({"exit_code": 0})
    journal.append_record(str(path), result)
    assert path.stat().st_size < 1000  # its free room is given back
    assert journal.parse_records(journal.read_journal_bytes(str(path))) == [
        *DONE,
        WrittenRecord(result),
    ]


def test_it_grows_beyond_its_first_room_and_ends_at_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "MOST_BYTES", 3 * journal.ROOM)
    record = WrittenRecord(RanksSignalled("x" * 8192))
    found = journal.parse_records(journal.read_journal_bytes(str(kept(tmp_path, [record] * 200))))
    assert journal.ROOM < len(found) * 8192 <= 3 * journal.ROOM
    assert all(one == record for one in found)


def test_a_reader_gets_what_was_added_since_also_long_records(tmp_path: Path) -> None:
    opened = journal.create_journal(str(tmp_path), "node1")
    reader = journal.JournalReader(str(tmp_path / "journals" / "node1"))
    assert list(reader.new()) == []
    records = [LogBegan(n, "x" * size) for n, size in enumerate((10, 100_000, 20_000, 3))]
    for record in records[:2]:
        opened.add(record)
    first = list(reader.new())
    opened.add(records[2])
    opened.add(records[3])
    found = [*first, *reader.new()]
    assert [written.record for written, _ in found] == records
    assert (found[-1][1], list(reader.new())) == (opened.at, [])
    again = journal.JournalReader(str(tmp_path / "journals" / "node1"), at=found[1][1])
    assert [written.record for written, _ in again.new()] == records[2:]
    for one in (reader, again):
        os.close(one.fd)
    os.close(opened.fd)


def test_records_of_another_version_are_passed_over(tmp_path: Path) -> None:
    later = [
        {"record": {"kind": "MoonRose"}, "at": 1.0},
        {"record": {"kind": "RankStarted", "rank": 0, "started": 1}, "at": 1.0},  # an event
        {"record": {"kind": "OwnRankStarted"}, "at": 1.0},
        {"record": "OwnRankStarted", "at": 1.0},
        {"started": 0, "at": 1.0},
    ]
    path = kept(tmp_path, DONE[:2])
    data = path.read_bytes()[: journal.end_of(path.read_bytes())]
    path.write_bytes(data + journal_bytes(*later))
    journal.append_record(str(path), DONE[2].record, DONE[2].at)
    assert journal.parse_records(path.read_bytes()) == DONE[:3]
    reader = journal.JournalReader(str(path))
    assert [written for written, _ in reader.new()] == DONE[:3]
    assert reader.at == path.stat().st_size
    os.close(reader.fd)


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "journals").mkdir()
    (tmp_path / "journals" / "node1").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="exists"):
        journal.create_journal(str(tmp_path), "node1")
    assert journal.read_journal_bytes(str(tmp_path / "journals" / "node1")) == b""


def test_of_a_cut_file_the_whole_records_are_read(tmp_path: Path) -> None:
    data = journal.read_journal_bytes(str(kept(tmp_path, DONE)))[:600]
    for end in range(len(data)):
        found = journal.parse_records(data[:end])
        assert found == DONE[: len(found)]


@settings(max_examples=300, deadline=None)
@given(at=st.integers(0, 500), byte=st.integers(0, 255), cut=st.integers(0, 600))
def test_a_damaged_file_ends_at_the_damage(
    tmp_path_factory: pytest.TempPathFactory, at: int, byte: int, cut: int
) -> None:
    whole = journal.read_journal_bytes(str(kept(tmp_path_factory.mktemp("j"), DONE)))
    data = bytearray(whole[:cut])
    if at < len(data):
        data[at] = byte
    found = journal.parse_records(bytes(data))
    assert found == DONE[: len(found)]


# --- from journals to runs -----------------------------------------------------------------------


def test_a_run_that_all_hosts_saw_end_well_is_done_without_a_result() -> None:
    other = [began(at=900.0), started(1), ended(1, Exit(0))]
    (run,) = listed_runs.merge_runs([row("a", *DONE), row("b", *other)])
    assert (run.phase, run.ok, run.cause, run.began) == (Phase.DONE, 2, "", 900.0)
    (half,) = listed_runs.merge_runs([row("a", *DONE)])
    assert half.phase is Phase.LOST  # b's rank is not known


FAILURES = [
    (Exit(3), "rank 1 on b exited with code 3"),
    (Exit(None, 11), "rank 1 on b was ended by signal 11 (SIGSEGV)"),
    (Exit(None, lost=True), "rank 1 on b was killed"),
    (Exit(None), "rank 1 on b exited with an unknown code"),
]


def test_a_rank_that_crashed_after_its_script_had_ended_did_not_fail() -> None:
    other = started(1), ended(1, Exit(0, at_exit=6))
    (run,) = listed_runs.merge_runs([row("a", *DONE), row("b", *other)])
    assert (run.phase, run.ok) == (Phase.DONE, 2)


@pytest.mark.parametrize(("how", "cause"), FAILURES)
def test_the_first_failure_is_the_cause(how: Exit, cause: str) -> None:
    (run,) = listed_runs.merge_runs([row("a", *DONE), row("b", started(1), ended(1, how))])
    assert (run.phase, run.cause) == (Phase.FAILED, cause)


def test_a_run_without_an_end_is_lost_and_one_that_answers_is_not() -> None:
    (gone,) = listed_runs.merge_runs([row("a", *DONE[:2])])
    assert gone.phase is Phase.LOST
    assert "switched off" in gone.cause
    silence = WrittenRecord(PartEnded("no message", 0))
    (cut,) = listed_runs.merge_runs([row("a", *DONE[:2], silence)])
    assert cut.cause == "a: no message"
    (lives,) = listed_runs.merge_runs([row("a", *DONE[:2], alive=True)])
    assert lives.phase is Phase.STARTING  # another host may not be ready
    ready = WrittenRecord(FactNoted(Fact(Begun())))
    (lives,) = listed_runs.merge_runs([row("a", *DONE[:2], ready, alive=True), row("b", *DONE[:1])])
    assert lives.phase is Phase.RUNNING
    asked = [*DONE[:2], WrittenRecord(RanksSignalled("ann@pc"))]
    (stops,) = listed_runs.merge_runs([row("a", *asked, alive=True)])
    assert stops.phase is Phase.STOPPING


@settings(max_examples=300, deadline=None)
@given(
    texts=st.lists(WRITTEN.map(json.dumps), max_size=8),
    failed=st.booleans(),
    alive=st.booleans(),
    at=st.integers(0, 8),
)
def test_odd_journals_never_crash_and_a_failed_run_is_never_done(
    texts: list[str], failed: bool, alive: bool, at: int
) -> None:
    read = [journal.read_document(json.loads(text)) for text in texts]
    clean = [one for one in read if one and not isinstance(one.record, ResultNoted)]
    if failed:
        others = [one for one in clean if getattr(one.record, "rank", 0) != 7]
        clean = [*others[:at], ended(7, Exit(1)), began(ranks=1), *others[at:]]
    for run in listed_runs.merge_runs([row("a", *clean, alive=alive)]):
        assert not (failed and run.phase is Phase.DONE)
        assert run.over is not alive


NAMES = ["20260102-000000-aaaaaa", "20260101-000000-bbbbbb"]


def test_a_warning_of_each_healthy_run_is_not_its_last_line() -> None:
    summary = run_list.summarize_journal(DONE)
    warning = "[W1123 socket.cpp:755] [c10d] The hostname of the client socket cannot be retrieved"
    for last, shown in ((warning, ""), ("step 3", "step 3")):
        said = run_row(RUN, "a", alive=True, journal=summary, last=(0, last))
        (run,) = listed_runs.merge_runs([host_reports.read_on_host("a", said, known_failures)])
        assert run.last == shown


def test_a_record_with_values_of_other_types_is_passed_over_also_deep_in_it() -> None:
    kept = [one.document() for one in DONE]
    for event in (Noted("x", [("a", "b")]), Noted("x", 7), RankExited(0, Exit("0"))):  # type: ignore[list-item, arg-type]
        odd = WrittenRecord(FactNoted(Fact(event)), 1.0).document()
        records = journal.parse_records(journal_bytes(*kept[:2], odd, *kept[2:]))
        assert records == DONE and run_list.summarize_journal(records).ok == 1


def test_an_empty_journal_beside_a_written_one_is_not_of_another_version() -> None:
    empty = row("b", alive=True)
    (run,) = listed_runs.merge_runs([row("a", began()), empty])
    assert find_other_version(run) == ""
    (run,) = listed_runs.merge_runs([row("a", began(version=9)), empty])
    assert find_other_version(run)


def test_a_run_is_chosen_by_the_beginning_of_its_id_its_name_or_as_the_last() -> None:
    new, old = listed_runs.merge_runs(row("a", *DONE, run=name) for name in NAMES)
    for text, expected in (
        ("@last", new), ("bert", new), ("20260101", old), (NAMES[0], new),
    ):  # fmt: skip
        assert choose_run([new, old], text, ME) == expected
    last, first = listed_runs.merge_runs(
        row("a", *DONE, run=f"{NAMES[0]}{n}") for n in ("-r02", "")
    )
    for text, expected in ((NAMES[0], last), (f"{NAMES[0]}-r01", first), (last.id, last)):
        assert choose_run([last, first, old], text, ME) == expected
    for text in ("bert", NAMES[0][:10], "@last"):
        assert choose_run([last, first, old], f"{text}-r02", ME) == last
        assert choose_run([last, first, old], f"{text}-r01", ME) == first
    with refused("unknown-run", "bert has no attempt 3"):
        choose_run([last, first, old], "bert-r03", ME)
    with refused("run-ambiguous", "2026", *NAMES):
        choose_run([new, old], "2026", ME)
    with refused("unknown-run", "'bert'"):
        choose_run([new, old], "bart", ME)


def test_of_several_people_and_projects_a_name_means_the_nearest_run() -> None:
    def run(number: int, **about: str) -> RunOnHost:
        return row("a", began(**about), *DONE[1:], run=f"2026010{number}-000000-aaaaaa")

    here = run(1)
    elsewhere = run(2, folder="/home/ann/gpt")
    of_bob = run(3, by="bob@pc")
    unknown = run(4, by="", folder="")
    runs = listed_runs.merge_runs([here, elsewhere, of_bob, unknown])
    for text in ("bert", "@last"):
        assert choose_run(runs, text, ME).id == here.run
    assert choose_run(runs[:-1], "bert", ME).id == elsewhere.run
    assert choose_run(runs[:-2], "bert", ME).id == unknown.run
    with refused("no-own-run", "/home/ann/bert", "of ann@pc, in /home/ann/gpt"):
        choose_run(runs[:-1], "@last", ME)
    with refused("no-own-run", "an unknown user"):
        choose_run(runs[:-2], "@last", ME)


def test_a_near_name_of_another_person_is_suggested_by_its_id() -> None:
    """By the name, the caller could come to mean a run of their own."""
    of_bob = row("a", began(by="bob@pc"), *DONE[1:], run="20260103-000000-aaaaaa")
    for runs, meant in (([of_bob], of_bob.run), ([of_bob, row("a", *DONE)], "bert")):
        with refused("unknown-run", "did you mean 'bert'") as e:
            choose_run(listed_runs.merge_runs(runs), "brt", ME)
        assert e.value.meant == ("brt", meant)


@pytest.mark.parametrize(
    ("active", "expected"),
    [
        ((), "bert"), (("gpt",), "bert"), (("bert",), "bert-2"),
        (("bert", "bert-2", "bert-4"), "bert-3"), (("a" * 64,), "a" * 62 + "-2"),
    ],
)  # fmt: skip
def test_a_name_that_an_active_run_has_gets_a_number(
    active: tuple[str, ...], expected: str
) -> None:
    reports = [
        row("a", began(name=name), DONE[1], alive=True, run=f"2026010{number}-000000-aaaaaa")
        for number, name in enumerate(active)
    ]
    ended_one = row("a", *DONE)
    runs = listed_runs.merge_runs([*reports, ended_one])
    wanted = active[0] if len(active) == 1 and len(active[0]) == 64 else "bert"
    assert free_name(wanted, runs)[0] == expected


@pytest.mark.parametrize("name", ["2026", "@last", "a b", "-x", "é", "a" * 65, "a/b"])
def test_a_name_is_no_id(name: str) -> None:
    with refused("run-name-invalid", repr(name)):
        host_reports.checked_name(name)
