from __future__ import annotations

from typing import Literal

from ipexctl.base.located_errors import Bad
from ipexctl.play.steps.step_kinds import HostStep
from ipexctl.play.text.argument_checks import check_mode, check_path
from ipexctl.play.text.step_schema import arg
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class File(HostStep):
    """Make a file, directory or symbolic link, set its attributes, or remove it.

    A symbolic link along the path is followed only in folders that root or the user of the step
    owns.
    """

    keyword = "file"
    main = "path"
    module = "apply_file"
    example = "file: {path: /scratch/out, state: directory, mode: '0755'}"

    path: str = arg("Absolute path, or one under ~/.")
    state: Literal["file", "directory", "link", "touch", "absent"] = arg(
        "file: must exist, or is written with content; directory: created with its parents; "
        "link: symbolic link to src; touch: created empty if missing; absent: removed.",
        "file",
    )
    content: str | None = arg("The complete content of the file.", None)
    src: str = arg("Target of the link.", "")
    mode: str = arg("Permissions, for example '0644' or u+x.", "")
    owner: str = arg("Name or numeric ID of the owner.", "")
    group: str = arg("Name or number of the group.", "")

    def check(self) -> None:
        check_path("path", self.path)
        check_mode("mode", self.mode)
        if self.state == "link" and not self.src:
            raise Bad(
                "state: link requires src", hint="src: TARGET of the link", slug="argument-missing"
            )
        if self.src and self.state != "link":
            raise Bad("src needs state: link", slug="arguments-conflict")
        if self.content is not None and self.state != "file":
            raise Bad(
                f"content cannot be combined with state: {self.state}", slug="arguments-conflict"
            )
