"""Steps that change the operating system of a host."""

from __future__ import annotations

import re
from typing import Literal

from ipexctl.base.located_errors import Bad
from ipexctl.play.steps.step_kinds import HostStep
from ipexctl.play.text.step_schema import arg
from ipexctl.quick_dataclass import dataclass

_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+:_~@/=<>*-]{0,255}")


@dataclass(frozen=True)
class Package(HostStep):
    """Install packages with the host's package manager: apt, dnf or zypper.

    A name may include a version in the package manager's syntax: numactl=2.0.16-1 (apt).
    The package lists are updated only with update_cache, or if the manager does not know the name.
    If another process has locked the package manager, the step waits for it (apt and zypper: up to
    2 minutes).
    """

    keyword = "package"
    main = "name"
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
            if not _PACKAGE.fullmatch(name):
                raise Bad(f"{name!r} is not the name of a package", slug="not-a-package-name")


_UNIT = re.compile(r"[A-Za-z0-9_@][A-Za-z0-9_.@:\\-]{0,255}")


@dataclass(frozen=True)
class Service(HostStep):
    """Start, stop, restart or enable a systemd unit."""

    keyword = "service"
    example = "service: {name: chronyd, state: started, enabled: true}"

    name: str = arg("Name of the unit; without a suffix, .service is added.")
    state: Literal["", "started", "stopped", "restarted", "reloaded"] = arg(
        "restarted and reloaded act every time.", ""
    )
    enabled: bool | None = arg("Whether it starts at boot.", None)
    daemon_reload: bool = arg("Reload unit files first (daemon-reload).", False)

    def check(self) -> None:
        if not _UNIT.fullmatch(self.name):
            raise Bad(f"{self.name!r} is not the name of a unit", slug="not-a-unit-name")
        if not self.state and self.enabled is None and not self.daemon_reload:
            raise Bad("state or enabled is required", slug="argument-missing")


_PARAMETER = re.compile(r"[a-z0-9_]+(?:[./][A-Za-z0-9_-]+){1,8}")


@dataclass(frozen=True)
class Sysctl(HostStep):
    """Set a kernel parameter, now and at every boot."""

    keyword = "sysctl"
    example = "sysctl: {name: net.core.somaxconn, value: '4096'}"

    name: str = arg("The parameter, for example net.core.somaxconn.")
    value: str | None = arg("Its value.", None)
    state: Literal["present", "absent"] = arg("absent: remove it from the file.", "present")
    sysctl_file: str = arg(
        'File that sets it at boot; "": set it only now.', "/etc/sysctl.d/90-ipexctl.conf"
    )

    def check(self) -> None:
        if not _PARAMETER.fullmatch(self.name) or ".." in self.name:
            raise Bad(
                f"{self.name!r} is not the name of a kernel parameter",
                slug="not-a-kernel-parameter",
            )
        if (self.state == "present") == (self.value is None):
            raise Bad("value is required unless state is absent", slug="argument-missing")
        if self.value is not None and "\n" in self.value:
            raise Bad("value has more than one line", slug="line-break-in-value")


_ACCOUNT = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")
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
            if not _ACCOUNT.fullmatch(name):
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
