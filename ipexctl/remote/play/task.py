"""What a step gets to work with: its arguments, and the way to the controller."""

import errno
import os
import threading

from ipexctl.remote.failure import Failure, bug, document
from ipexctl.remote.main import operation

DIFF_LIMIT = 1 << 16
OUTPUT_LIMIT = 1 << 16  # of a program, for messages
LINE_LIMIT = 1 << 14


class Missing(Failure):
    """What a step before may be about to make, in check mode."""


class Task:
    """`check`: look, change nothing. `emit` and `recv` are frames to and from the controller."""

    def __init__(self, args, check, diff, emit, recv, at_end):
        self.args = args
        self.check = check
        self.diff = diff
        self.emit = emit
        self.recv = recv
        self.at_end = at_end
        # `path:/x`, `packages`, `service:x` or `any`, and reads `exists:/x`: by these the
        # controller judges what a later step of a check can know
        self.reads = []  # type: list[str]
        self.writes = []  # type: list[str]
        self.failure = {}  # type: dict[str, str]  # what fails, in a check unless a step changes it
        self.if_missing = (None, "", "")  # what `apply` would return, were there what it misses

    def touches(self, *paths):
        """It reads and writes what stands at these paths, also where links lead to now."""
        names = {os.path.normpath(path) for path in paths} | {os.path.realpath(p) for p in paths}
        self.reads = ["path:" + name for name in sorted(names)]
        self.writes = list(self.reads)

    def say(self, text):
        self.emit({"event": "line", "text": text[:LINE_LIMIT]})

    def receive(self, sha256, file):
        """The content of a file of the controller, written to `file`."""
        import hashlib  # here and below: modules that take milliseconds, where they are used

        self.emit({"event": "need", "sha256": sha256})
        digest, full = hashlib.sha256(), None
        while True:
            frame = self.recv()
            if frame is None:
                raise Failure(
                    "the connection ended before the file had arrived", slug="connection-lost"
                )
            header, body = frame
            digest.update(body)
            try:
                if full is None:
                    file.write(body)
            except OSError as e:  # the rest is read all the same: it is not of the next file
                full = e
            if header.get("last"):
                break
        if full:
            raise full
        if digest.hexdigest() != sha256:
            raise Failure(
                "the file changed on the controller while it was being sent",
                slug="file-changed-while-sent",
            )

    def program(self, command, variables=None, folder="/", stdin=b"", timeout=0, quiet=False):
        """Runs it and passes its lines on. Returns (exit code, the end of its output)."""
        import subprocess

        from ipexctl.remote.child_processes import ends_with, start_user_program

        process = subprocess.Popen(
            command, env=variables, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, preexec_fn=start_user_program,
        )  # fmt: skip
        with ends_with(self.at_end, process) as kill:
            clock = threading.Timer(timeout, kill)
            clock.daemon = True
            if timeout:
                clock.start()
            try:
                out = self._output(process, stdin, quiet)
                code = process.wait()
                if clock.finished.is_set():
                    raise Failure(
                        "still running after %g s, killed" % timeout, out, slug="command-timeout"
                    )
                return code, out
            finally:
                clock.cancel()

    def _output(self, process, stdin, quiet):
        writer = threading.Thread(target=_feed, args=(process.stdin, stdin))
        writer.daemon = True
        writer.start()
        tail = b""
        for line in iter(lambda: process.stdout.readline(LINE_LIMIT), b""):
            tail = (tail + line)[-OUTPUT_LIMIT:]
            if not quiet:
                self.say(line.decode("utf-8", "replace").rstrip("\r\n"))
        return tail.decode("utf-8", "replace").strip()


def _feed(pipe, data):
    try:
        pipe.write(data)
        pipe.close()
    except OSError:
        pass


def _accounts(args):
    """Those whose files a step makes, which an earlier step `user` may add."""
    kinds = (("owner", "passwd"), ("group", "group"))
    return ["path:/etc/%s/%s" % (file, args[key]) for key, file in kinds if args.get(key)]


def outcome(module, task):
    """What `apply` of a step's module returns, (changed, detail, diff), for the controller.
    `changed` None: it cannot be known."""
    found = None, "", ""
    try:
        found = operation("play.%s.apply" % module, prefix="")(task)
    except Failure as e:
        task.failure = document(e)
        if task.check and isinstance(e, Missing):
            found = task.if_missing
    except (BrokenPipeError, MemoryError):
        raise
    except OSError as e:
        what = "%s: %s" % (e.filename, e.strerror) if e.filename else e.strerror or str(e)
        hint = "sudo: true" if e.errno == errno.EACCES else ""
        task.failure = document(Failure(what, hint=hint, slug="path-unusable"))
    except Exception:
        task.failure = bug()
    changed, detail, diff = found
    end = {
        "changed": changed,
        "detail": detail,
        "diff": diff[:DIFF_LIMIT],
        "reads": task.reads,
        "writes": task.writes,
    }
    if task.failure:
        end.update(failure=task.failure, reads=task.reads + _accounts(task.args))
    return end
