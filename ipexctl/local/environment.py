"""The environment of this process. Everything else gets it from here, or as an argument."""

from __future__ import annotations

import os
from collections.abc import Mapping


def environment() -> Mapping[str, str]:
    return os.environ
