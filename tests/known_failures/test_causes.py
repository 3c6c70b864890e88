"""Known failures: each is found in its own words, and nothing else is taken for one."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import pytest

from ipexctl.doctor.checks import catalogue as checks
from ipexctl.explain.causes import causes
from ipexctl.shipped_tables import failures

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import error_catalogue  # noqa: E402


def slugs(*lines: str) -> list[tuple[str, int, int]]:
    return [(m.cause.slug, m.number, m.again) for m in causes.matches(lines, failures())]


def test_every_failure_is_known_by_its_own_words():
    found = {c.slug: slugs("step 1", c.example, "step 2") for c in failures()}
    assert {name: hits for name, hits in found.items() if hits != [(name, 2, 0)]} == {}
    assert len(found) == len(failures()) > 300


@pytest.mark.parametrize(
    ("line", "slug"),
    [
        ("/usr/bin/env: 'x': error while loading shared libraries: libmpi.so.12: cannot open shared"
         " object file: No such file or directory", "libmpi-missing"),
        ("setvars.sh: 12: source: not found", "setvars-executed"),
        ("/ccl/env/setvars.sh: 9: source: not found", "setvars-executed"),
        ("DataLoader worker (pid 4711) is killed by signal: Bus error. It is possible that"
         " dataloader's workers are out of shared memory.", "shm-full"),
        ("RuntimeError: unable to write to file </torch_4711_1_0>: No space left on device (28)",
         "shm-full"),
        ("AttributeError: module 'os' has no attribute 'exit'", "ipex-other-torch"),
        ("Mismatch in kernel C++ signatures", "abi-mismatch"),
        ("ERROR: No matching distribution found for libfabric>=2.6", "bindings-not-on-index"),
        ("This program only works on machines with instruction sets equal or newer than AVX2",
         "cpu-too-old"),
        ("ValueError: extension binary is AVX512 while current machine does not support it",
         "cpu-too-old"),
        ("Unable to resolve hostname to a (local) address. Using the loopback address as fallback",
         "gloo-loopback"),
        ("TCP client failed to connect/validate to host 127.0.0.1:29500 - retrying",
         "master-loopback"),
        ("socket.cpp: client socket has timed out after 600s while trying to connect to (10.0.0.1,"
         " 29500).", "master-unreachable"),
        ("api_wrapper.cpp:39 ccl_api_wrappers_init: could not initialize any transport library",
         "ccl-no-mpi-root"),
        ("could not open the library: libmpi.so.12", "libmpi-missing"),
        ("failed to parse worker affinity", "ccl-worker-affinity"),
        ("terminate called without an active exception", "ccl-abort-at-exit"),
        ("torch.distributed.DistNetworkError: Failed to recv, got 0 bytes", "peer-gone"),
        ("bash: line 1: prted: command not found", "orted-not-found"),
        ("Error: unable to connect from \"node1\" to \"vm\"; getaddrinfo returned error -3",
         "name-unknown"),
        ("bash: mpirun: command not found", "mpirun-not-found"),
        ("sh: 1: mpiexec: not found", "mpirun-not-found"),
        ("OFI addrinfo() failed (ofi_init.c:1427:open_fabric:No data available)",
         "no-fabric-provider"),
        ("ann@node02: Permission denied (password).", "ssh-no-key"),
        ("ann@node02: Permission denied (gssapi-keyex,gssapi-with-mic).", "ssh-no-key"),
        ("torch.distributed.DistStoreError: Timed out after 3 seconds waiting for clients. 1/2"
         " clients joined.", "ranks-missing"),
        ("torch.distributed.DistStoreError: wait timeout after 1000ms, keys: /x", "ranks-missing"),
        ("[1120 10:00:00] Memory cgroup out of memory: Killed process 1234 (python)",
         "out-of-memory"),
        ("numpy.core._exceptions._ArrayMemoryError: Unable to allocate 80.0 GiB for an array",
         "out-of-memory"),
        ("MemoryError", "out-of-memory"),
        ("[rank3]: MemoryError", "out-of-memory"),
        ("[1,0]<stderr>:MemoryError", "out-of-memory"),
        ("[default0]:MemoryError", "out-of-memory"),
        ("node02: MemoryError: Unable to allocate 80.0 GiB", "out-of-memory"),
        ("ImportError: libtorch_cpu.so: failed to map segment from shared object: Cannot allocate"
         " memory", "out-of-memory"),
        ("ImportError: main.so: failed to map segment from shared object", "noexec"),
        ("  exitcode  : -9 (pid: 1234)", "killed"),
        ("failed (exitcode: -9) local_rank: 0 (pid: 1234) of binary: /usr/bin/python3", "killed"),
        ("  traceback : Signal 9 (SIGKILL) received by PID 1234", "killed"),
        ("=   KILLED BY SIGNAL: 9 (Killed)", "killed"),
        ("YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)", "killed"),
        ("RuntimeError: DataLoader worker (pid 1234) is killed by signal: Killed. ", "killed"),
        ("RuntimeError: DataLoader worker (pid(s) 1234) is killed by signal: Killed.", "killed"),
        ("  traceback : Signal 4 (SIGILL) received by PID 1234", "cpu-too-old"),
        ("  traceback : Signal 11 (SIGSEGV) received by PID 1234", "segmentation-fault"),
        ("ImportError: _C.so: undefined symbol: _ZTVN5torch3jit6MethodE", "abi-mismatch"),
        ("undefined symbol: _ZNK2at6Tensor4dataEv", "abi-mismatch"),
        ("ModuleNotFoundError: No module named 'numpy._core'", "other-version"),
        ("ModuleNotFoundError: No module named 'transformers.deepspeed'", "other-version"),
        ("ModuleNotFoundError: No module named 'intel_extension_for_pytorch.llm'",
         "other-version"),
        ("AttributeError: module 'torch.nn' has no attribute 'RMSNorm'", "other-version"),
        ("/usr/bin/python3: No module named accelerate", "module-missing"),
        ("(ModuleNotFoundError: No module named 'torch')", "torch-not-installed"),
        ("OSError: [Errno 30] Read-only file system: '/tmp/x'", "temporary-folder"),
        ("touch: cannot touch '/var/tmp/x': Read-only file system", "temporary-folder"),
        ("OSError: [Errno 98] Address already in use", "master-port-taken"),
        ("listen tcp :29500: bind: address already in use", "master-port-taken"),
        ("[c10d] The client socket has failed to connect to [::1]:29500 (errno: 111 - Connection"
         " refused).", "master-loopback"),
        ("[c10d] The client socket has failed to connect to [::ffff:127.0.0.1]:29500 (errno: 111 -"
         " Connection refused).", "master-loopback"),
        ("[c10d] The client socket has failed to connect to [2001:db8::1]:29500 (errno: 113 - No"
         " route to host).", "master-unreachable"),
        ("[c10d] The client socket has failed to connect to [fd00::12]:29500 (errno: 113 - No route"
         " to host).", "master-unreachable"),
        ("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @", "host-key"),
    ],
)  # fmt: skip
def test_other_words_for_a_failure_are_known_too(line: str, slug: str):
    assert [s for s, _, _ in slugs(line)] == [slug]


@pytest.mark.parametrize(
    "line",
    [
        "epoch 3 step 1200 loss 0.1234 lr 1e-4 12.3 samples/s",
        "[Gloo] Rank 0 is connected to 3 peer ranks. Expected number of connected peers: 3",
        "[c10d] The hostname of the client socket cannot be retrieved. err=-3",
        "MPI startup(): I_MPI_THREAD_SPLIT=1 is incompatible with I_MPI_THREAD_MAX=1",
        "Loaded model from /data/No module/checkpoint not found: starting anew",
        "interface version 2",
        "[c10d] The client socket has failed to connect to [localhost]:29500 (errno: 99 - Cannot"
        " assign requested address).",
        "undefined symbol: _ZN2cv3MatC1Ev",
        "srun: error: node02: task 3: Exited with exit code 1",
        "INFO: address already in use by tokenizer",
        "no SIGILL seen, no SIGBUS either",
        "OutOfMemoryErrors: 0",
        "  exitcode  : 9 (pid: 1234)",
        "",
    ],
)
def test_ordinary_and_harmless_lines_are_no_failure(line: str):
    assert slugs(line) == []


def test_a_cause_wins_over_its_consequences():
    tail = [
        "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes",
        "RuntimeError: Gloo connectFullMesh failed with [pair.cc] timed out",
        "ModuleNotFoundError: No module named 'torch'",
    ]
    found = causes.match(tail, failures())
    assert found and (found.cause.slug, found.number) == ("torch-not-installed", 3)
    alone = causes.match(tail[:1], failures())
    assert alone and alone.cause.slug == "peer-gone"
    assert causes.match(["fine", ""], failures()) is None


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
    for cause in failures():
        assert bool(cause.checks) != bool(cause.unseen), cause.slug
        assert set(cause.checks) <= known, cause.slug
        assert cause.title and cause.why and cause.fix
    assert len({c.slug for c in failures()}) == len(failures()) >= 60


def test_every_pattern_has_fixed_words_that_its_matches_contain():
    for cause in failures():
        for pattern in cause.patterns:
            word = causes.fixed_word(pattern)
            assert len(word) >= 4, pattern
            found = re.search(pattern, cause.example)
            assert not found or word in cause.example, (word, pattern)


def test_no_pattern_can_take_for_ever():
    nested = re.compile(r"[*+}]\)[*+{]|\.[*+]")
    patterns = [p for c in failures() for p in c.patterns]
    assert [p for p in patterns if nested.search(p)] == []
    began = time.monotonic()
    for cause in failures():
        for word in map(causes.fixed_word, cause.patterns):
            for evil in (word * 4000, (word + " ") * 4000, word + "a" * 100_000, word + "(" * 9999):
                causes.matches([evil], (cause,))
    assert time.monotonic() - began < 60


def test_a_warning_is_not_why_a_program_ended():
    warning = "x.py:3: UserWarning: Failed: ModuleNotFoundError: No module named 'numpy' (here)"
    assert causes.match([warning, "gives up"], failures()) is None
    error = "ModuleNotFoundError: No module named 'torch'"
    assert causes.match([warning, error], failures()) is not None


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
    alone = causes.match([notice], failures())
    assert alone and not alone.cause.weak  # the warning is about something, which is not weak
    for error in ("ModuleNotFoundError: No module named 'torch'", "Segmentation fault"):
        found = causes.match([notice, error], failures())
        assert found and found.line == error
