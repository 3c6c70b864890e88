"""Options of `run` whose values are not what is typed: variables, secrets and ports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ipexctl.errors import InputError
from ipexctl.local.environment import environment
from ipexctl.run.plan.run_options import Ports


def _variables(items: list[str] | None) -> dict[str, str]:
    """Of the settings and of --env, which goes before them."""
    from ipexctl.local.settings import configured_env

    found = configured_env()
    for item in items or ():
        key, sign, value = item.partition("=")
        if not key.isidentifier():
            raise InputError(
                f"--env {item}: expected NAME=VALUE or NAME", slug="not-a-variable-name"
            )
        if not sign and key not in environment():
            raise InputError(
                f"--env {key}: not set on this machine, so there is no value to forward",
                hint=f"--env {key}=VALUE",
                slug="variable-not-set",
            )
        found[key] = value if sign else environment()[key]
    return found


def _secrets(names: list[str] | None) -> dict[str, str]:
    from ipexctl.run.plan import secret_env

    return secret_env.values(names or [], environment())


def _ports(text: str | None) -> Ports | None:
    from ipexctl.run.plan.port_plan import read_ports

    return None if text is None else read_ports(text)


READERS: Mapping[str, Callable[[Any], Any]] = {
    "env": _variables, "secret_env": _secrets, "ports": _ports,
}  # fmt: skip
