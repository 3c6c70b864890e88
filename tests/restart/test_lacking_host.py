"""A host that alone lacks what the script needs, and the spares of the run."""

from __future__ import annotations

from ipexctl.common.run_events import Fact
from tests.restart.test_leader import ended
from tests.restart.test_restart_policy import rank

LACKS = rank("ModuleNotFoundError: No module named 'x'")


def test_a_spare_takes_the_place_of_a_host_that_lacks_a_module_once() -> None:
    run = ended([LACKS])
    run.clears("abcx")
    line = run.at(160.0, "abcx")
    assert line and line.hosts == ["a", "x", "c"] and line.why == run.record.endings[0].why
    assert (run.record.endings[0].again, run.record.endings[0].lacking) == (True, "b")
    run.begins("axc")
    run.at(161.0, "abcx")
    run.ends("axc", [Fact(LACKS.event, "x")])  # it is the script, or all spares are as b is
    run.at(170.0, "abcx")
    run.at(174.0, "abcx")
    assert run.record.end and run.record.end.why.endswith("a restart does not change that")


def test_without_a_spare_in_reach_a_missing_module_ends_the_run() -> None:
    run = ended([LACKS], there="abc")
    assert run.record.end and run.record.end.why == run.record.endings[0].why
    assert (run.record.endings[0].again, run.record.endings[0].lacking) == (False, "")
