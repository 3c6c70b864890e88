from __future__ import annotations

from typing import Literal

from ipexctl.base.located_errors import Bad
from ipexctl.play.steps.step_kinds import HostStep
from ipexctl.play.text.argument_checks import check_mode, check_path, check_pattern
from ipexctl.play.text.step_schema import arg
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class Line(HostStep):
    """Add a line to a file, or remove it."""

    keyword = "line"
    module = "apply_line"
    example = "line: {path: /etc/hosts, line: '10.0.0.2 node02', regexp: ' node02$'}"

    path: str = arg("Absolute path, or one under ~/.")
    line: str | None = arg("The line.", None)
    regexp: str = arg(
        "The last matching line is replaced with `line`; with state: absent, all "
        "matching lines are removed.",
        "",
    )
    state: Literal["present", "absent"] = arg(
        "present: the line must exist; absent: it must not.", "present"
    )
    insertafter: str = arg(
        "Insert after the last line that matches this regular expression, or at EOF.", ""
    )
    insertbefore: str = arg(
        "Insert before the last line that matches this regular expression, or at BOF.", ""
    )
    create: bool = arg("Create the file if it is missing.", False)
    mode: str = arg("Permissions, for example '0644' or u+x.", "")
    owner: str = arg("Name or numeric ID of the owner.", "")
    group: str = arg("Name or number of the group.", "")

    def check(self) -> None:
        check_path("path", self.path)
        check_mode("mode", self.mode)
        for name in ("regexp", "insertafter", "insertbefore"):
            check_pattern(name, getattr(self, name))
        if self.state == "present" and self.line is None:
            raise Bad("state: present requires 'line'", slug="argument-missing")
        if self.line is None and not self.regexp:
            raise Bad("state: absent requires 'line' or 'regexp'", slug="argument-missing")
        if self.line is not None and set(self.line) & {"\n", "\r"}:
            raise Bad(
                "the line contains a line break",
                hint="several line steps, or file: {content: ...}",
                slug="line-break-in-value",
            )
        if self.insertafter and self.insertbefore:
            raise Bad("insertafter and insertbefore cannot be combined", slug="arguments-conflict")
