from __future__ import annotations

import re
from typing import Literal

from ipexctl.base.located_errors import Bad
from ipexctl.play.steps.step_kinds import HostStep
from ipexctl.play.text.step_schema import arg
from ipexctl.quick_dataclass import dataclass

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+:_~@/=<>*-]{0,255}")


@dataclass(frozen=True)
class Package(HostStep):
    """Install packages with the host's package manager: apt, dnf or zypper.

    A name may include a version in the package manager's syntax: numactl=2.0.16-1 (apt).
    The package lists are updated only with update_cache, or if the manager does not know the name.
    If another process has locked the package manager, the step waits up to 2 minutes for it.
    """

    keyword = "package"
    main = "name"
    module = "apply_package"
    example = "package: {name: [numactl, libgomp1]}"

    name: tuple[str, ...] = arg("Names of packages.")
    state: Literal["present", "absent", "latest"] = arg(
        "present: installed, any version; latest: newest version; absent: removed.", "present"
    )
    update_cache: bool = arg("Update the package lists first.", False)
    use: Literal["auto", "apt", "dnf", "zypper"] = arg("Package manager to use.", "auto")

    def check(self) -> None:
        if not self.name:
            raise Bad("name is empty", slug="argument-missing")
        for name in self.name:
            if not _NAME.fullmatch(name):
                raise Bad(f"{name!r} is not the name of a package", slug="not-a-package-name")
