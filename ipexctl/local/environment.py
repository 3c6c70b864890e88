"""The environment of this process. All other modules get it from here, or as an argument."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping, Sequence

SAFE_UMASK = 0o022
_umask = -1  # the user's, for programs of the user; -1: never changed


def restrict_umask() -> None:
    """Make new files not writable for others. The process must be ours."""
    global _umask  # noqa: PLW0603
    _umask = os.umask(SAFE_UMASK)
    os.umask(_umask | SAFE_UMASK)


def user_umask() -> int:
    """Return the umask for programs of the user, as subprocess takes it."""
    return _umask


def environment() -> Mapping[str, str]:
    return os.environ


def hide_secrets(names: Sequence[str]) -> None:
    """Keep these secrets from programs that we start, and from our core dumps."""
    for name in names:
        os.environ.pop(name, None)
    if names:
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
