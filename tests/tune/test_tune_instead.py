"""What tune writes and advises: credits, options that hide its settings, a trial that fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipexctl.local.run_options import RunOptions
from ipexctl.tune.tune import _overriding_options, _refuse_unmeasured, settings_to_write
from ipexctl.tune.tune_options import TuneOptions
from ipexctl.tune.tune_search import SearchResult, Trial
from ipexctl.tune.tune_space import Profile, SettingChange, TrialRanks
from tests.refused import refused


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One without settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))


BEST = Profile(
    (("compression", SettingChange("--compress bf16", options=(("compress", "bf16"),))),)
)


@pytest.mark.parametrize(
    ("options", "hidden"),
    [
        (RunOptions("train.py"), ()),
        (RunOptions("train.py", compress="fp16"), ("--compress",)),
        (RunOptions("train.py", env={"OMP_NUM_THREADS": "2"}), ()),
    ],
)
def test_only_what_was_typed_goes_before_the_file(
    options: RunOptions, hidden: tuple[str, ...]
) -> None:
    assert _overriding_options(BEST, options) == hidden


def found_with(best: Profile) -> SearchResult:
    return SearchResult((), 0.02, best, gain=0.75, spread=0.1, rounds=3)


def test_no_line_takes_the_credit_for_a_gain_that_several_have() -> None:
    bucket = SettingChange("5 MB buckets", (("IPEXCTL_BUCKET_MB", "5"),))
    both = BEST.replaced("bucket", bucket)
    made = settings_to_write(found_with(both))
    assert made is not None
    lines = [line for line in made.text.splitlines() if "1.75x" in line]
    assert [line.partition(" =")[0] for line in lines] == ["compress", "IPEXCTL_BUCKET_MB"]
    assert "with IPEXCTL_BUCKET_MB" in lines[0] and "with compress" in lines[1]
    alone = settings_to_write(found_with(BEST))
    assert alone is not None and "1.75x with" not in alone.text and "1.75x" in alone.text


def failed_after(good: int) -> SearchResult:
    done = Trial(Profile(), "noise", 10.0, 9.0, TrialRanks(2))
    last = Trial(
        Profile(), "noise", None, 9.0, TrialRanks(2), ended="failed", why="connection reset"
    )
    return SearchResult((*[done] * good, last), None, Profile())


@pytest.mark.parametrize("good", [0, 1, 2])
def test_who_has_run_it_twice_is_not_told_to_run_it_first(good: int) -> None:
    with refused("trial-failed", f"trial {good + 1}", "connection reset") as error:
        _refuse_unmeasured(failed_after(good), RunOptions("train.py"), TuneOptions())
    assert ("first" in error.value.hint) is (good == 0)
