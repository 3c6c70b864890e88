"""Known failures: each is found in its own words, and nothing else is taken for one."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import pytest

from ipexctl.doctor.checks import all_checks as checks
from ipexctl.explain.causes import causes
from ipexctl.explain.known_failures import known_failures

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import error_catalogue  # noqa: E402


def slugs(*lines: str) -> list[tuple[str, int, int]]:
    return [(m.cause.slug, m.number, m.again) for m in causes.find_causes(lines, known_failures())]


def test_every_failure_is_known_by_its_own_words():
    found = {c.slug: slugs("step 1", c.example, "step 2") for c in known_failures()}
    assert {name: hits for name, hits in found.items() if hits != [(name, 2, 0)]} == {}
    assert len(found) == len(known_failures()) > 300


def test_a_cause_wins_over_its_consequences():
    tail = [
        "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes",
        "RuntimeError: Gloo connectFullMesh failed with [pair.cc] timed out",
        "ModuleNotFoundError: No module named 'torch'",
    ]
    found = causes.find_likeliest_cause(tail, known_failures())
    assert found and (found.cause.slug, found.number) == ("torch-not-installed", 3)
    alone = causes.find_likeliest_cause(tail[:1], known_failures())
    assert alone and alone.cause.slug == "peer-gone"
    assert causes.find_likeliest_cause(["fine", ""], known_failures()) is None


def test_lines_are_counted_over_blocks_and_repeats_are_folded():
    log = ["fine"] * 1700
    log[3] = log[1600] = "Illegal instruction"
    log[1699] = "OMP: Error #15: twice"
    assert slugs(*log) == [("cpu-too-old", 4, 1), ("two-openmps", 1700, 0)]


ONE_THREAD = "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default"
OOM = "RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ((ONE_THREAD, "OMP: Info #276: omp_set_nested routine deprecated", OOM),
         ["out-of-memory", "one-thread"]),
        ((f"W1120 10:00:00.1 7 torch/distributed/run.py:774] {ONE_THREAD}", "Segmentation fault",
          OOM), ["out-of-memory", "segmentation-fault", "one-thread"]),
        (("x.py:3: UserWarning: No module named 'numpy'", OOM),
         ["out-of-memory", "module-missing"]),
        (("Connection closed by peer", "MPII_Init_thread(118):", "[unset]: connect failed",
          "MPIR_pmi_init(133): PMI_Init returned -1"),
         ["pmi-failed", "peer-gone", "mpi-init-failed"]),
        ((ONE_THREAD,), ["one-thread"]),
    ],
)  # fmt: skip
def test_the_likeliest_cause_is_told_first_and_what_is_harmless_last(log, expected):
    assert [slug for slug, _, _ in slugs(*log)] == expected


def test_the_line_that_is_shown_is_the_likeliest_one():
    warning = "x.py:3: UserWarning: No module named 'numpy'"
    error = "ModuleNotFoundError: No module named 'numpy'"
    assert slugs(warning, error) == [("module-missing", 2, 1)]


# --- the table -----------------------------------------------------------------------------------


def test_a_failure_is_seen_by_a_check_or_says_why_not():
    entries, _ = error_catalogue.catalogue(ROOT / "ipexctl")
    known = {c.id for c in checks()} | {entry.slug for entry in entries}
    for cause in known_failures():
        assert bool(cause.checks) != bool(cause.unseen), cause.slug
        assert set(cause.checks) <= known, cause.slug
        assert cause.title and cause.why and cause.fix
    assert len({c.slug for c in known_failures()}) == len(known_failures()) >= 60


def test_every_pattern_has_fixed_words_that_its_matches_contain():
    for cause in known_failures():
        for pattern in cause.patterns:
            word = causes.fixed_word(pattern)
            assert len(word) >= 4, pattern
            found = re.search(pattern, cause.example)
            assert not found or word in cause.example, (word, pattern)


def test_no_pattern_can_take_for_ever():
    nested = re.compile(r"[*+}]\)[*+{]|\.[*+]")
    patterns = [p for c in known_failures() for p in c.patterns]
    assert [p for p in patterns if nested.search(p)] == []
    began = time.monotonic()
    for cause in known_failures():
        for word in map(causes.fixed_word, cause.patterns):
            for evil in (word * 4000, (word + " ") * 4000, word + "a" * 100_000, word + "(" * 9999):
                causes.find_causes([evil], (cause,))
    assert time.monotonic() - began < 60


def test_a_warning_is_not_why_a_program_ended():
    warning = "x.py:3: UserWarning: Failed: ModuleNotFoundError: No module named 'numpy' (here)"
    assert causes.find_likeliest_cause([warning, "gives up"], known_failures()) is None
    error = "ModuleNotFoundError: No module named 'torch'"
    assert causes.find_likeliest_cause([warning, error], known_failures()) is not None


@pytest.mark.parametrize(
    "notice",
    [
        "[W1120 10:00:00.123456789 socket.cpp:755] [c10d] The IPv6 network addresses of (node01,"
        " 29500) cannot be retrieved (gai error: -2 - Name or service not known).",
        "[rank1]:[W1120 10:00:00.1 socket.cpp:755] [c10d] (gai error: Name or service not known)",
        "[W ProcessGroupGloo.cpp:695] Warning: Unable to resolve hostname to a (local) address."
        " Using the loopback address as fallback. (function operator())",
        "W1120 10:00:00.123000 4711 site-packages/torch/x.py:7] Temporary failure in name"
        " resolution",
    ],
)
def test_what_a_library_warns_of_counts_only_where_nothing_else_does(notice):
    alone = causes.find_likeliest_cause([notice], known_failures())
    assert alone and not alone.cause.weak  # the warning is about something, which is not weak
    for error in ("ModuleNotFoundError: No module named 'torch'", "Segmentation fault"):
        found = causes.find_likeliest_cause([notice, error], known_failures())
        assert found and found.line == error
