"""Runs the tests that failed once more, one after the other, and says which.

    python tools/failed_again.py

Tests on practice hosts wait for processes with limits that a busy machine can miss. A test passes
here only if it passes alone; of more than MOST_FAILURES failures the first run counts.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

MOST_FAILURES = 12
FAILED = Path(__file__).parent.parent / ".pytest_cache" / "v" / "cache" / "lastfailed"


def main() -> int:
    try:
        failed = sorted(json.loads(FAILED.read_text("utf-8")))
    except (OSError, ValueError):
        failed = []
    if not 0 < len(failed) <= MOST_FAILURES:
        print(f"{len(failed)} tests failed; they are not run again")
        return 1
    print(f"{len(failed)} tests failed beside others; once more, alone:", *failed, sep="\n  ")
    words = ["-q", "-n", "0", "-p", "no:cacheprovider", *failed]
    return subprocess.run([sys.executable, "-m", "pytest", *words], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
