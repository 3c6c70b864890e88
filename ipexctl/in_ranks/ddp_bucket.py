"""Set the bucket size of DistributedDataParallel to IPEXCTL_BUCKET_MB unless the script sets it."""

import functools
import inspect
import os

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from types import ModuleType
    from typing import Any

    from ipexctl.in_ranks.rank_site import AfterImport

OPTION = "bucket_cap_mb"
built = []  # type: list[str]  # "default" or "script" per model: who chose the size


def set_bucket_size(module: "ModuleType") -> None:
    """Patch DistributedDataParallel. `module`: torch.nn.parallel.distributed."""
    kind = module.DistributedDataParallel
    original = kind.__init__
    signature = inspect.signature(original)
    size = os.environ.get("IPEXCTL_BUCKET_MB", "")

    @functools.wraps(original)
    def init(self: "Any", *args: "Any", **kwargs: "Any") -> "Any":
        try:
            arguments = signature.bind_partial(self, *args, **kwargs).arguments
        except TypeError:
            return original(self, *args, **kwargs)  # raises the error
        is_set = OPTION in arguments and (arguments[OPTION] is not None or OPTION not in kwargs)
        if not is_set and size and OPTION in signature.parameters:
            kwargs[OPTION] = float(size)
        built.append("script" if is_set else "default")
        return original(self, *args, **kwargs)

    kind.__init__ = init


def begin(after_import: "AfterImport") -> None:
    after_import("torch.nn.parallel.distributed", set_bucket_size)
