"""The test of a new environment on a host that is busy: longer once, and with its reason."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from ipexctl.remote.failure import Failure
from ipexctl.remote.install import env_proof

CALL = SimpleNamespace(agent=SimpleNamespace(at_end=[]), emit=lambda *event: None)


def prove(monkeypatch: pytest.MonkeyPatch, script: str, *, busy: bool) -> str:
    monkeypatch.setattr(env_proof, "TIMEOUT", 1)
    monkeypatch.setattr(env_proof, "BUSY_TIMES", 60)
    monkeypatch.setattr(env_proof, "is_busy", lambda: busy)
    return env_proof.run_patiently(CALL, ["sh", "-c", script], dict(os.environ))


def test_a_test_that_is_slow_on_a_busy_host_is_run_once_more(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mark = tmp_path / "ran"
    script = f"test -e {mark} || {{ touch {mark}; sleep 600; }}; echo trained"
    assert prove(monkeypatch, script, busy=True) == "trained\n"


def test_on_a_quiet_host_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Failure) as caught:
        prove(monkeypatch, "sleep 600", busy=False)
    assert (caught.value.what, caught.value.hint) == ("sh did not end in time", "")


def test_one_that_never_ends_names_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(env_proof, "BUSY_TIMES", 1)
    with pytest.raises(Failure) as caught:
        monkeypatch.setattr(env_proof, "TIMEOUT", 1)
        monkeypatch.setattr(env_proof, "is_busy", lambda: True)
        env_proof.run_patiently(CALL, ["sh", "-c", "sleep 600"], dict(os.environ))
    assert caught.value.slug == "command-timeout"
    assert "its load average is " in caught.value.why
    assert caught.value.hint.startswith("ipexctl install ")
