"""The command line of `run`: MPI's one-dash words are ours up to the script, then the script's."""

import pytest

from ipexctl.run.command.command_line_words import spell_for_click


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("-np 4 -ppn 2 t.py -np 3", "-n 4 --ppn 2 t.py -np 3"),
        ("-n 2 train -np 3 -ppn 1", "-n 2 train -np 3 -ppn 1"),
        ("-m pkg.train -np 3", "-m pkg.train -np 3"),
        ("--json -np 3 t.py", "--json -n 3 t.py"),
        ("--ask-pass -hostfile h t.py -hostfile x", "--ask-pass -f h t.py -hostfile x"),
        ("--nproc_per_node 2 -hosts a,b t.py", "--ppn 2 -H a,b t.py"),
        ("-n4 --ppn=2 t.py -ppn 1", "-n4 --ppn=2 t.py -ppn 1"),
        ("-np 2 -- -t.py -np 3", "-n 2 -- -t.py -np 3"),
        ("-f hosts.py -np 2 t.py", "-f hosts.py -n 2 t.py"),
        ("-np", "-n"),
        ("-", "-"),
    ],
)
def test_words_before_the_script_are_ours(given, read):
    assert spell_for_click(["run", *given.split()]) == ["run", *read.split()]
