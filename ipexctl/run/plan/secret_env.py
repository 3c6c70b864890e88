"""--secret-env: the plan has the names; only the messages to the hosts have the values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ipexctl.errors import InputError
from ipexctl.run.plan import rank_variables
from ipexctl.run.plan.launch import HostPlan

_PLACED = frozenset(entry.name for entry in rank_variables.TABLE)


def values(words: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """The local values of these variables. No error contains a value."""
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
                hint=f"export {name}, then: --secret-env {name}",
                slug="secret-with-value",
            )
        if name not in environ:
            raise InputError(
                f"--secret-env {name}: not set on this machine, so there is no value to forward",
                hint=f"read -rs {name} && export {name}",
                slug="secret-not-set",
            )
    return {name: environ[name] for name in words}


def check(names: Sequence[str], hosts: Sequence[HostPlan]) -> None:
    """Refuses a secret for a variable that the plan sets."""
    planned = {name for host in hosts for name, _ in (*host.env, *host.rank_env)}
    for name in names:
        if name in planned | _PLACED or name.startswith("IPEXCTL_"):
            raise InputError(
                f"--secret-env {name}: ipexctl sets this variable, and it is not a secret",
                hint=f"--env {name}",
                slug="secret-is-planned",
            )
