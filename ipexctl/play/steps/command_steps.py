"""Steps that run shell code on a host, or wait for something on it."""

from __future__ import annotations

from typing import Literal

from ipexctl.base.located_errors import Bad
from ipexctl.play.steps.step_kinds import HostStep
from ipexctl.play.text.step_schema import Code, Seconds, arg, shell_variables
from ipexctl.quick_dataclass import dataclass

_LARGEST_CODE = 120 << 10  # Linux's limit for one argument of a program, less what is added


@dataclass(frozen=True)
class Sh(HostStep):
    """Run shell code on the hosts.

    Without creates, removes or unless it runs every time, and --check reports "unknown".
    A name such as ${lr} becomes a variable of the shell, so that no value is read as code.
    """

    keyword = "sh"
    main = "cmd"
    example = "sh: {cmd: make, chdir: ~/project, creates: ~/project/build}"

    cmd: Code = arg("Shell code, run by /bin/sh.")
    creates: str = arg("Path that the code creates. If it exists, the code is not run.", "")
    removes: str = arg("Path that the code removes. If it is missing, the code is not run.", "")
    unless: Code = arg(
        "Shell code that changes nothing. If it exits with 0, cmd is not run.", Code("")
    )
    chdir: str = arg("Folder to run in. Default: the home folder.", "")
    env: dict[str, str] = arg("Environment variables.", {})
    stdin: str = arg("Text for stdin.", "")
    timeout: Seconds = arg("Maximum run time; 0: no limit.", Seconds(0))
    changes: tuple[str, ...] | None = arg(
        "Paths that the code may change. []: it changes nothing, and counts as ok.", None
    )

    @property
    def unseen(self) -> bool:
        return not (self.creates or self.removes or self.unless)

    def check(self) -> None:
        if not self.cmd.strip():
            raise Bad("cmd is empty", slug="argument-missing")
        values = shell_variables(self.cmd).values()  # a program may give plain text
        texts = (self.cmd, self.unless, *values, *self.env.values())
        if max(len(text.encode("utf-8", "surrogateescape")) for text in texts) > _LARGEST_CODE:
            what = f"cmd, or one of its values, is larger than {_LARGEST_CODE >> 10} KiB"
            raise Bad(what, hint="send it as a file with a copy step", slug="value-too-large")


@dataclass(frozen=True)
class Assert(HostStep):
    """Fail if shell code exits with an error or a file is missing. It changes nothing.

    To test facts, combine it with `when`: `assert: {fail: "needs AMX"}` beside `when: {isa:
    {not: amx}}`.
    """

    keyword = "assert"
    main = "that"
    example = "assert: {that: ulimit -l | grep -q unlimited, msg: raise memlock first}"

    that: Code = arg(
        "Shell code that changes nothing and exits with 0 if the condition holds.", Code("")
    )
    path: str = arg("A path that must exist.", "")
    fail: str = arg("Fail with this message.", "")
    msg: str = arg("Message to show if it fails.", "")
    timeout: Seconds = arg("Maximum run time of the code.", Seconds(60))

    def check(self) -> None:
        if sum(map(bool, (self.that, self.path, self.fail))) != 1:
            raise Bad("one of that, path or fail is required", slug="arguments-conflict")


@dataclass(frozen=True)
class Wait(HostStep):
    """Wait for a port, a path, or a number of seconds. It changes nothing."""

    keyword = "wait"
    example = "wait: {port: 29500, host: node01, timeout: 2m}"

    port: int | None = arg("TCP port to connect to from the hosts.", None)
    host: str = arg("Host of the port.", "127.0.0.1")
    path: str = arg("Absolute path on the hosts, or one under ~/.", "")
    state: Literal["started", "stopped", "present", "absent"] = arg(
        "started, present: open, exists; stopped, absent: closed, missing.", "started"
    )
    seconds: Seconds = arg("Just wait for this long.", Seconds(0))
    timeout: Seconds = arg("Time after which the step fails.", Seconds(300))

    def check(self) -> None:
        if sum((self.port is not None, bool(self.path), bool(self.seconds))) != 1:
            raise Bad("one of port, path or seconds is required", slug="arguments-conflict")
        if self.port is not None and not 0 < self.port < 65536:
            raise Bad(f"{self.port} is not a port", slug="not-a-port")
