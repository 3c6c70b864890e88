"""`ipexctl explain`, as a user types it."""

from __future__ import annotations

import json

import pytest

from ipexctl.doctor.checks import all_checks
from ipexctl.explain.explain import explainable_items
from ipexctl.explain.known_failures import known_failures
from ipexctl.run.command.views import JsonView, PlainView
from ipexctl.run.outcome.run_result import RunResult
from ipexctl.run.plan.launch import LaunchPlan
from tests.cli import ipexctl


def explain(*argv: str, given: bytes = b"") -> tuple[int, str, str]:
    done = ipexctl("explain", *argv, given=given)
    return done.returncode, done.stdout, done.stderr


GLOO = "RuntimeError: Gloo connectFullMesh failed with refused, remote=[127.0.0.1]:4711"
LIBCCL = "ImportError: libccl.so.1: cannot open shared object file"
LOG = f"epoch 1\n\x1b[31m{GLOO}\x1b[0m\n".encode()
LOG += b"\xff\xfe half [bold]a line\r 99%\r" + f"{LIBCCL}\n{LIBCCL}\n".encode()


def test_an_id_is_its_page_in_any_case():
    code, out, _ = explain("net-016")
    why = next(check.why for check in all_checks() if check.id == "NET-016")
    assert len(why) > 80 and f"   why {why}\n" in out  # a pipe gets whole lines
    assert code == 0
    assert out.splitlines()[0] == "NET-016  MASTER_PORT is taken  (warn)"
    assert "fix ss -ltnp 'sport = :29500'" in out
    assert "(master-port-taken)" in out


def test_a_log_tells_its_failures_in_order_with_their_lines():
    code, out, _ = explain("-", given=LOG)
    assert code == 0
    heads = [line for line in out.splitlines() if line.startswith("line ")]
    assert heads == [f"line 2: {GLOO}", f"line 3 (and 1 more): {LIBCCL}"]
    assert out.index("(gloo-loopback)") < out.index("(libccl-missing)")
    assert "\x1b" not in out


def test_a_file_is_read_as_stdin_is(tmp_path):
    log = tmp_path / "log.txt"
    log.write_bytes(LOG)
    assert explain(str(log)) == explain("-", given=LOG)


def test_a_log_without_a_known_failure_is_exit_1():
    code, out, err = explain("-", given=b"fine\n" * 3)
    assert (code, out.partition(":")[0], err) == (1, "stdin", "")
    assert json.loads(explain("--json", "-", given=b"fine\n" * 3)[1])["matches"] == []


def test_a_failure_can_be_asked_for_by_its_name():
    code, out, _ = explain("average-on-ccl")
    assert code == 0
    (cause,) = (cause for cause in known_failures() if cause.slug == "average-on-ccl")
    assert all(text in out for text in (cause.title, cause.why, cause.unseen))


@pytest.mark.parametrize(
    ("what", "slug", "near"),
    [
        ("NET-999", "check-unknown", ""),
        ("SOTF-001", "check-unknown", "SOFT-001"),
        ("gloo-loopbak", "nothing-to-explain", "gloo-loopback"),
        ("out of memory", "nothing-to-explain", "out-of-memory"),
        ("SHM", "nothing-to-explain", "SHM-001"),
        ("foo", "nothing-to-explain", ""),
        ("/nowhere/log.txt", "file-unreadable", ""),
        ("/", "file-unreadable", ""),
    ],
)
def test_what_is_neither_id_nor_log_is_wrong_input(what, slug, near):
    done = ipexctl("explain", what)
    assert (done.returncode, done.slug, done.stdout) == (2, slug, "")
    (error,) = done.errors
    assert what in error.what
    *suggested, last = error.hint.splitlines()
    assert last.startswith("ipexctl explain   # ")
    titles = dict(explainable_items())
    names = [line.partition(" #")[0].split()[-1] for line in suggested]
    assert all(line.endswith(titles[name]) for line, name in zip(suggested, names, strict=True))
    assert not near or near in names


def test_all_checks_and_failures_are_listed():
    code, out, err = explain()
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert len(lines) == len(all_checks()) + len(known_failures())
    for name, title in (
        *((c.id, c.title) for c in all_checks()),
        *((c.slug, c.title) for c in known_failures()),
    ):
        assert f"{name:<24}  {title}" in lines
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
