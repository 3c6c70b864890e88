"""Wait for a condition by polling."""

import time

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable


def wait_until(
    condition: "Callable[[], object]", seconds: float = 30, pause: float = 0.005
) -> bool:
    """Poll the condition every `pause` seconds. Return False if it is not met in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause)
    return True
