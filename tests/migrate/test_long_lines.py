"""Lines that were made to keep `migrate` busy."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ipexctl.migrate.code.shell_code import ShellReader
from ipexctl.shipped_tables import migration_tables

LINES = {
    "variables": "mpirun " + " ".join(f"-genv A{i}=B" for i in range(4900)),
    "variables and values": "mpirun " + " ".join(f"-env A{i} B" for i in range(3300)),
    "forwarded variables": "mpirun " + " ".join(f"-x A{i}" for i in range(4900)),
    "unknown options": "mpirun " + " ".join(f"-bogus{i}" for i in range(9000)),
    "words of the shell": "mpirun " + " ".join(f"$X{i}" for i in range(9000)),
    "more words than a person types": "mpirun " + " ".join(f"-genv A{i}=B" for i in range(50_000)),
    "launchers": "mpirun " * 9000,
    "env": "env " + " ".join(f"A{i}=B env" for i in range(4900)),
    "keywords": "then " * 50_000,
}


@pytest.mark.parametrize("name", LINES)
def test_a_long_line_takes_seconds(name: str, tmp_path: Path) -> None:
    tables = migration_tables()
    began = time.process_time()
    ShellReader(tables).read(f"{LINES[name]} python3 train.py\n")
    assert time.process_time() - began < 8


def test_a_line_of_many_variables_is_converted() -> None:
    reading = ShellReader(migration_tables()).read(f"{LINES['variables']} python3 train.py\n")
    assert [command.text.count("--env") for command in reading.commands] == [4900]
