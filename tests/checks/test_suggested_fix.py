"""A fix is printed, given the user's options and made a script of, without being read again."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from ipexctl.doctor.checks import all_checks
from ipexctl.doctor.doctor import with_options
from ipexctl.doctor.report.finding import (
    Command,
    Finding,
    Fix,
    Severity,
    Shell,
    as_fix,
    command,
    do,
    ipexctl_command,
    sudo,
    write_line,
)
from ipexctl.machines import suggested_commands
from ipexctl.machines.target import Target
from ipexctl.run import preflight_rules
from tests.checks.cases import ONE_HOST
from tests.checks.hosts import ROOT, clean, findings

HOSTILE = "a b'; $(reboot) \x1b ~ *"
OPTIONS = ("-f", "my hosts", "--root", "/r")


@pytest.mark.parametrize(
    ("fix", "expected"),
    [
        (as_fix("boot a newer kernel"), "boot a newer kernel"),
        (do(command("ls -l", "/a b"), "   and see"), "ls -l '/a b'   # and see"),
        (do(command("ethtool", "eth0", pipe="grep -E a|b")), "ethtool eth0 | grep -E 'a|b'"),
        (do(sudo("ip link set NIC up")), "sudo ip link set NIC up"),
        (do(write_line("0", "/sys/x")), "echo 0 | sudo tee /sys/x"),
        (do(write_line("* - nofile", "/x", append=True)), "echo '* - nofile' | sudo tee -a /x"),
        (do(Shell("a ~/.b && c")), "a ~/.b && c"),
        (do("first: ", command("a")) | do("or b"), "first: a\nor b"),
        (do(ipexctl_command("env diff"), "   # says how"), "ipexctl env diff   # says how"),
        (Fix(), ""),
    ],
)
def test_a_fix_is_printed_as_it_is_to_be_read(fix, expected):
    assert str(fix) == expected
    assert bool(fix) is bool(expected)


def test_words_of_a_host_stay_one_word_each():
    made = command("ls -l", HOSTILE, pipe="head")
    assert shlex.split(str(made)) == ["ls", "-l", HOSTILE, "|", "head"]


def test_the_options_of_the_user_follow_the_verb_of_our_own_commands_once():
    fix = do(ipexctl_command("install", "--mpi", "none"), "; ", command("ls install")) | do(
        "ipexctl install: ", ipexctl_command("env diff")
    )
    given = fix.with_options(OPTIONS)
    assert given.lines == (
        "ipexctl install -f 'my hosts' --root /r --mpi none; ls install",
        "ipexctl install: ipexctl env diff -f 'my hosts' --root /r",
    )
    assert given.with_options(("-x", "y")) == given
    assert str(fix.with_options(())) == str(fix)


# --- what the checks declare ---------------------------------------------------------------------


def told() -> Iterator[tuple[str, Fix]]:
    yield from ((check.id, as_fix(check.fix)) for check in all_checks())
    for case in ONE_HOST:
        yield from ((f.id, f.fix) for f in findings(case.change(clean())))


def test_no_command_of_ours_or_for_root_hides_in_the_words():
    hidden = re.compile(r"\bsudo |\bipexctl (install|doctor|trust|env)\b")
    words = [(name, p) for name, fix in told() for parts in fix.alternatives for p in parts]
    assert [(name, p) for name, p in words if isinstance(p, str) and hidden.search(p)] == []


def test_what_runs_as_root_says_so():
    shells = [c for _, fix in told() for c in fix.commands if isinstance(c, Shell)]
    assert shells
    assert [c for c in shells if c.needs_root is not ("sudo " in c.text)] == []


def test_every_command_of_ours_takes_the_options():
    ours = [c for _, fix in told() for c in fix.commands if str(c).startswith("ipexctl ")]
    assert ours
    assert all(isinstance(c, Command) and c.options_at >= 2 for c in ours)


def literal(node: ast.expr) -> bool:
    """A text of ours: written there, with constants of the module at most."""
    if isinstance(node, ast.JoinedStr):
        return all(
            isinstance(v, ast.Constant) or ast.unparse(v.value).strip("_").isupper()
            for v in node.values
            if isinstance(v, ast.Constant | ast.FormattedValue)
        )
    return isinstance(node, ast.Constant)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "ipexctl/doctor").rglob("*.py")), ids=lambda p: p.stem
)
def test_only_our_own_text_is_split_or_given_to_a_shell(path: Path):
    if path.stem == "finding":
        return
    makers = {"Shell", "command", "sudo", "scripted", "ipexctl"}
    calls = [n for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.Call)]
    made = [n for n in calls if isinstance(n.func, ast.Name) and n.func.id in makers]
    assert [ast.unparse(n) for n in made if not literal(n.args[0])] == []


# --- with the options of a target ----------------------------------------------------------------


def test_findings_get_the_options_that_their_hints_get():
    target = Target(hosts=("node[1-2]",), transport="openssh")
    found = Finding(
        "X-001", Severity.WARN, "", "t", "e", "w", do("use ", ipexctl_command("install"))
    )
    (given,) = with_options([found], target, "/r")
    assert str(given.fix) == f"use {suggested_commands.suggest_command(target, 'install', '/r')}"


def test_environments_that_differ_are_told_with_both_commands():
    prefixes = {"node01": "/a/envs/k1", "node02": "/a/envs/k2"}
    judged = preflight_rules.judge_preflight([clean(), clean("node02", "10.0.0.2")], prefixes)
    fix = next(f.fix for f in judged.warnings if f.id == "SOFT-015")
    verbs = [["ipexctl", "install"], ["ipexctl", "env", "diff"]]
    assert [str(c).split() for c in fix.commands] == verbs
    given = fix.with_options(("-f", "h"))
    assert [str(c).split() for c in given.commands] == [[*verb, "-f", "h"] for verb in verbs]
