"""Steps that need root: one process under sudo, asked in frames, with the sources we have.

The password comes over the agent's connection and goes to sudo's stdin; it is in no argv, no
environment and no file.
"""

import marshal
import os
import signal
import subprocess
import sys
import threading
import zlib

from ipexctl.remote.child_processes import start_process_group
from ipexctl.remote.failure import Failure
from ipexctl.remote.frame_stream import Frames
from ipexctl.remote.play.task import Task, outcome

PATIENCE = 20.0
_WRONG, _ASKS = "incorrect password", "password is required"  # as sudo says it in English
# Where sudo wants no password, the line with it is passed over.
_HEAD = b"ipexctl-sources "
_BOOT = (
    "import sys,marshal,zlib;i=sys.stdin.buffer;l=next(l for l in i if l[:16]==b'%s');"
    "s=marshal.loads(zlib.decompress(i.read(int(l[16:]))));b=s['ipexctl.remote.boot'];"
    "n={'__name__':'ipexctl.remote.boot'};"
    "exec(marshal.loads(b) if isinstance(b,bytes) else compile(b,'boot','exec'),n);"
    "sys.meta_path.insert(0,n['SourceImporter'](s));"
    "from ipexctl.remote.play import sudo_worker;sudo_worker.serve()"
) % _HEAD.decode()


class SudoWorker:
    """`run` starts it when a step needs it first."""

    def __init__(self, call, password):
        self.call = call
        self.password = password
        self.process = None  # type: subprocess.Popen[bytes] | None
        self.frames = None  # type: Frames | None
        self.refused = None  # type: Failure | None  # sudo is asked once: accounts get locked

    def check(self):
        """Raises Failure where sudo would ask, or refuses."""
        if os.geteuid() == 0:
            return
        code, said = _quiet(_sudo(self.password) + ["true"], self.password)
        if code:
            raise _refused(said, self.password)

    def run(self, step, check, diff):
        if os.geteuid() == 0:
            return self._here(step, check, diff)
        if self.refused:
            raise self.refused
        frames = self.frames or self._start()
        asked = {"module": step["module"], "args": step["args"], "check": check, "diff": diff}
        try:
            frames.write(asked)
            return self._answer(frames, step["number"])
        except BrokenPipeError:
            raise self._gone() from None

    def _here(self, step, check, diff):
        def emit(event):
            event["number"] = step["number"]
            self.call.emit(event)

        at_end = self.call.agent.at_end
        return outcome(
            step["module"],
            Task(
                args=step["args"],
                check=check,
                diff=diff,
                emit=emit,
                recv=self.call.recv,
                at_end=at_end,
            ),
        )

    def _answer(self, frames, number):
        while True:
            frame = frames.read()
            if frame is None:
                raise self._gone()
            header = frame[0]
            if "end" in header:
                return header["end"]
            event = header["event"]
            event["number"] = number
            self.call.emit(event)
            if event["event"] == "need":
                self._pass_on(frames)

    def _gone(self):
        self.frames = None
        return Failure(
            "the process under sudo has ended", self._last_words(), slug="sudo-process-ended"
        )

    def _pass_on(self, frames):
        while True:
            frame = self.call.recv()
            if frame is None:
                self.kill()
                return
            header, body = frame
            frames.write({"last": bool(header.get("last"))}, body)
            if header.get("last"):
                return

    def _start(self):
        command = _sudo(self.password) + [sys.executable, "-ISc", _BOOT]
        process = self.process = subprocess.Popen(
            command, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, preexec_fn=start_process_group,
        )  # fmt: skip
        body = zlib.compress(marshal.dumps(dict(self.call.agent.sources)), 1)
        said = (self.password + "\n").encode("utf-8") if self.password else b""
        assert process.stdin
        try:
            process.stdin.write(said + _HEAD + b"%d\n" % len(body) + body)
            process.stdin.flush()
            frames = Frames(process.stdout, process.stdin)
            ready = frames.read()
        except BrokenPipeError:
            ready = None
        if ready is None:
            self.refused = _refused(self._last_words(), self.password)
            raise self.refused
        self.frames = frames
        return frames

    def _last_words(self):
        self.kill()
        assert self.process and self.process.stderr
        return self.process.stderr.read().decode("utf-8", "replace").strip()[-2000:]

    def kill(self):
        """Its stdin ends, so that it ends its own; sudo passes a signal on where it still can."""
        if self.process is None:
            return
        try:
            self.process.stdin.close()  # type: ignore[union-attr]
        except OSError:
            pass
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            try:
                os.killpg(self.process.pid, signal.SIGTERM)
            except OSError:
                pass


def _sudo(password):
    """-k: a password that was given before is not relied on, so that ours is always read."""
    return ["sudo", "-k", "-S", "-p", "", "--"] if password else ["sudo", "-n", "--"]


def _quiet(command, password):
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            cwd="/", preexec_fn=start_process_group, env=dict(os.environ, LC_ALL="C"),
        )  # fmt: skip
    except OSError as e:
        return 1, "sudo: %s" % (e.strerror or e)
    try:
        out, _ = process.communicate((password + "\n").encode("utf-8"), timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return 1, "sudo gave no answer for %g s" % PATIENCE
    return process.returncode, out.decode("utf-8", "replace").strip()


def _refused(said, password):
    import getpass

    user = getpass.getuser()
    if password and _WRONG in said:
        return Failure("sudo refused the password of %s" % user, said, slug="sudo")
    line = "%s ALL=(root) NOPASSWD: ALL" % user
    rule = "as root on this host: echo '%s' > /etc/sudoers.d/ipexctl" % line
    if password or _ASKS not in said:
        return Failure("sudo does not run commands for %s" % user, said, rule, slug="sudo")
    return Failure(
        "sudo asks %s for a password" % user,
        said,
        "--ask-sudo-pass, or --sudo-password-file FILE\nor " + rule,
        slug="sudo",
    )


# --- the process under sudo ----------------------------------------------------------------------


def serve():
    """Steps from stdin until it ends."""
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    frames = Frames(sys.stdin.buffer, sink)
    frames.write({"ready": True})
    inbox = _Inbox(frames)
    while True:
        frame = inbox.get()
        if frame is None:
            os._exit(0)
        asked = frame[0]
        task = Task(
            args=asked["args"], check=asked["check"], diff=asked["diff"],
            emit=lambda event: frames.write({"event": event}), recv=inbox.get, at_end=inbox.at_end,
        )  # fmt: skip
        frames.write({"end": outcome(asked["module"], task)})


class _Inbox:
    """Read beside the step, so that the end of stdin ends what the step runs."""

    def __init__(self, frames):
        import queue

        self.at_end = []
        self.queue = queue.Queue()  # type: queue.Queue[object]
        self.frames = frames
        reader = threading.Thread(target=self._read)
        reader.daemon = True
        reader.start()

    def get(self):
        return self.queue.get()

    def _read(self):
        while True:
            frame = self.frames.read()
            if frame is None:
                for action in list(self.at_end):
                    action()
                os._exit(0)
            self.queue.put(frame)
