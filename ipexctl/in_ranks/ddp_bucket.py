"""Set the bucket size of DistributedDataParallel to IPEXCTL_BUCKET_MB unless the script sets it."""

import functools
import inspect
import os

OPTION = "bucket_cap_mb"
built = []  # type: list  # "default" or "script" per model: who chose the size


def set_bucket_size(module):
    """Patch DistributedDataParallel. `module`: torch.nn.parallel.distributed."""
    kind = module.DistributedDataParallel
    made = kind.__init__
    signature = inspect.signature(made)
    size = os.environ.get("IPEXCTL_BUCKET_MB", "")

    @functools.wraps(made)
    def init(self, *args, **kwargs):
        try:
            given = signature.bind_partial(self, *args, **kwargs).arguments
        except TypeError:
            return made(self, *args, **kwargs)  # raises the error
        own = OPTION in given and (given[OPTION] is not None or OPTION not in kwargs)
        if not own and size and OPTION in signature.parameters:
            kwargs[OPTION] = float(size)
        built.append("script" if own else "default")
        return made(self, *args, **kwargs)

    kind.__init__ = init


def begin(after_import):
    after_import("torch.nn.parallel.distributed", set_bucket_size)
