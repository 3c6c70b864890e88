"""The system that the programs of a host run in: container, namespace, logins."""

from __future__ import annotations

from ipexctl.quick_dataclass import dataclass

PRACTICE = "ipexctl lab"  # value on a practice host where a container has its manager's name


@dataclass(frozen=True)
class System:
    bits: int | None = None  # of the programs
    container: str = ""  # docker, podman, kubernetes, ...
    netns: int | None = None  # identifies the network namespace
    login_shell: str = ""  # the account's: bash, zsh, ...
    login_ms: int | None = None  # from its start to that of our Python
    session: bool | None = None  # logind knows this login
    kill_user_processes: bool | None = None
    remove_ipc: bool | None = None
    linger: bool | None = None

    @property
    def in_container(self) -> bool:
        return self.container not in ("", PRACTICE)
