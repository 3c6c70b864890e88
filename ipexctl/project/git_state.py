"""Read the commit, branch and uncommitted changes of a project, for the record of a run.

Only what is sent to the hosts is recorded: names and differences of other files stay here.
"""

from __future__ import annotations

import re
import resource
import subprocess
import tempfile
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from ipexctl.base.secret_mask import SecretMask, secret_values
from ipexctl.common.run_inputs import GitState
from ipexctl.local.environment import environment
from ipexctl.local.project_lock import own_git_root
from ipexctl.local.run_options import RunOptions
from ipexctl.project import git_without_settings
from ipexctl.project.send_project import InPlace, Snapshot

MOST_BYTES = 64_000  # of the difference
MOST_CHANGED = 200  # files
LONGEST_WAIT = 0.3  # seconds that the start of a run waits for git, after all else is done
LONGEST = 60.0  # seconds that git may take in all, asked or not
MOST_MEMORY = 2 << 30  # bytes of each git; the packs that it maps do not count
_STATUS = ("status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=dirty", "--", ".")
_DIFF = (
    "-c",
    "core.quotePath=false",
    "-c",
    "diff.autoRefreshIndex=false",
    "diff",
    "--relative",
    "--no-ext-diff",
    "--no-textconv",
    "--submodule=short",
    "--no-renames",
    "--no-color",
    "--ignore-submodules=dirty",
    "HEAD",
    "--",
)
_WORDS = {"M": "changed", "A": "added", "D": "deleted", "?": "not in git", "U": "in conflict"}


def start_git_reader(files: Snapshot | InPlace, options: RunOptions) -> GitReader | None:
    """Start to read the state, if the run records it. The caller has to end the reader."""
    if not isinstance(files, Snapshot) or options.trial:
        return None
    secrets = secret_values(environment()).union(options.secret_env.values())
    sent = [file.path for file in files.bundle.tree.files]
    return GitReader(files.project.folder, sent, SecretMask(secrets))


class GitReader:
    """Reads the state in a thread. What it has not read when the run starts is left out."""

    def __init__(self, folder: Path, sent: Collection[str], mask: SecretMask) -> None:
        self._folder, self._sent, self._mask = folder, frozenset(sent), mask
        self._state = GitState()
        self._known: GitState | None = None  # what it had read when it was asked
        self._git: subprocess.Popen[bytes] | None = None
        self._environ: Mapping[str, str] = {}
        self._ends = threading.Lock()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def state(self) -> GitState | None:
        """Return the state, None without a commit."""
        if self._known is None:
            self._thread.join(LONGEST_WAIT)
            self._end_git()
        return self._known if self._known and self._known.commit else None

    def end(self) -> None:
        """End git, and wait until the thread has removed its folder. Call it again at will."""
        self._end_git()
        self._thread.join(LONGEST_WAIT)

    def _end_git(self) -> None:
        """Keep what is known so far. A pipe in place of a file can stop git for ever."""
        with self._ends:
            if self._known is None:
                self._known = self._state.replace()
            if self._git:
                self._git.kill()

    def _read(self) -> None:
        limit = threading.Timer(LONGEST, self._end_git)
        limit.daemon = True
        limit.start()
        try:
            self._read_repository()
        finally:
            limit.cancel()

    def _read_repository(self) -> None:
        root, git = own_git_root(self._folder), git_without_settings.find_git()
        if not root or not git:
            return
        failures = OSError, ValueError, subprocess.TimeoutExpired
        with (
            suppress(*failures),
            tempfile.TemporaryDirectory(prefix="ipexctl-git-", ignore_cleanup_errors=True) as made,
        ):
            self._environ = git_without_settings.lay_out(git, root, Path(made))
            self._read_with((git, *git_without_settings.OPTIONS))

    def _read_with(self, git: tuple[str, ...]) -> None:
        place = self._ask(*git, "rev-parse", "HEAD", "--abbrev-ref", "HEAD", "--show-prefix")
        commit, branch, prefix, *_ = (*place.split("\n"), "", "", "")
        if not re.fullmatch("[0-9a-f]{40,64}", commit):
            return
        self._state.commit, self._state.branch = commit, branch
        changed = list(self._read_changes(git, prefix))
        self._state.changed = tuple(changed[:MOST_CHANGED])
        kept = [path for how, path in changed if path in self._sent and how != _WORDS["?"]]
        diff = self._ask(*git, *_DIFF, *kept[:MOST_CHANGED]) if kept else ""
        cut = len(diff) >= MOST_BYTES
        diff = diff.rpartition("\n")[0] + f"\n(cut at {MOST_BYTES:,} bytes)" if cut else diff
        self._state.diff = self._mask.mask_text(diff)

    def _read_changes(self, git: tuple[str, ...], prefix: str) -> Iterator[tuple[str, str]]:
        for row in self._ask(*git, *_STATUS).split("\0")[:-1]:
            path = row[3:].removeprefix(prefix)
            new_folder = path.endswith("/") and any(n.startswith(path) for n in self._sent)
            if path in self._sent or new_folder or "D" in row[:2]:
                yield _WORDS.get(row[:2].strip()[:1], "changed"), path

    def _ask(self, *words: str) -> str:
        """Return the first bytes that git prints; "" if it fails. Raises OSError when it is too
        late for an answer."""
        with self._ends:
            if self._known is not None:
                raise TimeoutError
            self._git = subprocess.Popen(
                words,
                cwd=self._folder,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            _limit_memory(self._git.pid)
        with self._git as process:
            assert process.stdout
            text = process.stdout.read(MOST_BYTES).decode("utf-8", "replace")
            process.kill()
        with self._ends:
            if self._known is not None:
                raise TimeoutError  # it was killed
        return text


def _limit_memory(pid: int) -> None:
    """Limit the memory of a process that has just been started. macOS has no such call."""
    if hasattr(resource, "prlimit"):
        with suppress(OSError, ValueError):  # it has ended, or has a lower limit
            resource.prlimit(pid, resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
