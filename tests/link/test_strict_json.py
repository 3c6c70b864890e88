"""What a machine refuses to read, none passes on: numbers without end, long ones, deep lists."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from types import ModuleType

import pytest

from ipexctl.base import host_answer
from ipexctl.common import (
    attempt_record,
    checkpoint_reports,
    exchange_report,
    journal_records,
    message,
    run_events,
)
from ipexctl.common.journal_records import RanksSignalled, WrittenRecord
from ipexctl.common.message import Message
from ipexctl.common.run_answers import JournalSummary
from ipexctl.common.run_events import Exit, Fact, HostLost, RankExited
from ipexctl.common.strict_json import DEPTH, depth_of, read_strict_json
from ipexctl.machines.wire.frames import BadFrame, Decoder
from ipexctl.remote.connection import link_stream
from ipexctl.remote.hub.judge import Judge
from ipexctl.remote.run import run_list
from ipexctl.remote.run_files import journal
from tests.hub.test_judge import ready, run
from tests.made import run_row

ODD = [
    "NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1E+400", "9" * 21, "-" + "9" * 21,
    "[" * 65 + "]" * 65, '{"a":' * 65 + "1" + "}" * 65, "[" * 5000 + "]" * 5000, "{",
]  # fmt: skip
USUAL = [
    "1e300", "-1.5E-400", "9" * 20, "-" + "9" * 20, "0.1", "[" * 64 + "]" * 64,
    json.dumps("NaN, Infinity, 1e999 and " + "9" * 400), json.dumps(["[[[[\"[[[[" * 40]),
    json.dumps([[1, 2]] * 400), "null", "true",
]  # fmt: skip


@pytest.mark.parametrize("text", ODD)
def test_odd_values_are_refused_wherever_they_are(text: str) -> None:
    for whole in (text, f"[{text}]", f'{{"cpu": {text}}}'):
        with pytest.raises(ValueError, match="."):
            read_strict_json(whole.encode())


@pytest.mark.parametrize("text", USUAL)
def test_usual_values_are_those_of_pythons_own_reader(text: str) -> None:
    assert read_strict_json(text.encode()) == json.loads(text)


def test_the_depth_is_that_of_lists_and_objects_outside_strings() -> None:
    made = random.Random(7)

    def value(depth: int) -> object:
        if depth == 0:
            return made.choice(['[{"]}', 1, "\\\\", '\\"'])
        inner = [value(made.randrange(depth)) for _ in range(3)] + [value(depth - 1)]
        return inner if made.random() < 0.5 else dict(zip("]{a[", inner, strict=True))

    for depth in range(1, 7):
        assert depth_of(json.dumps(value(depth)).encode()) == depth
    assert DEPTH == 64


@pytest.mark.parametrize("text", ODD[:11])
def test_a_host_does_not_take_from_another_what_the_controller_would_refuse(text: str) -> None:
    """Else it would write it to its journal, and no command could read that host's runs."""
    event = RankExited(1, Exit(3)).document()
    body = json.dumps(dict(event, odd=0)).replace('"odd": 0', f'"odd": {text}').encode()
    assert link_stream.decode_message(body) is None
    header = b'{"id": 1, "done": ' + body + b"}"
    with pytest.raises(BadFrame):
        Decoder().feed(len(header).to_bytes(4, "big") + bytes(4) + header)


PASSED_ON = (attempt_record, checkpoint_reports, exchange_report, journal_records, run_events)
OWN = ("dict[str, Any]", "list[str]")  # of the controller's own orders, and arguments of programs
WRONG = [
    -7, 10**19, -0.5, 1e300, True, "a\nb", "\x1b[2J", "\ud800", None, [], {}, ["a\nb"], [[1, 2]],
    {"a\nb": "a\nb"}, {"x": 0.5}, {"\u00b2": 0.5}, {"\u0663": 0.5}, {"": 0.5},
    {"-1": 0.5}, {"1": -0.5}, [[-1, "a\nb"]], [["a\nb", 1]],
]  # fmt: skip


@pytest.mark.parametrize("module", PASSED_ON, ids=lambda module: module.__name__)
def test_what_hosts_take_from_each_other_is_what_the_controller_takes_from_them(
    module: ModuleType,
) -> None:
    """Else one host could write into the journals of the others what no command can read."""
    seen = refused = 0
    for kind in vars(module).values():
        if not (isinstance(kind, type) and issubclass(kind, Message)):
            continue
        by_controller = host_answer.reader_of
        for name, type_ in host_answer._hints(kind).items():
            if name not in kind._names or kind._types[name] in OWN:
                continue
            for value in WRONG:
                seen += 1
                try:
                    message.reader_of(kind._types[name])(value)
                except TypeError:
                    refused += 1
                    continue
                by_controller(type_, True)(value)
    assert refused > seen // 2 > 0


@pytest.mark.parametrize("text", ODD[:11])
def test_an_odd_record_in_a_journal_costs_that_record_alone(tmp_path: Path, text: str) -> None:
    kept = journal.create_journal(str(tmp_path), "a")
    first, last = RanksSignalled("ann"), RanksSignalled("bob")
    kept.add(first)
    odd = json.dumps({"record": {"kind": "RanksSignalled", "why": 0}, "at": 0}).replace(
        '"why": 0', f'"why": {text}'
    )
    size, position = journal.HEAD.size, kept.at
    data = odd.encode()
    os.pwrite(kept.fd, journal.HEAD.pack(len(data), journal.zlib.crc32(data)) + data, position)
    kept.at = position + size + len(data)
    kept.add(last)
    os.close(kept.fd)
    records = journal.read_journal(str(tmp_path), "a")
    assert [written.record for written in records] == [first, last]
    json.dumps(run_list.summarize_journal(records).document(), allow_nan=False)
    assert all(isinstance(written, WrittenRecord) for written in records)


def test_what_one_host_says_at_length_leaves_room_for_other_runs_in_an_answer() -> None:
    """Each host has it in its journals, and no command could list the runs there."""
    judge = Judge(run(), 0.0)
    ready(judge)
    hints = tuple("x" * 120_000 for _ in range(30))
    judge.on_rank_exited("b", RankExited(1, Exit(3, hints=hints)), 1.0)
    assert len(json.dumps([fact.document() for fact in judge.facts])) < 2000

    broken = Fact(HostLost("lost " + "y" * (1 << 20) + " at the end"), "b")
    (row, size), (usual, _) = (
        run_list.limit_texts(
            run_row("20260101-000000-000001", journal=JournalSummary(facts=facts)), n
        )
        for facts, n in (([broken] * 64, run_list.LARGE_ROW), ([Fact(HostLost("y"), "b")], 8000))
    )
    assert size == len(json.dumps(row.document())) < 64 * 1000
    assert row.journal.facts[0].event.why.startswith("lost yyy")
    assert row.journal.facts[0].event.why.endswith(" at the end")
    assert usual.journal.facts[0].event.why == "y"
