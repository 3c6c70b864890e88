"""run --compress: send gradients of DistributedDataParallel in half precision.

A communication hook is registered when a model is wrapped. If the script registers its own hook,
that one is used. At its end rank 0 says if nothing was compressed, and why, also in the run's
summary. Works with torch 1.10 and newer.
"""

import atexit
import functools
import math
import os
import sys
import weakref

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from ipexctl.in_ranks.rank_site import AfterImport

    # of torch, which mypy does not see
    Tensor = Any
    Group = Any
    Model = Any
    Counts = list[tuple[Tensor, int, int]]  # of a parameter: nonzero gradients, lost ones

NAMES = {"fp16": "float16", "bf16": "bfloat16"}
LARGEST = 65504.0  # of fp16
LOST = 0.25  # share of nonzero gradients, of a weight or in all, whose loss changes the training
EVERY = 64  # steps: counting takes as long as a few casts
registered = weakref.WeakKeyDictionary()  # type: weakref.WeakKeyDictionary[Model, Hook]
said = set()  # type: set[str]
MAIN = "IPEXCTL_COMPRESS_MAIN"  # the rank's first Python: those that it starts may have no model
outcome = {"compressed": False, "why": "the script built no DistributedDataParallel model"}


def begin(after_import: "AfterImport") -> None:
    if os.environ.get("IPEXCTL_COMPRESS") in NAMES:
        after_import("torch.nn.parallel.distributed", wrap_ddp_module)
        pid = str(os.getpid())
        if is_first() and os.environ.setdefault(MAIN, pid) == pid:
            atexit.register(say_if_unused, os.getpid())


def say_if_unused(pid: int) -> None:
    """Say at the end of a script that succeeded that the option had no effect."""
    failed = hasattr(sys, "last_type")
    if not outcome["compressed"] and not failed and os.getpid() == pid:
        warn_once("unused", "nothing was compressed: %s" % outcome["why"])


def wrap_ddp_module(module: "ModuleType") -> None:
    """Patch DDP's constructor. Importing torch imports this module: look up the rest later."""
    try:
        wrap_class(module.DistributedDataParallel)
    except AttributeError as e:
        say_once("not used, as this torch is not known: %s" % e)


def wrap_class(ddp: "Any") -> None:
    """Wrap DDP's constructor and both ways to register a hook, so that a user's hook wins."""
    init, register = ddp.__init__, ddp.register_comm_hook
    builtin = ddp._register_builtin_comm_hook

    def __init__(self: "Model", *args: "Any", **kwargs: "Any") -> None:
        init(self, *args, **kwargs)
        try:
            compress_gradients(self)
        except Exception as e:
            say_once(
                "not used, as this torch is not known: %s: %s" % (type(e).__name__, first_line(e))
            )

    def register_comm_hook(self: "Model", state: object, hook: "Callable[..., Any]") -> None:
        own_hook = registered.get(self)
        if own_hook is None or own_hook.gave_way:
            register(self, state, hook)
            return
        self._check_comm_hook(hook)
        if hasattr(self, "_comm_hooks"):
            self._comm_hooks.append((hook, state))
        own_hook.give_way(hook)
        own_hook.instead = (hook, state)

    def _register_builtin_comm_hook(self: "Model", kind: object) -> None:
        own_hook = registered.get(self)
        if own_hook is None or own_hook.gave_way:
            builtin(self, kind)
            return
        own_hook.give_way(kind)
        own_hook.dtype = sys.modules["torch"].float16 if "FP16" in str(kind) else None

    for wrapper, original in (
        (__init__, init),
        (register_comm_hook, register),
        (_register_builtin_comm_hook, builtin),
    ):
        setattr(ddp, original.__name__, functools.wraps(original)(wrapper))


def compress_gradients(ddp: "Model") -> None:
    """Register the compressing hook for a DDP model, or say why it is not used."""
    import torch  # type: ignore
    import torch.distributed as dist  # type: ignore

    group = ddp.process_group
    if group.size() < 2:
        outcome["why"] = "the model's group has one rank"
        return
    outcome["why"] = "the model exchanged no float32 gradients"
    dtype = getattr(torch, NAMES[os.environ["IPEXCTL_COMPRESS"]])
    why = why_not(ddp, dtype, group)
    if why:
        outcome["why"] = why
        say_once("not used, as %s" % why)
        return
    hook = Hook(ddp, dtype, group)
    dist._register_comm_hook(ddp.reducer, hook, reduce_compressed_bucket)
    registered[ddp] = hook


def why_not(ddp: "Model", dtype: "Any", group: "Group") -> str:
    """Return why the dtype cannot be used, the same on every rank: old gloo has no sum of bf16."""
    import torch
    import torch.distributed as dist

    if getattr(ddp, "_comm_hooks", None):  # the module's own hook, for mixed precision
        return describe_user_hook(ddp._comm_hooks[0][0])
    if getattr(ddp, "_use_python_reducer", False):
        return "torch.compile's python_reducer exchanges the gradients"
    device = next(parameter.device for parameter in ddp.parameters() if parameter.requires_grad)
    try:
        probe = torch.ones(1, dtype=dtype, device=device)
        total = float(result_of(sum_of(probe, group).wait()))
        why = "" if total == group.size() else "1 from each rank became %s" % total
    except Exception as e:
        why = "%s: %s" % (type(e).__name__, first_line(e))
    return why and "%s cannot sum it: %s" % (dist.get_backend(group), why)


class Hook(object):
    """The state of the hook of one model."""

    def __init__(self, ddp: "Model", dtype: "Any", group: "Group") -> None:
        # weak, as its reducer references this object
        self.ddp = weakref.ref(ddp)  # type: Callable[[], Model]
        self.dtype = dtype
        self.group = group
        self.gave_way = False  # whether a hook of the script replaced this one
        # that hook, and its state
        self.instead = None  # type: tuple[Callable[..., Any], object] | None
        self.step = 1
        self.counts = []  # type: Counts  # of this step
        self.loses = False  # whether too many were lost in the last counted step
        self.overflowed = False  # whether a gradient of this rank overflowed

    def give_way(self, hook: object) -> None:
        self.gave_way = True
        outcome["why"] = describe_user_hook(hook)
        say_once("not used, as %s" % describe_user_hook(hook))

    def current_group(self) -> "Group":
        """Return DDP's group, which can change."""
        return getattr(self.ddp(), "process_group", None) or self.group


def reduce_compressed_bucket(own_hook: "Hook", bucket: "Any") -> "Any":
    """Divide before the sum, as DDP does, so that it fits into fp16."""
    import torch

    if own_hook.instead:
        hook, state = own_hook.instead
        return hook(state, bucket)
    dtype, group, wide = own_hook.dtype, own_hook.current_group(), bucket.buffer()
    if getattr(own_hook.ddp(), "_divide_by_initial_world_size", True) is False:
        say_once("join(divide_by_initial_world_size=False) is ignored: the mean is over all ranks")
    wide.div_(group.size())
    half = None
    if dtype is not None and wide.dtype == torch.float32 and not wide.is_sparse:
        outcome["compressed"] = True
        half = wide.to(dtype)  # `wide` stays this rank's part, for look_for_overflow
        if dtype == torch.float16 and is_first():
            look_for_zeros(own_hook, bucket, wide, half)
    if dtype is not None:
        kind = "sparse" if wide.is_sparse else dtype_name(wide)
        say_once(
            "%s gradients are sent %s"
            % (kind, "uncompressed" if half is None else "as %s" % dtype_name(half))
        )

    def received(future: "Any") -> "Tensor":
        total = result_of(future.value())
        if half is None:
            return total
        if half.dtype == torch.float16:
            look_for_overflow(own_hook, wide, total, group)
        wide.copy_(total)
        return wide

    return sum_of(wide if half is None else half, group).then(received)


def sum_of(tensor: "Tensor", group: "Group") -> "Any":
    import torch.distributed as dist

    return dist.all_reduce(tensor, group=group, async_op=True).get_future()


def result_of(value: "Any") -> "Any":
    return value[0] if isinstance(value, (list, tuple)) else value


def look_for_zeros(hook: "Hook", bucket: "Any", wide: "Tensor", half: "Tensor") -> None:
    """Count the gradients that only fp16 rounds to 0, in steps 1, 2, 4 and so on to EVERY, then
    every EVERY steps. Those of biases do not count: they may be nothing but rounding errors."""
    if hook.step % EVERY == 0 or EVERY % hook.step == 0:
        parameters = bucket.parameters()
        sizes = [parameter.numel() for parameter in parameters]
        hook.counts += map(count_lost_values, parameters, wide.split(sizes), half.split(sizes))
    if bucket.is_last():
        hook.step += 1
        if hook.counts:
            share, hook.counts = lost_share(hook.counts, hook.ddp()), []
            if share and hook.loses:  # a single odd step does not count
                text = "gradients too small for fp16 became 0: %s; use --compress bf16"
                warn_once("zeros", text % share)
            hook.loses = bool(share)


def count_lost_values(
    parameter: "Tensor", before: "Tensor", after: "Tensor"
) -> "tuple[Tensor, int, int]":
    from torch import count_nonzero

    nonzero = int(count_nonzero(before))
    return parameter, nonzero, nonzero - int(count_nonzero(after))


def lost_share(counts: "Counts", ddp: "Model") -> str:
    """Describe which share of which gradients was lost; "" if few were. `counts`: of a step."""
    in_all = float(sum(lost for _, _, lost in counts)) / (sum(n for _, n, _ in counts) or 1)
    if in_all >= LOST:
        return "%.3g %% of all" % (100 * in_all)
    shares = [(float(lost) / n, weight) for weight, n, lost in counts if n and weight.dim() > 1]
    shares = [pair for pair in shares if pair[0] >= LOST]
    if not shares:
        return ""
    share, worst = max(shares, key=lambda pair: pair[0])
    names = (name for name, weight in ddp.module.named_parameters() if weight is worst)
    count = len(shares) - 1
    suffix = " and %d %% or more of %d other weight%s" % (100 * LOST, count, "s" * (count > 1))
    return "%.3g %% of %s%s" % (100 * share, next(names, "a weight"), suffix if count else "")


def look_for_overflow(hook: "Hook", mine: "Tensor", total: "Tensor", group: "Group") -> None:
    """Detect an overflow. `mine`: this rank's part of the mean; `total`: the sum, in fp16."""
    if math.isfinite(float(total.max())) and math.isfinite(float(total.min())):
        return  # both are nan if a value is nan
    if hook.overflowed and not all(bool(p.isfinite().all()) for p in hook.ddp().parameters()):
        warn_once(
            "nan",
            "the overflow has made parameters NaN or infinite, and training cannot recover; "
            "start again, or from a checkpoint before it, with --compress bf16",
        )
    size = mine.abs()
    overflows = (size > LARGEST / group.size()) & (size < math.inf) & ~total.float().isfinite()
    if bool(overflows.any()):
        hook.overflowed = True
        largest = float(size[overflows].max()) * group.size()
        warn_once(
            "overflow",
            "a gradient of %.3g is too large for fp16 and became infinite on every rank; "
            "use --compress bf16" % largest,
        )


# --- what the user reads -------------------------------------------------------------------------


def is_first() -> bool:
    return os.environ.get("RANK", "0") == "0"


def say_once(text: str) -> None:
    """Print a message once, on rank 0 only."""
    if is_first():
        write_once(text, "ipexctl: --compress %s: %s\n", text)


def warn_once(kind: str, text: str) -> None:
    """Print a warning once per kind, on the rank that notices; the run's summary repeats it."""
    write_once(kind, "ipexctl: warning: --compress %s: %s\n", text)


def write_once(key: str, line: str, text: str) -> None:
    if key not in said:
        said.add(key)
        sys.stderr.write(line % (os.environ["IPEXCTL_COMPRESS"], text))
        sys.stderr.flush()


def describe_user_hook(hook: object) -> str:
    name = getattr(hook, "__qualname__", None) or str(hook)
    return "the model has a communication hook of its own: %s" % name


def dtype_name(tensor: "Tensor") -> str:
    return str(tensor.dtype).rpartition(".")[2]


def first_line(error: "BaseException") -> str:
    return (str(error).splitlines() or [""])[0]
