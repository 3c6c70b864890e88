from __future__ import annotations

from typing import Any

from ipexctl.base.located_errors import Bad
from ipexctl.play.steps.step_kinds import HostStep, LocalFiles
from ipexctl.play.text.interpolation import Scope
from ipexctl.play.text.step_schema import Code, Seconds, arg, shell_variables
from ipexctl.quick_dataclass import dataclass

_MOST = 120 << 10  # what Linux takes as one argument of a program, less what is added to it


@dataclass(frozen=True)
class Sh(HostStep):
    """Run shell code on the hosts.

    Without creates, removes or unless it runs every time, and --check reports "unknown".
    A name such as ${lr} becomes a variable of the shell, so that no value is read as code.
    """

    keyword = "sh"
    main = "cmd"
    module = "apply_sh"
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
        if max(len(text.encode("utf-8", "surrogateescape")) for text in texts) > _MOST:
            what = f"cmd, or one of its values, is larger than {_MOST >> 10} KiB"
            raise Bad(what, hint="send it as a file with a copy step", slug="value-too-large")

    def request(self, files: LocalFiles, scope: Scope) -> dict[str, Any]:
        variables = shell_variables(self.cmd, self.unless)
        changes = None if self.changes is None else list(self.changes)
        return {**super().request(files, scope), "variables": variables, "changes": changes}
