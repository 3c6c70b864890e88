"""What --check says of steps that an earlier step decides, and then what the play does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plays.play_here import run, steps

MADE = "steps:\n  - file: {path: ~/made, content: 'x'}\n"


@pytest.mark.parametrize(
    ("step", "done"),
    [
        ("  - assert: {path: ~/made}\n", "ok"),
        ("  - assert: {that: test -e ~/made}\n", "ok"),
        ("  - file: {path: ~/made, mode: '0600'}\n", "changed"),
        ("  - file: {path: ~/made, state: touch}\n", "ok"),
        ("  - sh: {cmd: 'true', unless: test -e ~/made}\n", "ok"),
        ("  - sh: {cmd: 'true', creates: ~/made}\n", "ok"),
        ("  - sh: {cmd: 'true', removes: ~/made}\n", "changed"),
    ],
)
def test_what_an_earlier_step_decides_cannot_be_known(tmp_path: Path, step: str, done: str):
    assert steps(tmp_path, MADE + step, "--check")[1]["state"] == "unknown"
    assert not (tmp_path / "made").exists()
    assert steps(tmp_path, MADE + step)[1]["state"] == done


def test_without_an_earlier_step_the_answers_are_certain(tmp_path: Path):
    for step, answer, done in (
        ("{sh: {cmd: id, unless: test -e ~/a}}", "would change", "changed"),
        ("{file: {path: ~/new, state: touch}}", "would change", "changed"),
        ("{assert: {path: ~/missing}}", "failed", "failed"),
    ):
        text = f"steps: [{step}]\n"
        assert steps(tmp_path, text, "--check")[0]["state"] == answer
        assert steps(tmp_path, text)[0]["state"] == done


def test_a_download_into_a_missing_folder_fails_in_a_check_too(tmp_path: Path):
    get = f"  - get: {{url: 'http://127.0.0.1:9/x', dest: ~/no/x, sha256: {'0' * 64}}}\n"
    (step,) = steps(tmp_path, f"steps:\n{get}", "--check")
    assert (step["state"], "no folder" in step["detail"]) == ("failed", True)
    folder = "  - file: {path: ~/no, state: directory}\n"
    found = steps(tmp_path, f"steps:\n{folder}{get}", "--check")
    assert [step["state"] for step in found] == ["would change", "would change"]


@pytest.mark.parametrize(
    "made", ["file: {path: ~/a/b/c, state: directory}", "copy: {src: ~/s, dest: ~/a/b}"]
)
@pytest.mark.parametrize("dest", ["~/a/b/new", "~/a/new"])
def test_a_copy_into_a_folder_that_an_earlier_step_makes(tmp_path: Path, made: str, dest: str):
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "x").write_text("x")
    text = f"steps:\n  - {made}\n  - copy: {{src: ~/s/x, dest: {dest}}}\n"
    states = [step["state"] for step in steps(tmp_path, text, "--check")]
    assert states == ["would change", "would change"]
    assert [step["state"] for step in steps(tmp_path, text)] == ["changed", "changed"]


def test_what_comes_after_a_step_that_fails_is_listed_in_a_check(tmp_path: Path):
    text = "steps:\n  - assert: {path: ~/missing}\n  - doctor:\n  - sh: 'true'\n"
    found = steps(tmp_path, text, "--check")
    assert [step["state"] for step in found] == ["failed", "unknown", "unknown"]
    assert "not checked" in found[1]["detail"]


def test_what_a_shell_says_has_the_names_of_the_play(tmp_path: Path):
    text = "vars: {my_lr: '1'}\nsteps:\n  - assert: {that: 'test \"${my_lr}\" = ${host}'}\n"
    assert "test ${my_lr} = ${host}" in run(tmp_path, text).stdout


def test_resume_looks_again_where_the_host_can_tell(tmp_path: Path):
    text = (
        "steps:\n  - sh: {cmd: echo a >> ~/a, creates: ~/a}\n  - sh: echo b >> ~/b\n"
        "  - sh: {cmd: echo c >> ~/c}\n    tags: [c]\n"
    )
    steps(tmp_path, text)
    (tmp_path / "a").unlink()
    steps(tmp_path, text, "-t", "c")  # narrowed: what else was done stays known
    ended = sorted(steps(tmp_path, text, "--resume"), key=lambda step: int(step["step"]))
    found = [step["state"] for step in ended]
    assert found == ["changed", "skipped", "skipped"]
    assert [(tmp_path / name).read_text() for name in "abc"] == ["a\n", "b\n", "c\nc\n"]


@pytest.mark.parametrize("option", ["--list-tasks", "--syntax-check"])
def test_what_ansible_users_type(tmp_path: Path, option: str):
    assert "1  sh" in run(tmp_path, "steps: [{sh: id}]\n", option).stdout
    assert run(tmp_path, "steps: [{sh: id}]\n", "--start-at-task", "1").returncode == 0
