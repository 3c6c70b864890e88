"""A misspelt word is answered with the command that was meant, as a line to paste."""

from __future__ import annotations

import shlex

import pytest

from ipexctl.errors import InputError, unknown_value
from ipexctl.local.corrected_command import add_corrected_command
from tests.pastable import why_not_pastable

HOSTS = "node01\nnode02\n"


def _first_line(meant: tuple[str, str], words: list[str]) -> str:
    error = InputError("refused", hint="words").with_meant(*meant)
    add_corrected_command(error, words, has_script=words[0] == "run")
    return error.hint.splitlines()[0]


@pytest.mark.parametrize(
    ("meant", "words", "corrected"),
    [
        (("nod01", "node01"), ["run", "-l", "nod01", "a b.py"], "run -l node01 'a b.py'"),
        (("nod01", "node01"), ["run", "--limit=x,nod01:y"], "run --limit=x,node01:y"),
        (("nod", "node"), ["doctor", "-x", "!nod"], "doctor -x '!node'"),
        # only a word of its own, and only if it stands in one place
        (("nod01", "node01"), ["run", "-l", "nod01.a", "--name", "my-nod01"], None),
        (("nod01", "node01"), ["run", "-l", "nod01", "train.py", "nod01"], None),
        (("nod01", ""), ["run", "-l", "nod01"], None),
        # an option that is missing: before a script, whose words follow
        (("", "--yes"), ["rm", "bert"], "rm bert --yes"),
        (("", "--yes"), ["run", "t.py", "--lr", "1"], "run --yes t.py --lr 1"),
        # never the value of a secret
        (("nod01", "node01"), ["run", "--env", "A_KEY=x", "nod01"], "run --env A_KEY node01"),
    ],
)  # fmt: skip
def test_one_word_of_the_command_is_corrected(meant, words, corrected):
    assert _first_line(meant, words) == (f"ipexctl {corrected}" if corrected else "words")


def test_a_value_that_resembles_none_is_not_corrected():
    assert unknown_value("--mpi", "intelmpi", ("intel", "mpich")).meant == ("intelmpi", "intel")
    assert unknown_value("--mpi", "xyz", ("intel", "mpich")).meant == ("", "")


@pytest.mark.parametrize(
    ("typed", "corrected"),
    [
        ("run -f hosts.txt -l nod01 t.py", "run -f hosts.txt -l node01 t.py"),
        ("doctor -f hosts.tx --level quick", "doctor -f hosts.txt --level quick"),
        ("doctor -f hosts.txt --level quik", "doctor -f hosts.txt --level quick"),
        ("play -f hosts.txt prepare-debain -C", "play -f hosts.txt prepare-debian -C"),
        ("run -f hosts.txt -x node2 t.py", "run -f hosts.txt -x node02 t.py"),
        ("run -f hosts.txt --stall-action kill t.py", "run -f hosts.txt --stall-action stop t.py"),
        ("run -f hosts.txt --name 'my run' t.py", "run -f hosts.txt --name my-run t.py"),
        ("run -f hosts.txt --name=3.run! t.py", "run -f hosts.txt --name=run-3.run t.py"),
        ("play -f hosts.txt x.yaml -t trian", "play -f hosts.txt x.yaml -t train"),
        ("play -f hosts.txt x.yaml --from frist", "play -f hosts.txt x.yaml --from first"),
        # node05 is not a misspelling of node02
        ("doctor -f hosts.txt -l node05", None),
    ],
)
def test_the_corrected_command_is_the_first_line_to_paste(shell, typed, corrected):
    shell.write("hosts.txt", HOSTS)
    shell.write("t.py", "print(1)\n")
    shell.write("x.yaml", "steps:\n- {name: first, sh: hostname, tags: train}\n")
    done = shell(*shlex.split(typed))
    (error,) = done.errors
    first = error.hint.splitlines()[0]
    if corrected:
        assert first == f"ipexctl {corrected}"
        assert f"  try: {first}\n" in done.stderr and not why_not_pastable(first)
    else:
        assert not first.startswith("ipexctl")


NOT_RESOLVED = ("nod01.invalid", "nod02.invalid")
CONFIG = "".join(f"Host {n.replace('nod', 'node')}\n  HostName 127.0.0.1\n" for n in NOT_RESOLVED)


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("-H nod01.invalid -F cfg", "ipexctl doctor -H node01.invalid -F cfg"),
        # one line corrects both
        ("-H nod01.invalid,nod02.invalid -F cfg",
         "ipexctl doctor -H node01.invalid,node02.invalid -F cfg"),
        ("-f hosts -F cfg", "sed -i '1s/nod01[.]invalid/node01.invalid/' hosts && "
         "ipexctl doctor -f hosts -F cfg"),
        ("-H xyz.invalid -F cfg", "correct xyz.invalid, or"),
    ],
)  # fmt: skip
def test_doctor_offers_the_corrected_command_for_a_host_that_is_probably_another(
    shell, typed, first
):
    shell.write("cfg", CONFIG)
    shell.write("ipexctl.toml", "ssh_config = 'cfg'\n")
    shell.write("hosts", "nod01.invalid\n")
    done = shell("doctor", *typed.split())
    assert done.returncode == 4
    assert done.stdout.splitlines()[1].startswith(f"do this: {first}"), done.stdout
    fixes = [line[6:] for line in done.stdout.splitlines() if line.startswith("  fix ")]
    assert len([line for line in fixes if line.removeprefix("# ").startswith(first)]) == 1
    assert [why_not_pastable(line) for line in fixes] == [""] * len(fixes)


@pytest.mark.parametrize("command", ["data push src", "install", "data ls", "ps", "logs bert"])
def test_so_does_every_command_on_hosts(shell, command):
    shell.write("cfg", CONFIG)
    shell.write("ipexctl.toml", "ssh_config = 'cfg'\n")
    shell.write("src/a.txt", "a\n")
    assert shell("config", "--accept").returncode == 0
    for config in ("", " -F cfg"):
        line = f"{command} -H %s.invalid{config}"
        done = shell(*(line % "nod01").split())
        assert done.returncode == 4
        first, _, rest = (done.stdout + done.stderr).partition("try: ")[2].partition("\n")
        assert first == f"ipexctl {line % 'node01'}", done
        assert rest.strip().startswith("# correct nod01.invalid, or give its address"), done
    done = shell(*command.split(), "-H", "xyz.invalid", "-F", "cfg")
    assert "try: # correct xyz.invalid, or give" in done.stdout + done.stderr, done
