"""The command to start a run again: words that work when they are pasted."""

from __future__ import annotations

import subprocess
import unicodedata
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ipexctl.base.quoting import quote_for_pasting
from ipexctl.base.retry_command import compose_retry_command
from ipexctl.base.typed_command import Typed
from ipexctl.errors import RunFailed, Unreachable
from ipexctl.machines.agent import agent_failure
from ipexctl.machines.fleet import Fleet
from ipexctl.machines.target import Target, read_inventory
from ipexctl.run.plan.launch import PlannedHost, RunRequest
from ipexctl.run.plan.ranks_per_host import fit_rank_count, share_out
from ipexctl.run.prepare_hosts import call_every_host
from tests.made import facts, host, prepared


def typed(words: str) -> Typed:
    """t.py is the script."""
    options, _, args = words.partition(" t.py")
    return Typed(tuple(options.split()), ("t.py", *args.split()))


@pytest.mark.parametrize(
    ("words", "again"),
    [
        ("run -n 2 t.py --lr 1e-3", "run -n 2 t.py --lr 1e-3"),
        ("run --env LR=0.1 --env=B=8 t.py", "run --env LR=0.1 --env=B=8 t.py"),
        ("run --env HF_TOKEN=x --env=API_KEY=x t.py", "run --env HF_TOKEN --env=API_KEY t.py"),
        ("run --env TOKEN t.py TOKEN=1", "run --env TOKEN t.py TOKEN=1"),
        ("run t.py --env TOKEN=mine --env=KEY=mine", "run t.py --env TOKEN=mine --env=KEY=mine"),
        ("run -i TOKEN=1 t.py", "run -i TOKEN=1 t.py"),
        (
            "install -F x --index-url http://a:b@i",
            "install -F x --index-url http://USER:PASSWORD@i t.py",
        ),
    ],
)
def test_it_is_the_command_as_it_was_typed_without_values_of_secrets(words, again):
    assert compose_retry_command(typed(words), (), None) == f"ipexctl {again}"


@pytest.mark.parametrize(
    ("words", "again"),
    [
        ("run -n 12 t.py -n 12", "run -x n3 -n 8 t.py -n 12"),
        ("run -np 12 -ppn 4 t.py", "run -x n3 -np 8 -ppn 4 t.py"),
        ("run --np 12 t.py", "run -x n3 --np 8 t.py"),
        ("run --np=12 t.py", "run -x n3 --np=8 t.py"),
        ("run -n12 t.py", "run -x n3 -n8 t.py"),
        ("run -n 8 t.py", "run -x n3 -n 8 t.py"),
        ("run -f n12 t.py -n 12", "run -x n3 -n 8 -f n12 t.py -n 12"),  # ipexctl.toml: n = 12
    ],
)
def test_it_leaves_lost_hosts_out_and_asks_for_what_the_others_hold(words, again):
    assert compose_retry_command(typed(words), ("n3",), 8) == f"ipexctl {again}"


@pytest.mark.parametrize(
    ("words", "again"),
    [
        ("run t.py", "run -x n3 --resume R t.py"),
        ("run -n 12 --resume Q t.py -n 12", "run -x n3 --resume R -n 8 t.py -n 12"),
        ("run -n4 --resume=Q t.py", "run -x n3 --resume R -n4 t.py"),
        ("run --np=12 --min-hosts 3 t.py", "run -x n3 --resume R --np=8 --min-hosts 2 t.py"),
        ("run --min-hosts=1 --restarts 3 t.py",
         "run -x n3 --resume R --min-hosts=1 --restarts 3 t.py"),
        ("run --spares n[4-5] t.py --spares 7",
         "run -x n3 --spares n5 --resume R t.py --spares 7"),
    ],
)  # fmt: skip
def test_a_lost_run_goes_on_from_its_checkpoint_with_the_hosts_that_are_left(words, again):
    left = ["n5"] if "--spares n" in words else None
    made = compose_retry_command(
        typed(words), ("n3",), None, fewer=8, hosts=2, spares=left, resume="R"
    )
    assert made == f"ipexctl {again}"


PORT_1 = "a ansible_connection=local\nb{} address=127.0.0.1 port=1\n"


@pytest.mark.parametrize(("down", "names"), [("", "b"), ("[1-3]", "b[1-3]")])
def test_the_command_without_hosts_that_are_down_is_offered(tmp_path, down, names):
    """Port 1 of this machine refuses every connection."""
    (tmp_path / "hosts").write_text(PORT_1.format(down))
    target = Target(hostfile=tmp_path / "hosts")
    with pytest.raises(Unreachable) as e, Fleet(target) as fleet:
        call_every_host(
            fleet, fleet.connect, typed=typed("run -f hosts -n 4 --env HF_TOKEN=x t.py --lr 1")
        )
    quoted = quote_for_pasting((names,))
    assert e.value.hint.splitlines()[0] == (
        f"ipexctl run -x {quoted} -f hosts -n 4 --env HF_TOKEN t.py --lr 1   # without {names}"
    )
    assert [h.name for h in read_inventory(replace(target, exclude=(names,))).hosts] == ["a"]


def test_without_any_host_left_no_command_is_offered(tmp_path):
    (tmp_path / "hosts").write_text("b address=127.0.0.1 port=1\n")
    with pytest.raises(Unreachable) as e, Fleet(Target(hostfile=tmp_path / "hosts")) as fleet:
        call_every_host(fleet, fleet.connect, typed=typed("run -f hosts t.py"))
    assert "ipexctl run" not in e.value.hint


@pytest.mark.parametrize(
    ("slug", "offered"), [("agent-bug", False), ("damaged", False), ("no-space", True)]
)
def test_a_host_is_left_out_only_for_what_is_wrong_with_it(tmp_path, slug, offered):
    (tmp_path / "hosts").write_text("a ansible_connection=local\nb ansible_connection=local\n")

    def work(host):
        if host.name == "b":
            raise agent_failure(host, {"what": "KeyError: '6b86b2'", "slug": slug})

    with pytest.raises(RunFailed) as e, Fleet(Target(hostfile=tmp_path / "hosts")) as fleet:
        call_every_host(fleet, work, typed=typed("run -f hosts t.py"))
    assert ("-x b" in e.value.hint) is offered


def test_it_is_nothing_where_nobody_typed_a_command():
    assert compose_retry_command(Typed(), ("n3",), 8) == ""


@pytest.mark.parametrize(
    ("slots", "n", "ppn", "fits"),
    [
        ((4, 4), 12, None, 8),
        ((4, 4), 6, None, 6),
        ((0, 0), 12, 4, 8),
        ((4, 0), 12, None, 5),
        ((0, 0), 12, None, 12),
        ((4, 4), None, None, None),
        ((0, 0), None, 4, None),
    ],
)
def test_hosts_hold_what_a_run_on_them_would_not_be_refused_for(slots, n, ppn, fits):
    nodes = [PlannedHost(host(f"n{i}", s), facts(f"n{i}"), prepared()) for i, s in enumerate(slots)]
    assert fit_rank_count(nodes, RunRequest(("t.py",), n, ppn)) == fits
    assert fits is None or sum(share_out(nodes, RunRequest(("t.py",), fits, ppn))) == fits


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))))
@example(["\x1b[31m'\\", "a\nb", "\udcff", "0\x1b0", "$(id)", "ü'\u202e"])
@settings(max_examples=30, deadline=None)
def test_pasted_into_bash_it_is_the_same_words_and_a_terminal_obeys_none(words):
    line = quote_for_pasting(tuple(words))
    assert not [c for c in line if unicodedata.category(c)[0] == "C"]
    argv = ["bash", "-c", f"set -- {line}; printf '%s\\0' \"$@\"" if words else ":"]
    said = subprocess.run(argv, capture_output=True, check=True).stdout
    assert said.split(b"\0")[:-1] == [word.encode("utf-8", "surrogateescape") for word in words]
