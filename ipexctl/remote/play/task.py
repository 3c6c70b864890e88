"""The task of a step: its arguments, and its connection to the controller."""

import errno
import os
import threading

from ipexctl.common.play_messages import FileNeeded, StepEnded, StepFailure, StepPrinted
from ipexctl.remote.failure import Failure, bug_document
from ipexctl.remote.main import find_operation

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    import subprocess
    from collections.abc import Callable
    from typing import IO, Any, BinaryIO

    from ipexctl.common.play_messages import PlayEvent
    from ipexctl.remote.main import Frame

    Result = tuple[bool | None, str, str]  # whether a step changed something, what, the diff

DIFF_LIMIT = 1 << 16
OUTPUT_LIMIT = 1 << 16  # bytes of a program's output, for messages
LINE_LIMIT = 1 << 14


class Missing(Failure):
    """A path does not exist; in check mode, an earlier step may be about to create it."""


class Task:
    """One step. `check`: change nothing. `emit`, `recv`: frames to and from the controller."""

    def __init__(
        self,
        args: "dict[str, Any]",
        check: bool,
        diff: bool,
        emit: "Callable[[PlayEvent], object]",
        recv: "Callable[[], Frame | None]",
        at_end: "list[Callable[[], object]]",
        number: int = 0,
    ) -> None:
        self.args = args
        self.check = check
        self.diff = diff
        self.emit = emit
        self.recv = recv
        self.at_end = at_end
        self.number = number  # of the step in its play
        # `path:/x`, `packages`, `service:x` or `any`, and for reads `exists:/x`: from these the
        # controller infers what a check of a later step can know
        self.reads = []  # type: list[str]
        self.writes = []  # type: list[str]
        self.failure = None  # type: StepFailure | None  # in a check, unless a step changes it
        # what `apply` returns in a check if a path is missing
        self.if_missing = (None, "", "")  # type: Result

    def touches(self, *paths: str) -> None:
        """Record these paths as read and written, and the paths to which links lead now."""
        names = {os.path.normpath(path) for path in paths} | {os.path.realpath(p) for p in paths}
        self.reads = ["path:" + name for name in sorted(names)]
        self.writes = list(self.reads)

    def say(self, text: str) -> None:
        self.emit(StepPrinted(self.number, text[:LINE_LIMIT]))

    def receive(self, sha256: str, file: "BinaryIO") -> None:
        """Receive the content of a file of the controller and write it to `file`."""
        import hashlib  # late, here and below: importing takes milliseconds

        self.emit(FileNeeded(self.number, sha256))
        digest, write_error = hashlib.sha256(), None
        while True:
            frame = self.recv()
            if frame is None:
                raise Failure(
                    "the connection ended before the file had arrived", slug="connection-lost"
                )
            header, body = frame
            digest.update(body)
            try:
                if write_error is None:
                    file.write(body)
            except OSError as e:  # read the rest all the same: it is not part of the next file
                write_error = e
            if header.get("last"):
                break
        if write_error:
            raise write_error
        if digest.hexdigest() != sha256:
            raise Failure(
                "the file changed on the controller while it was being sent",
                slug="file-changed-while-sent",
            )

    def program(
        self,
        command: "list[str]",
        variables: "dict[str, str] | None" = None,
        folder: str = "/",
        stdin: bytes = b"",
        timeout: float = 0,
        quiet: bool = False,
    ) -> "tuple[int, str]":
        """Run a program and relay its lines. Return (exit code, the end of its output)."""
        import subprocess

        from ipexctl.remote.child_processes import ends_with, start_user_program

        process = subprocess.Popen(
            command,
            env=variables,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=start_user_program,
        )
        with ends_with(self.at_end, process) as kill:
            timer = threading.Timer(timeout, kill)
            timer.daemon = True
            if timeout:
                timer.start()
            try:
                out = self._output(process, stdin, quiet)
                code = process.wait()
                if timer.finished.is_set():
                    raise Failure(
                        "still running after %g s, killed" % timeout, out, slug="command-timeout"
                    )
                return code, out
            finally:
                timer.cancel()

    def _output(self, process: "subprocess.Popen[bytes]", stdin: bytes, quiet: bool) -> str:
        writer = threading.Thread(target=_feed_stdin, args=(process.stdin, stdin))
        writer.daemon = True
        writer.start()
        stdout, tail = process.stdout, b""
        assert stdout
        for line in iter(lambda: stdout.readline(LINE_LIMIT), b""):
            tail = (tail + line)[-OUTPUT_LIMIT:]
            if not quiet:
                self.say(line.decode("utf-8", "replace").rstrip("\r\n"))
        return tail.decode("utf-8", "replace").strip()


def _feed_stdin(pipe: "IO[bytes]", data: bytes) -> None:
    try:
        pipe.write(data)
        pipe.close()
    except OSError:
        pass


def _accounts_of_files(args: "dict[str, Any]") -> "list[str]":
    """Return the accounts that own the step's files; an earlier step `user` may add them."""
    kinds = (("owner", "passwd"), ("group", "group"))
    return ["path:/etc/%s/%s" % (file, args[key]) for key, file in kinds if args.get(key)]


def apply_step(module: str, task: "Task") -> StepEnded:
    """Call `apply` of a step's module."""
    result = None, "", ""  # type: Result
    try:
        result = find_operation("play.%s.apply" % module, prefix="")(task)
    except Failure as e:
        task.failure = step_failure(e)
        if task.check and isinstance(e, Missing):
            result = task.if_missing
    except (BrokenPipeError, MemoryError):
        raise
    except OSError as e:
        what = "%s: %s" % (e.filename, e.strerror) if e.filename else e.strerror or str(e)
        hint = "sudo: true" if e.errno == errno.EACCES else ""
        task.failure = StepFailure(what, "", hint, "path-unusable")
    except Exception:
        task.failure = StepFailure(**bug_document())
    changed, detail, diff = result
    reads = task.reads + _accounts_of_files(task.args) if task.failure else task.reads
    return StepEnded(
        task.number, changed, detail, diff[:DIFF_LIMIT], reads, task.writes, task.failure
    )


def step_failure(failure: "Failure") -> StepFailure:
    return StepFailure(failure.what, failure.why, failure.hint, failure.slug)
