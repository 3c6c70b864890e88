"""`ipexctl explain`, as a user types it."""

from __future__ import annotations

import json

import pytest

from ipexctl.doctor.checks import catalogue
from ipexctl.run.command.views import JsonView, PlainView
from ipexctl.run.outcome.outcome import RunResult
from ipexctl.run.plan.launch import LaunchPlan
from ipexctl.shipped_tables import failures
from tests.cli import ipexctl


def explain(*argv: str, given: bytes = b"") -> tuple[int, str, str]:
    done = ipexctl("explain", *argv, given=given)
    return done.returncode, done.stdout, done.stderr


LOG = b"""\
epoch 1
\x1b[31mRuntimeError: Gloo connectFullMesh failed with refused, remote=[127.0.0.1]:4711\x1b[0m
\xff\xfe half [bold]a line\r 99%\rImportError: libccl.so.1: cannot open shared object file
ImportError: libccl.so.1: cannot open shared object file
"""


def test_an_id_is_its_page_in_any_case():
    code, out, _ = explain("net-016")
    why = next(check.why for check in catalogue() if check.id == "NET-016")
    assert len(why) > 80 and f"   why {why}\n" in out  # a pipe gets whole lines
    assert code == 0
    assert out.splitlines()[0] == "NET-016  MASTER_PORT is taken  (warn)"
    assert "fix ss -ltnp 'sport = :29500'" in out
    assert "(master-port-taken)" in out


def test_a_log_tells_its_failures_in_order_with_their_lines():
    code, out, _ = explain("-", given=LOG)
    assert code == 0
    heads = [line for line in out.splitlines() if line.startswith("line ")]
    assert heads == [
        "line 2: RuntimeError: Gloo connectFullMesh failed with refused, remote=[127.0.0.1]:4711",
        "line 3 (and 1 more): ImportError: libccl.so.1: cannot open shared object file",
    ]
    assert out.index("(gloo-loopback)") < out.index("(libccl-missing)")
    assert "\x1b" not in out


def test_a_file_is_read_as_stdin_is(tmp_path):
    log = tmp_path / "log.txt"
    log.write_bytes(LOG)
    assert explain(str(log)) == explain("-", given=LOG)


def test_a_log_without_a_known_failure_is_exit_1():
    assert explain("-", given=b"fine\n" * 3) == (1, "stdin: no known failure in it\n", "")


def test_a_failure_can_be_asked_for_by_its_name():
    code, out, _ = explain("average-on-ccl")
    assert code == 0
    assert "cannot see it before a run: the cause is in the script" in out


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("NET-999", "there is no check NET-999"),
        ("SOTF-001", "ipexctl explain SOFT-001   # IPEX was built for a different PyTorch version"),
        ("gloo-loopbak", "ipexctl explain gloo-loopback   # "),
        ("out of memory", "ipexctl explain out-of-memory   # the host ran out of memory"),
        ("SHM", "ipexctl explain SHM-001   # /dev/shm is small"),
        ("foo", "foo is not a check, a known failure, or an existing file"),
        ("/nowhere/log.txt", "No such file or directory"),
        ("/", "cannot read /"),
    ],
)
def test_what_is_neither_id_nor_log_is_wrong_input(what, says):
    code, out, err = explain(what)
    assert (code, out) == (2, "")
    assert says in err
    *near, last = err.partition("  try: ")[2].splitlines()
    assert last.strip() == "ipexctl explain   # lists all checks and known failures"
    for line in near:
        assert explain(line.partition("#")[0].split()[-1])[0] == 0


def test_all_checks_and_failures_are_listed():
    code, out, err = explain()
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert len(lines) == len(catalogue()) + len(failures())
    assert "CPU-001                   the processor has no AVX2" in lines
    assert "out-of-memory             the host ran out of memory" in lines
    known = json.loads(explain("--json")[1])["known"]
    assert list(known) == [line.split()[0] for line in lines]


def test_json_holds_the_same_and_nothing_else():
    code, out, _ = explain("--json", "-", given=LOG)
    document = json.loads(out)
    assert (code, document["exit_code"], document["schema_version"]) == (0, 0, 1)
    found = [(m["cause"]["slug"], m["line"], m["again"]) for m in document["matches"]]
    assert found == [("gloo-loopback", 2, 0), ("libccl-missing", 3, 1)]
    assert json.loads(explain("--json", "CPU-001")[1])["check"]["id"] == "CPU-001"


# --- in the box at the end of a failed run -------------------------------------------------------


@pytest.mark.parametrize(
    ("tail", "cause", "known"),
    [
        (("\x1b[31mRuntimeError: Invalid scalar type\x1b[0m",), "rank 3 exited with code 1",
         "gloo-bf16"),
        (("step 1",), "rank 3 was ended by signal 7 (SIGBUS: often a full /dev/shm)", "shm-full"),
        (("step 1",), "rank 3 exited with code 1", None),
    ],
)  # fmt: skip
def test_a_failed_run_ends_with_the_failure_that_its_last_words_tell_of(capfd, tail, cause, known):
    plan = LaunchPlan((), "10.0.0.1", 29500, (), (), "")
    result = RunResult("r1", 1, "rank-failed", 1.0, plan, (), tail=tail, cause=cause)
    JsonView().result(result)
    PlainView().result(result)
    out, err = capfd.readouterr()
    told = json.loads(out)["known"]
    assert (told and told["slug"]) == known
    assert ("known: " in err) == bool(known)
    assert f"ipexctl explain {known}" in err or not known
