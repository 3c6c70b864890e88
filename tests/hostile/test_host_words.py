"""What a host's words become here: parts of a play, of a path, of a command to paste."""

from __future__ import annotations

import time

import pytest

from ipexctl.base.host_answer import Answer
from ipexctl.base.values import plain
from ipexctl.common.run_about import RunAbout
from ipexctl.common.run_answers import JournalSummary, RunList
from ipexctl.doctor.report.finding import Finding, Severity, do, scripted_sudo
from ipexctl.doctor.report.fix_plan import fix_play
from ipexctl.errors import printable_text
from ipexctl.run.outcome import host_reports, listed_runs
from ipexctl.run.output.short_paths import shorten_paths
from tests.made import run_row
from tests.refused import refused

LINE_ENDS = "\n\r\x0b\x0c\x85\u2028\u2029"


def _play(*words: str) -> str:
    fix = do(scripted_sudo(*words))
    return fix_play([Finding("S1", Severity.WARN, "n0", "t", "", "", fix)], ["n0"])


@pytest.mark.parametrize("end", LINE_ENDS)
def test_words_of_a_host_stay_in_the_comment_of_a_play(end: str) -> None:
    """YAML takes U+2028 for the end of a line."""
    text = _play("loginctl enable-linger", plain(f"x{end}steps: [{{sh: id}}]{end}#"))
    assert len(text.splitlines()) == 1
    assert text.startswith("# left to you")


def test_a_word_of_a_host_is_one_word_in_a_play() -> None:
    """`chown x: /mnt/a /etc` as root would give /etc to the account."""
    text = _play("chown -R", "x:", "/mnt/a /etc")
    assert """sh: {"cmd": "chown -R x: '/mnt/a /etc'"}""" in text


@pytest.mark.parametrize("end", LINE_ENDS)
def test_what_is_shown_of_a_host_has_no_other_end_of_a_line(end: str) -> None:
    assert len(plain(f"a{end}b").splitlines()) == 1
    assert set(printable_text(f"a{end}b")) <= {"a", "b", "\n"}


@pytest.mark.parametrize(
    "run",
    [
        "../../x",
        "/tmp/x",
        "a/b",
        "x; rm -rf ~",
        "-rf",
        "x",
        "rm",
        "all",
        "$(id)",
        "A1",
        "x\u2028y",
        "",
        ".",
    ],
)
def test_a_run_id_that_ipexctl_never_made_is_no_run(run: str) -> None:
    """It becomes the name of a folder here, and a word of commands to paste."""
    part = host_reports.read_on_host("n0", run_row(run, alive=True))
    assert listed_runs.merge_runs([part]) == ()


def test_an_odd_value_of_an_answer_is_one_error_with_host_and_field() -> None:
    row = run_row("20260101-000000-000001", journal=JournalSummary(seconds="1")).document()  # type: ignore[arg-type]
    with refused("agent-reply-invalid", "n0", "'runs' 'journal' 'seconds'"):
        Answer("n0", {"runs": [row]}).read(RunList)


def test_a_name_that_no_run_can_have_is_none() -> None:
    row = run_row("20260101-000000-000001", journal=JournalSummary(about=RunAbout(name="$(id)")))
    assert host_reports.read_on_host("n0", row).about.name == ""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("unit", ["/envs/", "/lib/a/", "/runs/a", "a/", "a", "/runs/a/work", "("])
def test_no_line_of_a_rank_keeps_this_machine_busy(unit: str) -> None:
    began = time.monotonic()
    shorten_paths((unit * 65536)[:65536] + " /work/")
    assert time.monotonic() - began < 2.0


def test_paths_are_shortened_as_before() -> None:
    run, env = "/h/.ipexctl/runs/r1/work/", "/h/.ipexctl/envs/k/lib/python3.11/site-packages/"
    assert shorten_paths(f'File "{run}a.py", {env}torch/x.py') == 'File "a.py", torch/x.py'
    assert shorten_paths(f"{run}a:{env}b={run}c {run}{run}d") == "a:b=c d"
    assert shorten_paths("/work/ and /runs//work/x") == "/work/ and /runs//work/x"
