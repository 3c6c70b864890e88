"""Count the optimizer steps of a rank, for `ipexctl tune` only: users' runs do not have it.

From time to time a line with MARK goes to stderr: how many steps of the first optimizer that
stepped, and when, by this host's clock. `ddp`: how DistributedDataParallel got its bucket size.
`libraries`: OpenMP runtimes and allocators of this process.
"""

import atexit
import json
import os
import sys
import time

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from ipexctl.in_ranks.rank_site import AfterImport

MARK = "ipexctl-steps "
FIRST = 4  # steps that are reported one by one
LIBRARIES = ("libiomp5", "libgomp", "libomp", "libtcmalloc", "libjemalloc")
EVERY = 0.2  # seconds
PER_SECOND = 1000  # lines of all ranks, at most


class Meter(object):
    def __init__(self, every: float) -> None:
        self.every = every
        self.optimizer = None  # type: object
        self.steps = 0
        self.at = 0.0
        self.told = 0.0
        self.told_steps = 0

    def step(self, optimizer: object) -> None:
        """Count a step of the first optimizer; report it if one is due."""
        if self.optimizer is None:
            self.optimizer = optimizer
        elif self.optimizer is not optimizer:
            return  # a second one, as in a GAN, or the inner one of a sharding optimizer
        self.steps += 1
        self.at = time.monotonic()
        if self.steps <= FIRST or self.at - self.told >= self.every:
            self.tell()

    def tell(self) -> None:
        if self.steps == self.told_steps:
            return
        bucket = sys.modules.get("ddp_bucket")
        report = {"steps": self.steps, "at": round(self.at, 6)}  # type: dict[str, Any]
        report["pid"] = os.getpid()
        report["ddp"] = bucket.built if bucket else []
        if self.told_steps == 0:
            report["libraries"] = list_loaded_libraries()
        self.told, self.told_steps = self.at, self.steps
        # one write, so that it splits no line of the script
        os.write(2, ("\n%s%s\n" % (MARK, json.dumps(report))).encode("ascii"))


def list_loaded_libraries() -> "list[str]":
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            names = {line.rpartition("/")[2] for line in maps}
    except OSError:
        return []
    return sorted(kind for kind in LIBRARIES if any(name.startswith(kind) for name in names))


def count_optimizer_steps(module: "ModuleType", meter: "Meter") -> None:
    """Patch the optimizers. `module`: torch.optim.optimizer."""
    register = getattr(module, "register_optimizer_step_post_hook", None)
    if register is not None:
        register(lambda optimizer, args, kwargs: meter.step(optimizer))
        return
    original = module.Optimizer.__init__

    def init(self: "Any", *args: "Any", **kwargs: "Any") -> None:
        original(self, *args, **kwargs)
        kind = type(self)
        if not getattr(kind.step, "is_counted", False):
            kind.step = wrap_optimizer_step(kind.step, meter)

    module.Optimizer.__init__ = init


def wrap_optimizer_step(step: "Callable[..., Any]", meter: "Meter") -> "Callable[..., Any]":
    import functools

    @functools.wraps(step)
    def with_count(self: "Any", *args: "Any", **kwargs: "Any") -> "Any":
        result = step(self, *args, **kwargs)
        meter.step(self)
        return result

    with_count.is_counted = True  # type: ignore[attr-defined]
    return with_count


def begin(after_import: "AfterImport") -> None:
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    meter = Meter(max(EVERY, float(ranks) / PER_SECOND))
    atexit.register(meter.tell)
    after_import("torch.optim.optimizer", lambda module: count_optimizer_steps(module, meter))
