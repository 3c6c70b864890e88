from __future__ import annotations

import re
from typing import Literal

from ipexctl.base.located_errors import Bad
from ipexctl.play.steps.step_kinds import HostStep
from ipexctl.play.text.step_schema import arg
from ipexctl.quick_dataclass import dataclass

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")
_PATH = re.compile(r"/[^:\x00-\x1f\x7f]*")
_LARGEST_ID = (1 << 32) - 2


@dataclass(frozen=True)
class User(HostStep):
    """Create, change or remove a local user account.

    A new account gets a home folder, a group of its own if the host is configured so, and no
    password. Arguments that are left out stay as they are.
    """

    keyword = "user"
    main = "name"
    module = "apply_user"
    example = "user: {name: trainer, uid: 1500, groups: [video], shell: /bin/bash}"

    name: str = arg("Name of the account.")
    state: Literal["present", "absent"] = arg("absent: the account is removed.", "present")
    uid: int | None = arg(
        "Numeric ID. usermod changes the owner of files in the home folder.", None
    )
    groups: tuple[str, ...] | None = arg(
        "Supplementary groups, which must exist. The account leaves all others.", None
    )
    append: bool = arg("Add the account to groups without leaving others.", False)
    shell: str = arg("Login shell.", "")
    home: str = arg("Home folder. That of an existing account is not moved.", "")
    remove: bool = arg("With state: absent, remove the home folder and the mail.", False)

    def check(self) -> None:
        for name in (self.name, *(self.groups or ())):
            if not _NAME.fullmatch(name):
                raise Bad(
                    f"{name[:64]!r} is not the name of a user or group", slug="not-a-user-name"
                )
        if self.uid is not None and not 0 <= self.uid <= _LARGEST_ID:
            raise Bad(f"uid: {self.uid} is not a user ID", slug="not-a-user-id")
        for key, path in (("shell", self.shell), ("home", self.home)):
            if path and not _PATH.fullmatch(path):
                raise Bad(f"{key}: {path[:64]!r} is not an absolute path", slug="path-not-absolute")
        if self.remove and self.state != "absent":
            raise Bad("remove needs state: absent", slug="arguments-conflict")
        if self.append and self.groups is None:
            raise Bad("append needs groups", slug="argument-missing")
