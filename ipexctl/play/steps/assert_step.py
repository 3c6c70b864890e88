from __future__ import annotations

from typing import Any

from ipexctl.base.located_errors import Bad
from ipexctl.play.steps.step_kinds import HostStep, LocalFiles
from ipexctl.play.text.interpolation import Scope
from ipexctl.play.text.step_schema import Code, Seconds, arg, shell_variables
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class Assert(HostStep):
    """Fail if shell code exits with an error or a file is missing. It changes nothing.

    To test facts, combine it with `when`: `assert: {fail: "needs AMX"}` beside `when: {isa:
    {not: amx}}`.
    """

    keyword = "assert"
    main = "that"
    module = "apply_assert"
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

    def request(self, files: LocalFiles, scope: Scope) -> dict[str, Any]:
        return {**super().request(files, scope), "variables": shell_variables(self.that)}
