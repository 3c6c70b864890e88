"""The steps by subject: one that is added here is in the docs, the schema and --list-modules.

A step of the kind HostStep has its other half, `apply`, in ipexctl/remote/play.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from ipexctl.play.text.step_schema import Step


@cache
def all_steps() -> dict[str, type[Step]]:
    """Return the steps by their keywords."""
    steps: dict[str, type[Step]] = {}
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        for value in vars(import_module(module.name)).values():
            is_step = isinstance(value, type) and issubclass(value, Step) and value.keyword
            if is_step and value.__module__.endswith(module.name):
                steps[value.keyword] = value
    return dict(sorted(steps.items()))
