"""How Python ends in a rank: as it would without ipexctl, with its exit code known to the host."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import ipexctl.in_ranks
from tests.processes import interpreter

MODULES = Path(ipexctl.in_ranks.__file__).parent
GLOO = """
import ctypes, os, threading, time
def named(work):
    ctypes.CDLL(None).prctl(15, b"pt_gloo_runloop", 0, 0, 0)
    started.set()
    work()
started = threading.Event()
def begin(work):
    threading.Thread(target=named, args=(work,), daemon=True).start()
    started.wait()
"""
ENDS = {
    "returns": "print('last')",
    "exit-3": "import sys; sys.exit(3)",
    "exit-none": "import sys; sys.exit()",
    "exit-negative": "import sys; sys.exit(-1)",
    "exit-large": "import sys; sys.exit(1 << 70)",
    "exit-text": "import sys; sys.exit('no --data')",
    "exit-tuple": "import sys; sys.exit((1, 2))",
    "exit-true": "import sys; sys.exit(True)",
    "raise-4": "raise SystemExit(4)",
    "raise-class": "raise SystemExit",
    "raise-two": "raise SystemExit(1, 2)",
    "quit": "quit(5)",
    "own-class": "class End(SystemExit): code = 6\nraise End()",
    "in-a-function": "import sys\ndef main(): sys.exit(7)\nmain()",
    "caught": "import sys\ntry: sys.exit(9)\nexcept SystemExit as e: print(e.code, e.args)",
    "assigned": "e = SystemExit(1)\ne.code = 8\nraise e",
    "exception": "def f(): raise ValueError('x')\nf()",
    "exception-before": "try: 1 / 0\nexcept ZeroDivisionError: raise SystemExit(2)",
    "in-a-thread": "import sys, threading\nt = threading.Thread(target=sys.exit, args=(3,))\n"
    "t.start(); t.join(); print('on')",
    "atexit": "import atexit, sys\natexit.register(print, 'one')\n"
    "atexit.register(print, 'two')\nsys.exit(3)",
    "atexit-raises": "import atexit\natexit.register(lambda: 1 / 0)\nprint('x')",
    "atexit-exits": "import atexit\ndef f(): raise SystemExit(3)\natexit.register(f)\nprint('x')",
    "unflushed": "import sys; sys.stdout.write('no end'); sys.stderr.write('e')",
    "closed": "import sys; sys.stdout.close()",
    "replaced": "import io, sys; sys.stdout = io.StringIO(); print('x')",
    "full": "import sys; sys.stdout = open('/dev/full', 'w'); print('x')",
    "os-exit": "import os; print('lost', end=''); os._exit(5)",
    "os-exit-atexit": "import atexit, os; atexit.register(os._exit, 6)",
    "fork": "import os, sys\nif os.fork() == 0: sys.exit(4)\nprint(os.wait()[1])",
    "pickled": "import pickle, sys\nprint(pickle.loads(pickle.dumps(sys.exit)) is sys.exit)",
    "ctrl-c": "import os, signal; os.kill(os.getpid(), signal.SIGINT)\nimport time; time.sleep(9)",
    "teardown": "class A:\n def __del__(self): print('gone')\na = A()\nraise SystemExit(3)",
}
WITHOUT = {"os-exit", "os-exit-atexit", "own-class", "full"}  # no code is left for these
SIGNALS = {"ctrl-c": 1}  # Python ends itself with the signal afterwards


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text((MODULES / "rank_site.py").read_text())
    (folder / "python_exit.py").write_text((MODULES / "python_exit.py").read_text())
    return folder


def run(
    text: str, tmp_path: Path, site: Path | None = None, python: str = sys.executable
) -> tuple[int, bytes, bytes]:
    script = tmp_path / "script.py"
    script.write_text(text)
    ours = {"IPEXCTL_MODULES": "python_exit", "IPEXCTL_LOOK": "0", "PYTHONPATH": str(site)}
    env = {**os.environ, **(ours if site else {})}
    done = subprocess.run(
        [python, str(script)], env=env, cwd=tmp_path, stdin=subprocess.DEVNULL,
        capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    return done.returncode, done.stdout, re.sub(rb"0x[0-9a-f]+", b"0x", done.stderr)


def marks(site: Path) -> list[str]:
    return [path.read_text() for path in site.glob("*.ended")]


@pytest.mark.parametrize("minor", [6, 9, 11, 12, 13])
def test_scripts_end_as_without_us_and_leave_their_exit_code(
    minor: int, site: Path, tmp_path: Path
) -> None:
    python = interpreter(minor)
    for name, text in ENDS.items():
        seen = run(text, tmp_path, site, python)
        assert (name, seen) == (name, run(text, tmp_path, python=python))
        left = marks(site)
        expected = SIGNALS.get(name, seen[0])
        assert (name, str(expected) in left) == (name, name not in WITHOUT)
        for path in site.glob("*.ended"):
            path.unlink()


@pytest.mark.parametrize("code", ["0", "3", "raise"])
def test_the_code_is_known_where_python_crashes_after_the_script(
    code: str, site: Path, tmp_path: Path
) -> None:
    end = "1 / 0" if code == "raise" else f"raise SystemExit({code})"
    crash = "import os\nclass A:\n def __del__(self, abort=os.abort): abort()\na = A()\n"
    seen = run(f"{crash}print('unflushed')\n{end}", tmp_path, site)
    assert (seen[0], seen[1]) == (-signal.SIGABRT, b"unflushed\n")
    assert marks(site) == ["1" if code == "raise" else code]


@pytest.mark.parametrize(
    "text",
    [
        "import os; os.abort()",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import atexit, os; atexit.register(os.abort)",
        "import ctypes; ctypes.string_at(0)",
    ],
)
def test_a_crash_before_the_end_leaves_no_code(text: str, site: Path, tmp_path: Path) -> None:
    assert run(text, tmp_path, site)[0] < 0
    assert marks(site) == []


def test_a_thread_of_gloo_at_work_is_waited_for(site: Path, tmp_path: Path) -> None:
    """Its work needs no GIL until its end, as that of a collective."""
    work = (
        "def work():\n"
        "    import hashlib\n"
        "    hashlib.pbkdf2_hmac('sha256', b'a', b'b', 400_000)\n"
        "    os.write(1, b'done')\n"
    )
    assert run(f"{GLOO}{work}begin(work)\n", tmp_path, site) == (0, b"done", b"")


@pytest.mark.parametrize(
    ("work", "longest"),
    [("lambda: os.read(os.pipe()[0], 1)", 1.0), ("lambda: [0 for _ in iter(int, 1) if _]", 5.0)],
)
def test_one_that_waits_for_another_rank_or_never_ends_is_not(
    work: str, longest: float, site: Path, tmp_path: Path
) -> None:
    text = f"{GLOO}import atexit\nbegin({work})\natexit.register(lambda: print(time.time()))\n"
    began = time.time()
    code, out, err = run(text, tmp_path, site)
    assert (code, err) == (0, b"")
    assert time.time() - max(began, float(out)) < longest
