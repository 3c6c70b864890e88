"""Steps that call other verbs, on this machine alone: no hosts given."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ipexctl.play.play_files import shipped_plays
from tests.cli import ipexctl
from tests.pull.hub_server import Hub, served

PLAYS = Path(__file__).parents[2] / "playbooks"
Played = tuple[int, list[dict]]


@pytest.fixture
def play(agent, tmp_path, monkeypatch) -> Callable[..., Played]:
    """Plays these steps in an empty folder: the exit code, and what became of each."""
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.delenv("IPEXCTL_HOSTFILE", raising=False)

    def play(steps: str, *options: str) -> Played:
        (tmp_path / "p.yaml").write_text(f"steps:\n{steps}")
        words = ("play", "p.yaml", "--root", str(tmp_path / "root"), "--json", *options)
        done = ipexctl(*words, cwd=tmp_path)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)["plays"][0]["steps"]

    return play


def test_a_verb_that_refuses_fails_its_step_with_the_reason_and_the_place(play):
    code, (step,) = play("  - run: {script: missing.py, n: 2}\n")
    assert (code, step["state"], step["place"]) == (1, "failed", "p.yaml:2")
    assert step["slug"] and "missing.py" in step["detail"]


def test_check_cannot_predict_what_an_earlier_step_may_change(play):
    alone = play("  - run: missing.py\n", "--check")
    assert (alone[0], alone[1][0]["state"]) == (1, "failed")
    code, steps = play("  - sh: touch missing.py\n  - run: missing.py\n", "--check")
    assert (code, [s["state"] for s in steps]) == (11, ["unknown", "unknown"])


def test_data_is_pushed_once_checked_truly_and_removed(play, tmp_path):
    (tmp_path / "squad").mkdir()
    (tmp_path / "squad/a.txt").write_text("one")
    push, rm = "  - data: ./squad\n", "  - data: {rm: squad}\n"

    def state(steps: str, *options: str) -> str:
        return play(steps, *options)[1][0]["state"]

    assert not (tmp_path / "root").exists()
    assert state(push, "--check") == "would change"
    assert not (tmp_path / "root").exists()
    assert [state(push), state(push, "--check"), state(push)] == ["changed", "ok", "ok"]

    (there,) = (tmp_path / "root/data/squad/current/files").rglob("a.txt")
    there.chmod(0o600)
    there.write_text("by hand")
    assert [state(push, "--check"), state(push)] == ["would change", "changed"]

    assert [state(rm, "--check"), state(rm)] == ["would change", "changed"]
    assert [state(rm, "--check"), state(rm)] == ["ok", "ok"]


def test_data_is_pulled_once_and_checked_truly(play, tmp_path):
    hub = Hub()
    hub.add("models", "acme/tiny").files = {"a.bin": b"one"}
    with served(hub):
        pull = f"  - data: {{pull: '{hub.url}/plain/a.bin', name: tiny}}\n"
        states = [play(pull, *o)[1][0]["state"] for o in (["--check"], [], ["--check"], [])]
        assert states == ["would change", "changed", "ok", "ok"]
        assert hub.sent["a.bin"] == 3
    assert (tmp_path / "root/data/tiny/current/files/a.bin").read_bytes() == b"one"


def test_doctor_changes_nothing_and_fails_a_host_with_the_finding(play, tmp_path):
    code, (step,) = play("  - doctor\n", "--root", str(tmp_path / "a root"))
    assert (code, step["state"]) == (1, "failed")
    assert step["detail"].startswith("DISK-009 ")
    assert step["hint"].startswith("--root /path")
    assert not (tmp_path / "a root").exists()


def test_without_ansible_the_step_says_how_to_get_it(play, tmp_path, monkeypatch):
    (tmp_path / "site.yml").write_text("- hosts: all\n")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    code, (step,) = play("  - ansible: site.yml\n")
    assert (code, step["state"]) == (1, "failed")
    assert step["slug"] == "ansible-missing"
    assert step["hint"] == "python3 -m pip install ansible-core"


def test_every_shipped_play_is_right_and_found_by_its_name(tmp_path):
    plays = sorted(path.stem for path in PLAYS.glob("*.yaml"))
    assert plays == sorted(shipped_plays())
    done = ipexctl("play", *plays, "--list-steps", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    table = (PLAYS / "README.md").read_text()
    assert [name for name in plays if f"({name}.yaml)" not in table] == []


def test_variables_of_a_shipped_play_are_set_on_the_command_line(tmp_path):
    words = ("play", "train", "--check", "-t", "train", "--json", "--root", str(tmp_path / "root"))
    done = ipexctl(*words, "-e", "script=other.py", cwd=tmp_path)
    (step,) = json.loads(done.stdout)["plays"][0]["steps"]
    assert "other.py" in step["detail"]
