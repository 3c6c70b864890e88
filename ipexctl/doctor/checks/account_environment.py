"""What the account's environment, as a command over SSH gets it, would do to a training.

`ipexctl run` gives its ranks an environment of its own, so this hurts what is started by hand:
torchrun, accelerate, mpirun. It is a warning until ipexctl's environment is installed, then a note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import wraps

from ipexctl.base.sizes import size
from ipexctl.doctor.checks.registry import Check, Seen, Sight, host_check, listed
from ipexctl.doctor.checks.software_stack import pip
from ipexctl.doctor.report.finding import Severity
from ipexctl.doctor.report.suggested_fix import Fix, Part, Shell, command, do
from ipexctl.facts import host_facts as of
from ipexctl.facts.facts import Facts
from ipexctl.machines.openssh import startup_files

_FILES = "~/.bashrc ~/.profile /etc/environment"
SLOW_LOGIN = 3  # seconds
BY_HAND = (Severity.WARN, Severity.NOTE)


def by_hand_check(
    number: str, *, title: str, seen: str, why: str, fix: Fix | Part = ""
) -> Callable[[Callable[[Facts], Seen]], Check]:
    """A check whose findings are notes on hosts where `ipexctl run` can do the work."""

    def declare(function: Callable[[Facts], Seen]) -> Check:
        @wraps(function)
        def look(facts: Facts) -> Iterator[Sight]:
            own = facts.software is not None and facts.software.used is not None
            for sight in listed(function(facts)):
                yield replace(sight, severity=Severity.NOTE) if own else sight

        declared = host_check(number, title, severity=BY_HAND, seen=seen, why=why, fix=fix)
        return declared(look)

    return declare


def variable(facts: Facts, name: str) -> str:
    return facts.software.variables.get(name, "") if facts.software else ""


def missing_paths(facts: Facts, name: str) -> list[str]:
    """The paths that the variable names and the host does not have."""
    return [path for n, path in facts.software.missing if n == name] if facts.software else []


@by_hand_check(
    "SOFT-016",
    title="LD_PRELOAD names a file that does not exist",
    seen="LD_PRELOAD contains a path that does not exist",
    why="Every program prints `object ... from LD_PRELOAD cannot be preloaded: ignored`, and runs "
    "without the OpenMP library or allocator it should have. `ipexctl run` does not pass it on.",
    fix=do(Shell(f"grep -n LD_PRELOAD {_FILES}"), "   and remove the path"),
)
def preload(facts: Facts) -> Sight | None:
    gone = missing_paths(facts, "LD_PRELOAD")
    return Sight(", ".join(gone)) if gone else None


@host_check(
    "SOFT-017",
    title="two OpenMP runtimes in one process",
    severity=(Severity.WARN, Severity.NOTE),
    seen="LD_PRELOAD lists libiomp5 and libgomp, or torch ships a second libiomp5",
    why="Two thread pools on the same cores: `OMP: Error #15: Initializing libiomp5.so, but found "
    "libiomp5.so already initialized`, or a slow run without any message.",
    fix=do("keep one of them: ", command("unset LD_PRELOAD"), ", or name libiomp5.so alone"),
)
def two_openmps(facts: Facts) -> Iterator[Sight]:
    if not facts.software:
        return
    text = facts.software.variables.get("LD_PRELOAD", "")
    if "libiomp5" in text and "libgomp" in text:
        yield Sight(f"LD_PRELOAD={text}")
    for prefix in facts.software.prefixes:
        both = [path for path in prefix.omp if "libiomp5" in path]
        if len(both) > 1:
            level = Severity.WARN if prefix.kind != "other" else Severity.NOTE
            fix = pip(prefix.path, "uninstall", "intel-openmp")
            yield Sight(" and ".join(both), severity=level, fix=fix)


@by_hand_check(
    "SOFT-018",
    title="OMP_NUM_THREADS=1 is exported",
    seen="the login environment sets OMP_NUM_THREADS=1 on a host with more cores",
    why="Each rank computes on one core: many times slower, without an error. `ipexctl run` sets "
    "its own; torchrun, accelerate and mpirun started by hand keep this one.",
    fix=do(Shell(f"grep -n OMP_NUM_THREADS {_FILES}"), "   and remove it"),
)
def one_thread(facts: Facts) -> Sight | None:
    count = of.cores(facts)
    if variable(facts, "OMP_NUM_THREADS") != "1" or not count or count < 2:
        return None
    return Sight(f"OMP_NUM_THREADS=1, {count} cores")


_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


@by_hand_check(
    "SOFT-027",
    title="the login environment asks for more threads than there are CPUs",
    seen="OMP_NUM_THREADS or MKL_NUM_THREADS is higher than the number of CPUs that this user may "
    "use",
    why="Threads that share a CPU wait for each other at every barrier: many times slower, without "
    "an error. `ipexctl run` sets its own.",
    fix=do(Shell(f"grep -n NUM_THREADS {_FILES}"), "   and remove it"),
)
def many_threads(facts: Facts) -> Sight | None:
    cpus = len(of.usable(facts) or ())
    first = {name: variable(facts, name).partition(",")[0].strip() for name in _THREADS}
    found = [f"{n}={v}" for n, v in first.items() if v.isdecimal() and int(v) > cpus]
    return Sight(f"{', '.join(found)} on {cpus} CPUs") if found and cpus else None


@host_check(
    "SOFT-028",
    title="the start-up files of the login shell are slow",
    severity=Severity.WARN,
    seen=f"more than {SLOW_LOGIN} s from the start of the login shell to that of its command",
    why="Every command over SSH waits for them, on every host: those of ipexctl, and mpirun's "
    "daemons, which give up after some time.",
)
def slow_login(facts: Facts) -> Sight | None:
    system = facts.condition.system
    if system.login_ms is None or system.login_ms <= SLOW_LOGIN * 1000:
        return None
    files = startup_files.FILES.get(
        system.login_shell, (f"those of {system.login_shell or 'the shell'}",)
    )
    return Sight(
        f"{system.login_ms / 1000:.1f} s before the command starts, in {' or '.join(files)}",
        fix="leave what is slow (module load, conda, file servers) to interactive shells; in bash, "
        "before it: case $- in *i*) ;; *) return ;; esac",
    )


@by_hand_check(
    "SOFT-019",
    title="PYTHONHOME is set",
    seen="the login environment sets PYTHONHOME",
    why="Every other Python then looks for its standard library there: `No module named "
    "'encodings'`. Environments do not work.",
    fix=do(Shell(f"grep -n PYTHONHOME {_FILES}"), "   and remove it"),
)
def python_home(facts: Facts) -> Sight | None:
    home = variable(facts, "PYTHONHOME")
    return Sight(f"PYTHONHOME={home}") if home else None


@by_hand_check(
    "SOFT-020",
    title="libraries in the login environment shadow those of the stack",
    seen="PYTHONPATH contains another torch, or LD_LIBRARY_PATH another C++, OpenMP or MPI library",
    why="They are found before the environment's own: `GLIBCXX_3.4.32 not found`, `undefined "
    "symbol`, or two versions of one package. `ipexctl run` does not pass these variables on.",
    fix=do(
        Shell("grep -nE 'PYTHONPATH|LD_LIBRARY_PATH' ~/.bashrc ~/.profile"),
        "   and remove the folder",
    ),
)
def shadowed(facts: Facts) -> Sight | None:
    if not facts.software or not facts.software.shadows:
        return None
    own = tuple(p.path for p in facts.software.prefixes if p.kind != "other")
    found = [f"{path} ({name})" for name, path in facts.software.shadows if not _below(path, own)]
    return Sight(", ".join(found[:4])) if found else None


def _below(path: str, folders: tuple[str, ...]) -> bool:
    return any(path.startswith(folder + "/") for folder in folders)


_SLOW = {
    "ATEN_CPU_CAPABILITY": ("default", "avx2"),
    "ONEDNN_MAX_CPU_ISA": ("SSE41", "AVX", "AVX2"),
    "DNNL_MAX_CPU_ISA": ("SSE41", "AVX", "AVX2"),
}


@by_hand_check(
    "SOFT-021",
    title="a variable stops PyTorch from using the CPU's best instructions",
    seen="ATEN_CPU_CAPABILITY or ONEDNN_MAX_CPU_ISA selects less than the CPU supports",
    why="Matrix multiplications run without AVX-512, bf16 or AMX, several times slower.",
    fix=do(Shell(f"grep -nE 'ATEN_CPU|MAX_CPU_ISA' {_FILES}"), "   and remove it"),
)
def held_back(facts: Facts) -> Sight | None:
    if "avx512f" not in facts.cpu.flags or not facts.software:
        return None
    env = facts.software.variables
    found = [f"{n}={env[n]}" for n, slow in _SLOW.items() if env.get(n, "") in slow]
    return Sight(f"{', '.join(found)} on a processor with AVX-512") if found else None


@by_hand_check(
    "SOFT-022",
    title="OMP_THREAD_LIMIT is lower than the threads of a rank",
    seen="OMP_THREAD_LIMIT is lower than OMP_NUM_THREADS or the number of cores",
    why="The backward pass can wait forever for a thread that never starts.",
    fix=do(Shell(f"grep -n OMP_THREAD_LIMIT {_FILES}"), "   and remove it"),
)
def thread_limit(facts: Facts) -> Sight | None:
    limit = variable(facts, "OMP_THREAD_LIMIT")
    threads = variable(facts, "OMP_NUM_THREADS") or str(of.cores(facts) or "")
    if not limit.isdecimal() or not threads.isdecimal() or int(limit) >= int(threads):
        return None
    return Sight(f"OMP_THREAD_LIMIT={limit}, and {threads} threads")


@host_check(
    "SOFT-023",
    title="shared memory left behind by MPI processes that have ended",
    severity=(Severity.NOTE, Severity.WARN),
    seen="files left in /dev/shm by MPI processes that have ended; warn from 1 GiB",
    why="Killed ranks, and torch-ccl when it exits, leave segments there. When they fill "
    "/dev/shm, new ranks die with a bus error.",
    fix=do(
        Shell("find /dev/shm -maxdepth 1 -user $(id -un) -name '[0-9]*:*:*' -delete"),
        "   # while no MPI job is running",
    ),
)
def stale_memory(facts: Facts) -> Sight | None:
    if not facts.software or not facts.software.stale:
        return None
    much = facts.software.stale_bytes >= 1 << 30
    return Sight(
        f"{facts.software.stale} files, {size(facts.software.stale_bytes)}",
        severity=Severity.WARN if much else Severity.NOTE,
    )
