"""Run steps that need root in a second agent, under sudo, with the sources of this agent.

The password comes over the agent's connection and goes to sudo's stdin; it is in no argv, no
environment and no file.
"""

import marshal
import os
import signal
import subprocess
import sys
import zlib

from ipexctl.common.frames import Frames
from ipexctl.common.play_messages import FileNeeded, PlayEvent, StepEnded, StepOrder
from ipexctl.remote.child_processes import start_process_group
from ipexctl.remote.failure import Failure
from ipexctl.remote.play.task import step_failure

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from ipexctl.remote.main import Call

PATIENCE = 20.0
_WRONG, _ASKS = "incorrect password", "password is required"  # messages of sudo in English
# If sudo does not read a password, the agent skips the line with it.
_HEAD = b"ipexctl-sources "
_BOOT = (
    "import sys,marshal,zlib;i=sys.stdin.buffer;l=next(l for l in i if l[:16]==b'%s');"
    "s=marshal.loads(zlib.decompress(i.read(int(l[16:]))));b=s['ipexctl.remote.boot'];"
    "n={'__name__':'ipexctl.remote.boot'};"
    "exec(marshal.loads(b) if isinstance(b,bytes) else compile(b,'boot','exec'),n);"
    "n['start'](s,b'')"
) % _HEAD.decode()


class SudoWorker:
    """The agent of root; `run` starts it for the first step that needs it."""

    def __init__(self, call: "Call", password: str) -> None:
        self.call = call
        self.password = password
        self.number = 0  # of the last request
        self.process = None  # type: subprocess.Popen[bytes] | None
        self.frames = None  # type: Frames | None
        self.refused = None  # type: Failure | None  # no second try: accounts get locked

    def run(self, order: StepOrder, check: bool, diff: bool) -> StepEnded:
        """Run an op_steps of one step in root's agent, and relay its events."""
        self.number += 1
        request = {"steps": [order.document()], "check": check, "diff": diff}
        try:
            if self.refused:
                raise self.refused
            frames = self.frames or self._start()
            frames.write(dict(request, id=self.number, op="play.batch.steps"))
            return self._relay_frames(frames)
        except BrokenPipeError:
            failure = self._end_failure()
        except Failure as e:  # of sudo; root's agent reports failures of the step
            failure = e
        end = StepEnded(order.number, failure=step_failure(failure))
        self.call.emit(end.document())
        return end

    def _relay_frames(self, frames: "Frames") -> StepEnded:
        """Relay the events of root's agent to the controller, until the step has ended."""
        end = None  # type: StepEnded | None
        while True:
            frame = frames.read()
            if frame is None:
                raise self._end_failure()
            header = frame[0]
            if "done" in header:
                assert end
                return end
            if "error" in header:
                raise Failure(**header["error"])
            self.call.emit(header)
            kind = PlayEvent.kind_of(header)
            if kind is FileNeeded:
                self._pass_on(frames)
            if kind is StepEnded:
                end = StepEnded.read(header)

    def _end_failure(self) -> "Failure":
        self.frames = None
        return Failure(
            "the process under sudo has ended", self._last_words(), slug="sudo-process-ended"
        )

    def _pass_on(self, frames: "Frames") -> None:
        """Pass the file that root's agent needs on from the controller."""
        while True:
            frame = self.call.recv()
            if frame is None:
                self.kill()
                return
            header, body = frame
            frames.write({"id": self.number, "last": bool(header.get("last"))}, body)
            if header.get("last"):
                return

    def _start(self) -> "Frames":
        """Start root's agent under sudo, and return its Frames. Raise Failure if sudo refuses."""
        command = _sudo_command(self.password) + [sys.executable, "-ISc", _BOOT]
        process = self.process = subprocess.Popen(
            command,
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=start_process_group,
            env=_sudo_environment(),
        )
        body = zlib.compress(marshal.dumps(dict(self.call.agent.sources)), 1)
        answer = (self.password + "\n").encode("utf-8") if self.password else b""
        assert process.stdin and process.stdout
        try:
            process.stdin.write(answer + _HEAD + b"%d\n" % len(body) + body)
            process.stdin.flush()
            frames = Frames(process.stdout, process.stdin)
            ready = frames.read()
        except BrokenPipeError:
            ready = None
        if ready is None:
            self.refused = _refusal_failure(self._last_words(), self.password)
            raise self.refused
        self.frames = frames
        return frames

    def _last_words(self) -> str:
        self.kill()
        assert self.process and self.process.stderr
        return self.process.stderr.read().decode("utf-8", "replace").strip()[-2000:]

    def kill(self) -> None:
        """Close stdin, which ends root's agent; also signal sudo, which may pass it on."""
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


def _sudo_command(password: str) -> "list[str]":
    """Return the sudo command. -k ignores a cached login, so that the password is always read."""
    return ["sudo", "-k", "-S", "-p", "", "--"] if password else ["sudo", "-n", "--"]


def _sudo_environment() -> "dict[str, str]":
    """Return variables with which sudo speaks English. Steps keep the characters of the login."""
    variables = dict(os.environ, LC_MESSAGES="C")
    if "LC_ALL" in variables:
        variables["LC_CTYPE"] = variables.pop("LC_ALL")
    return variables


def run_as_root(command: "list[str]", password: str) -> None:
    """Run a command as root. Raise Failure if sudo would ask, or refuses."""
    try:
        process = subprocess.Popen(
            (_sudo_command(password) if os.geteuid() else []) + command,
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=start_process_group,
            env=_sudo_environment(),
        )
    except OSError as e:
        raise _refusal_failure("sudo: %s" % (e.strerror or e), password) from None
    try:
        out, _ = process.communicate((password + "\n").encode("utf-8"), timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise _refusal_failure("sudo gave no answer for %g s" % PATIENCE, password) from None
    if process.returncode:
        raise _refusal_failure(out.decode("utf-8", "replace").strip(), password)


def _refusal_failure(message: str, password: str) -> "Failure":
    import getpass

    user = getpass.getuser()
    if password and _WRONG in message:
        return Failure("sudo refused the password of %s" % user, message, slug="sudo")
    line = "%s ALL=(root) NOPASSWD: ALL" % user
    rule = "as root on this host: echo '%s' > /etc/sudoers.d/ipexctl" % line
    if password or _ASKS not in message:
        return Failure("sudo does not run commands for %s" % user, message, rule, slug="sudo")
    return Failure(
        "sudo asks %s for a password" % user,
        message,
        "--ask-sudo-pass, or --sudo-password-file FILE\nor " + rule,
        slug="sudo",
    )
