"""What a step gets to work with: its arguments, and the way to the controller."""

import errno
import os
import signal
import threading

from ipexctl.remote.failure import Failure, bug, document
from ipexctl.remote.main import operation

DIFF_LIMIT = 1 << 16
OUTPUT_LIMIT = 1 << 16  # of a program, for messages
LINE_LIMIT = 1 << 14


class Task:
    """`check`: look, change nothing. `emit` and `recv` are frames to and from the controller."""

    def __init__(self, args, check, diff, emit, recv, at_end):
        self.args = args
        self.check = check
        self.diff = diff
        self.emit = emit
        self.recv = recv
        self.at_end = at_end
        self.reads = []  # type: list[str]  # what decides over a failure of a check

    def say(self, text):
        self.emit({"event": "line", "text": text[:LINE_LIMIT]})

    def receive(self, sha256, file):
        """The content of a file of the controller, written to `file`."""
        import hashlib  # here and below: modules that take milliseconds, where they are used

        self.emit({"event": "need", "sha256": sha256})
        digest = hashlib.sha256()
        while True:
            frame = self.recv()
            if frame is None:
                raise Failure(
                    "the connection ended before the file had arrived", slug="connection-lost"
                )
            header, body = frame
            digest.update(body)
            file.write(body)
            if header.get("last"):
                break
        if digest.hexdigest() != sha256:
            raise Failure(
                "the file changed on the controller while it was being sent",
                slug="file-changed-while-sent",
            )

    def program(
        self, command, variables=None, folder="/", stdin=b"", timeout=0, quiet=False, hidden=None
    ):
        """Runs it and passes its lines on, but for those in which the pattern `hidden` is found.
        Returns (exit code, the end of its output)."""
        import subprocess

        from ipexctl.remote.child_processes import start_user_program

        process = subprocess.Popen(
            command, env=variables, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, preexec_fn=start_user_program,
        )  # fmt: skip

        def kill():
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except OSError:
                pass

        self.at_end.append(kill)
        clock = threading.Timer(timeout, kill) if timeout else None
        try:
            if clock:
                clock.daemon = True
                clock.start()
            out = self._output(process, stdin, quiet, hidden)
            code = process.wait()
            if clock and not clock.is_alive():
                raise Failure(
                    "still running after %g s, killed" % timeout, out, slug="command-timeout"
                )
            return code, out
        finally:
            if clock:
                clock.cancel()
            self.at_end.remove(kill)
            kill()
            process.wait()

    def _output(self, process, stdin, quiet, hidden):
        writer = threading.Thread(target=_feed, args=(process.stdin, stdin))
        writer.daemon = True
        writer.start()
        tail = b""
        for line in iter(lambda: process.stdout.readline(LINE_LIMIT), b""):
            tail = (tail + line)[-OUTPUT_LIMIT:]
            text = line.decode("utf-8", "replace").rstrip("\r\n")
            if not quiet and not (hidden and hidden.search(text)):
                self.say(text)
        return tail.decode("utf-8", "replace").strip()


def _feed(pipe, data):
    try:
        pipe.write(data)
        pipe.close()
    except OSError:
        pass


def result(changed, detail="", diff="", reads=(), writes=(), failure=None):
    """`changed` None: it cannot be known. `reads`, `writes`: `path:/x`, `packages`, `service:x` or
    `any`, and reads `exists:/x`; by these the controller judges what a later step of a check can
    know. `failure`: of a check, what fails unless an earlier step changes that."""
    found = {
        "changed": changed,
        "detail": detail,
        "diff": diff[:DIFF_LIMIT],
        "reads": list(reads),
        "writes": list(writes),
    }
    if failure is not None:
        found["failure"] = document(failure)
    return found


def _accounts(args):
    """Those whose files a step makes, which an earlier step `user` may add."""
    kinds = (("owner", "passwd"), ("group", "group"))
    return ["path:/etc/%s/%s" % (file, args[key]) for key, file in kinds if args.get(key)]


def outcome(module, task):
    """What `apply` of a step's module returns, or {"failure": ...}."""
    try:
        return dict(operation("play.%s.apply" % module, prefix="")(task))
    except Failure as e:
        return {"failure": document(e), "reads": task.reads + _accounts(task.args)}
    except (BrokenPipeError, MemoryError):
        raise
    except OSError as e:
        what = "%s: %s" % (e.filename, e.strerror) if e.filename else e.strerror or str(e)
        hint = "sudo: true" if e.errno == errno.EACCES else ""
        failure = document(Failure(what, hint=hint, slug="path-unusable"))
        return {"failure": failure, "reads": task.reads}
    except Exception:
        return {"failure": bug()}
