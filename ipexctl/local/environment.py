"""The environment of this process. Everything else gets it from here, or as an argument."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping, Sequence


def environment() -> Mapping[str, str]:
    return os.environ


def hide(names: Sequence[str]) -> None:
    """No program that we start inherits these secrets, and no core dump of ours holds them."""
    for name in names:
        os.environ.pop(name, None)
    if names:
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
