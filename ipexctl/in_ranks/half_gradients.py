"""run --compress: gradients of DistributedDataParallel cross the network in half precision.

A communication hook of ours is registered when a model is wrapped. A hook that the script registers
itself is used instead of it. Works with torch 1.9 and newer.
"""

import functools
import math
import os
import sys
import weakref

NAMES = {"fp16": "float16", "bf16": "bfloat16"}
LARGEST = 65504.0  # of fp16
registered = weakref.WeakKeyDictionary()  # type: weakref.WeakKeyDictionary  # DDP module -> Hook
said = set()  # type: set


def begin(after_import):
    if os.environ.get("IPEXCTL_COMPRESS") in NAMES:
        after_import("torch.nn.parallel.distributed", wrap)


def wrap(module):
    """Importing torch imports this module, so the rest of torch is looked up later."""
    try:
        wrap_class(module.DistributedDataParallel)
    except AttributeError as e:
        say("not used, as this torch is not known: %s" % e)


def wrap_class(ddp):
    init, register = ddp.__init__, ddp.register_comm_hook
    builtin = ddp._register_builtin_comm_hook

    def __init__(self, *args, **kwargs):
        init(self, *args, **kwargs)
        try:
            compress(self)
        except Exception as e:
            say("not used, as this torch is not known: %s: %s" % (type(e).__name__, first_line(e)))

    def register_comm_hook(self, state, hook):
        ours = registered.get(self)
        if ours is None or ours.instead:
            register(self, state, hook)
            return
        self._check_comm_hook(hook)
        if hasattr(self, "_comm_hooks"):
            self._comm_hooks.append((hook, state))
        ours.give_way(hook, state, hook)

    def _register_builtin_comm_hook(self, kind):
        ours = registered.get(self)
        if ours is None or ours.instead:
            builtin(self, kind)
            return
        ours.give_way(as_float16 if "FP16" in str(kind) else uncompressed, ours, kind)

    for wrapper, original in (
        (__init__, init),
        (register_comm_hook, register),
        (_register_builtin_comm_hook, builtin),
    ):
        setattr(ddp, original.__name__, functools.wraps(original)(wrapper))


def compress(ddp):
    import torch  # type: ignore
    import torch.distributed as dist  # type: ignore

    group = ddp.process_group
    if group.size() < 2:
        return
    dtype = getattr(torch, NAMES[os.environ["IPEXCTL_COMPRESS"]])
    why = why_not(ddp, dtype, group)
    if why:
        say("not used, as %s" % why)
        return
    hook = Hook(ddp, dtype, group)
    dist._register_comm_hook(ddp.reducer, hook, compressed)
    registered[ddp] = hook


def why_not(ddp, dtype, group):
    """The same on every rank: older gloo cannot sum bf16, MPI no half precision at all."""
    import torch
    import torch.distributed as dist

    if getattr(ddp, "_comm_hooks", None):  # the module's own, for its mixed precision
        return whose(ddp._comm_hooks[0][0])
    if getattr(ddp, "_use_python_reducer", False):
        return "torch.compile's python_reducer exchanges the gradients"
    device = next(p.device for p in ddp.parameters() if p.requires_grad)
    try:
        probe = torch.ones(1, dtype=dtype, device=device)
        found = float(result_of(sum_of(probe, group).wait()))
        why = "" if found == group.size() else "1 from each rank became %s" % found
    except Exception as e:
        why = "%s: %s" % (type(e).__name__, first_line(e))
    return why and "%s cannot sum it: %s" % (dist.get_backend(group), why)


class Hook(object):
    """The state of the hook of one model."""

    def __init__(self, ddp, dtype, group):
        self.ddp = weakref.ref(ddp)  # its reducer holds this
        self.dtype = dtype
        self.group = group
        self.instead = None  # type: tuple | None  # the script's own (hook, state)

    def give_way(self, hook, state, named):
        self.instead = (hook, state)
        say("not used, as %s" % whose(named))

    def current_group(self):
        """DDP can be given another one."""
        return getattr(self.ddp(), "process_group", None) or self.group


def compressed(ours, bucket):
    if ours.instead:
        hook, state = ours.instead
        return hook(state, bucket)
    return exchange(ours, bucket, ours.dtype)


def as_float16(ours, bucket):
    import torch

    return exchange(ours, bucket, torch.float16)


def uncompressed(ours, bucket):
    return exchange(ours, bucket, None)


def exchange(ours, bucket, dtype):
    """Divides before the sum, as DDP does, so that fp16 has room for it."""
    import torch

    group, new = ours.current_group(), hasattr(bucket, "buffer")
    wide = bucket.buffer() if new else bucket.get_tensor()
    if getattr(ours.ddp(), "_divide_by_initial_world_size", True) is False:
        say("join(divide_by_initial_world_size=False) is ignored: the mean is over all ranks")
    wide.div_(group.size())
    half = None
    if dtype is not None and is_wide(wide) and not is_old_join(ours.ddp()):
        half = wide.to(dtype)  # wide stays what this rank contributes, for look_for_overflow
    if dtype is not None:
        kind = "sparse" if wide.is_sparse else named(wide)
        say(
            "%s gradients are sent %s"
            % (kind, "uncompressed" if half is None else "as %s" % named(half))
        )

    def received(future):
        found = result_of(future.value())
        if half is None:
            return found if new else [found]
        if half.dtype == torch.float16:
            look_for_overflow(wide, found, group)
        wide.copy_(found)
        return wide if new else [wide]

    return sum_of(wide if half is None else half, group).then(received)


def is_wide(tensor):
    import torch

    return tensor.dtype == torch.float32 and not tensor.is_sparse


def is_old_join(ddp):
    """torch 1.9: ranks that have joined sum float32, whatever the hook does."""
    config = getattr(ddp, "ddp_uneven_inputs_config", None)
    return bool(getattr(config, "ddp_join_enabled", False))


def sum_of(tensor, group):
    import torch.distributed as dist

    return dist.all_reduce(tensor, group=group, async_op=True).get_future()


def result_of(value):
    return value[0] if isinstance(value, (list, tuple)) else value


def look_for_overflow(mine, found, group):
    """`mine`: this rank's part of the mean; `found`: the sum of all, in fp16."""
    if math.isfinite(float(found.max())) and math.isfinite(float(found.min())):
        return  # both are nan if one value is
    size = mine.abs()
    own = (size > LARGEST / group.size()) & (size < math.inf) & ~found.float().isfinite()
    if bool(own.any()):
        largest = float(size[own].max()) * group.size()
        say(
            "a gradient of %.3g is too large for fp16 and became infinite on every rank; "
            "use --compress bf16" % largest,
            rank=None,
        )


# --- what the user reads -------------------------------------------------------------------------


def say(text, rank=0):
    """Once; by that rank alone. None: by this one."""
    key = "overflow" if rank is None else text
    if key in said or (rank is not None and os.environ.get("RANK", "0") != str(rank)):
        return
    said.add(key)
    name = os.environ["IPEXCTL_COMPRESS"]
    sys.stderr.write("ipexctl: --compress %s: %s\n" % (name, text))
    sys.stderr.flush()


def whose(hook):
    name = getattr(hook, "__qualname__", None) or str(hook)
    return "the model has a communication hook of its own: %s" % name


def named(tensor):
    return str(tensor.dtype).rpartition(".")[2]


def first_line(error):
    return (str(error).splitlines() or [""])[0]
