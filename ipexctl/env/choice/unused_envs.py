"""Which environments are unused: `env rm --unused` removes those."""

from __future__ import annotations

from ipexctl.env.choice.env_choice import EnvChoice
from ipexctl.env.choice.env_list import HostEnvs


def spared(on_host: HostEnvs, choice: EnvChoice) -> dict[str, str]:
    """Unused environments that another project or a lock still names, and which."""
    found = {}
    for env in (e for e in on_host.envs if e.key in on_host.unused):
        others = [u for u in env.users if u.project.id != choice.project.id]
        if why := choice.names(env.key):
            found[env.key] = why
        elif others:
            more = f" and {len(others) - 1} more" if len(others) > 1 else ""
            found[env.key] = f"requested by {others[0]}{more}"
    return found


def use_of(on_host: HostEnvs, key: str, choice: EnvChoice) -> str:
    """current, previous, kept, or unused: that is what `env rm --unused` removes."""
    if key in (on_host.current, on_host.previous):
        return "current" if key == on_host.current else "previous"
    return "kept" if key in spared(on_host, choice) else "unused"
