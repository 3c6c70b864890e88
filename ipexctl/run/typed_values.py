"""Convert typed values of `run` options: variables, secrets and ports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ipexctl.errors import InputError
from ipexctl.local.environment import environment
from ipexctl.local.run_options import Ports


def _variables(items: list[str] | None) -> dict[str, str]:
    """Return variables of the settings and of --env, which wins."""
    from ipexctl.local.settings import configured_env

    variables = configured_env()
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
        variables[key] = value if sign else environment()[key]
    return variables


def _secrets(names: list[str] | None) -> dict[str, str]:
    return secret_values(names or (), environment())


def secret_values(words: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the local values of these variables. No error contains a value."""
    for word in words:
        name, sign, _ = word.partition("=")
        if not (name.isascii() and name.isidentifier()):
            raise InputError(
                "--secret-env: expected the name of a local environment variable",
                hint="--secret-env HF_TOKEN",
                slug="secret-name-invalid",
            )
        if sign:
            raise InputError(
                f"--secret-env {name}=...: only the name, without a value",
                why="every user of a machine can read the arguments of its programs",
                hint=f"export {name}   # then: --secret-env {name}",
                slug="secret-with-value",
            )
        if name not in environ:
            raise InputError(
                f"--secret-env {name}: not set on this machine, so there is no value to forward",
                hint=f"read -rs {name} && export {name}",
                slug="secret-not-set",
            )
    return {name: environ[name] for name in words}


def _ports(text: str | None) -> Ports | None:
    from ipexctl.run.plan.port_plan import read_ports

    return None if text is None else read_ports(text)


READERS: Mapping[str, Callable[[Any], Any]] = {
    "env": _variables,
    "secret_env": _secrets,
    "ports": _ports,
}
