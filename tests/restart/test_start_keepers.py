"""What is refused and what is said of a run with --restarts before it starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipexctl.local.run_options import RunOptions
from ipexctl.machines.target import Target
from ipexctl.run import start_keepers
from ipexctl.run.run_script import Script
from ipexctl.user_code.frameworks import Frameworks
from ipexctl.user_code.source import PythonSource
from ipexctl.user_code.source_reader import read_source
from tests.refused import refused


def reviewed(options: RunOptions, hosts: int, spares: int = 0, *called: str, used: str = "") -> int:
    """How many notes there are."""
    notes: list[str] = []
    frameworks = Frameworks(frozenset({used} - {""}))
    sources = (PythonSource("train.py", called=frozenset(called)),)
    script = Script(None, ("train.py",), frameworks, sources)  # type: ignore[arg-type]
    start_keepers.review_restarts(options, script, hosts, spares, notes.append)
    return len(notes)


KEPT = RunOptions("train.py", restarts=3, checkpoints="out/*")


@pytest.mark.parametrize(
    ("hosts", "spares", "called", "used", "notes"),
    [
        (3, 0, ("load_state_dict", "save"), "", 0),
        (2, 1, ("load",), "", 0),
        (2, 0, ("load",), "", 1),
        (3, 0, ("save",), "", 1),
        (3, 0, ("save",), "transformers", 0),
        (1, 0, ("load",), "", 0),
    ],
)
def test_what_a_restart_cannot_do_is_said_before(
    hosts: int, spares: int, called: tuple[str, ...], used: str, notes: int
) -> None:
    assert reviewed(KEPT, hosts, spares, *called, used=used) == notes
    assert reviewed(RunOptions("train.py"), hosts, spares, *called, used=used) == 0


def test_a_script_that_reads_the_path_of_the_checkpoint_loads_it() -> None:
    for name, notes in (("IPEXCTL_CHECKPOINT", 0), ("IPEXCTL_CHECKPOINTS", 1)):
        text = f"import os\nfirst = int(open(os.environ['{name}'] + '/step').read())\n"
        source = read_source("train.py", text, main=True)
        script = Script(None, ("train.py",), None, (source,))  # type: ignore[arg-type]
        said: list[str] = []
        start_keepers.review_restarts(KEPT, script, 3, 0, said.append)
        assert len(said) == notes


def test_more_hosts_than_there_are_are_refused_before_anything_is_sent() -> None:
    options = RunOptions("train.py", restarts=3, min_hosts=4)
    assert reviewed(options, 4) == 0
    with refused("min-hosts-too-many", 3):
        reviewed(options, 3)


def test_spares_take_part_whichever_hosts_are_selected() -> None:
    options = RunOptions("train.py", restarts=3, spares=("node05",))
    some, every = Target(Path("hosts"), limit=("node01",)), Target(Path("hosts"))
    assert start_keepers.add_spares(some, options).limit == ("node01", "node05")
    assert start_keepers.add_spares(every, options) == every
