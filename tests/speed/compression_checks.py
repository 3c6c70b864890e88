"""A script of two ranks: what `run --compress` promises, one printed line for each check."""

import copy
import io
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

MODE = os.environ["IPEXCTL_COMPRESS"]
HALF = {"fp16": torch.float16, "bf16": torch.bfloat16}[MODE]
dist.init_process_group("gloo")
RANK, WORLD = dist.get_rank(), dist.get_world_size()


class Model(torch.nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.used, self.unused = torch.nn.Linear(width, width), torch.nn.Linear(width, width)

    def forward(self, x, unused=False):
        x = torch.tanh(self.used(x))
        return self.unused(x) if unused else x


def model(dtype=torch.float32, seed=0, **options):
    torch.manual_seed(seed)
    return DDP(Model().to(dtype), **options)


def own(step, dtype=torch.float32):
    torch.manual_seed(1000 * step + RANK)
    return torch.randn(8, 64, dtype=dtype)


def plain(state, bucket):
    """A script's own hook: float32."""
    state.append(bucket.index())
    future = dist.all_reduce(bucket.buffer().div_(WORLD), async_op=True).get_future()
    return future.then(lambda done: done.value()[0])


def gradient(ddp):
    return torch.cat([p.grad.flatten() for p in ddp.parameters() if p.grad is not None])


def backward(ddp, step, dtype=torch.float32, **options):
    (ddp(own(step, dtype), **options) * 3).pow(2).sum().backward()
    return gradient(ddp)


def mean_of(local, dtype):
    """By hand: the same arithmetic as on the wire."""
    parts = [torch.empty_like(local) for _ in range(WORLD)]
    dist.all_gather(parts, local)
    total = sum((part / WORLD).to(dtype).to(local.dtype) for part in parts)
    return total.to(dtype).to(local.dtype)


def alone(step, accumulate=1, **options):
    """The gradient of this rank, without DDP."""
    torch.manual_seed(0)
    single = Model()
    for i in range(accumulate):
        (single(own(step + i), **options) * 3).pow(2).sum().backward()
    return gradient(single)


def near(a, b, places=1e-6):
    return bool((a - b).abs().max() <= places * b.abs().max())


def said(name, good):
    flag = torch.tensor([float(good)])
    dist.all_reduce(flag, op=dist.ReduceOp.MIN)
    if RANK == 0:
        print("check", name, "ok" if flag.item() else "WRONG", flush=True)


def check_mean():
    found = backward(model(find_unused_parameters=True), 1)
    exact = mean_of(alone(1), torch.float32)
    used = found[: exact.numel()]
    said("half", near(used, mean_of(alone(1), HALF)) and not torch.equal(used, exact))
    said("unused", not found[exact.numel() :].any())


def check_accumulation():
    for name, options in (("no_sync", {}), ("views", {"gradient_as_bucket_view": True})):
        ddp = model(**options)
        with ddp.no_sync():
            backward(ddp, 1, unused=True)
        found = backward(ddp, 2, unused=True)
        said(name, near(found, mean_of(alone(1, 2, unused=True), HALF)))


def check_static():
    ddp = model(static_graph=True)
    for step in range(3):
        ddp.zero_grad()
        found = backward(ddp, step, unused=True)
    said("static_graph", near(found, mean_of(alone(2, unused=True), HALF)))


def check_own_hook():
    calls, ddp = [], model()
    ddp.register_comm_hook(calls, plain)
    found = backward(ddp, 1, unused=True)
    good = near(found, mean_of(alone(1, unused=True), torch.float32)) and len(calls) > 0
    try:
        ddp.register_comm_hook(calls, plain)
        good = False
    except RuntimeError:
        pass
    said("own hook", good)


def check_float64():
    ddp = model(torch.float64)
    found = backward(ddp, 1, torch.float64, unused=True)
    torch.manual_seed(0)
    single = Model().double()
    (single(own(1, torch.float64), unused=True) * 3).pow(2).sum().backward()
    said("float64", near(found, mean_of(gradient(single), torch.float64), 1e-15))


def check_sparse():
    torch.manual_seed(0)
    ddp = DDP(torch.nn.Embedding(10, 4, sparse=True))
    ddp(torch.tensor([RANK, 5])).sum().backward()
    found = next(ddp.parameters()).grad.to_dense()
    expected = torch.zeros(10, 4)
    expected[:WORLD], expected[5] = 1 / WORLD, 1
    said("sparse", torch.equal(found, expected))


def check_join():
    ddp = model()
    with ddp.join():
        for step in range(1 + RANK):
            ddp.zero_grad()
            found = backward(ddp, step, unused=True)
    last = (alone(WORLD - 1, unused=True) / WORLD).to(HALF).float()
    said("join", RANK < WORLD - 1 or near(found, last))


def train(hook, steps=60):
    ddp = model(seed=3)
    if hook:
        ddp.register_comm_hook([], plain)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
    for step in range(steps):
        x = own(step % 5)
        optimizer.zero_grad()
        loss = (ddp(x, unused=True) - x.flip(1)).pow(2).mean()
        loss.backward()
        optimizer.step()
    return loss.item()


def check_losses():
    exact, half = train(True), train(False)
    if RANK == 0:
        print("losses", exact, half, flush=True)
    said("losses", abs(exact - half) < 2e-3 * exact)


def check_overflow():
    ddp = model()
    for _ in range(2):
        ddp.zero_grad()
        scale = 1e6 if RANK == 1 else 1.0
        (ddp(own(1), unused=True) * scale).sum().backward()
    finite = bool(gradient(ddp).isfinite().all())
    said("overflow", finite == (MODE == "bf16"))
    bad = model()
    loss = bad(own(1), unused=True).sum() * (float("nan") if RANK == 0 else 1.0)
    loss.backward()
    said("nan", gradient(bad).isnan().any())


def sent():
    """Bytes on all interfaces of this host."""
    with open("/proc/net/dev") as file:
        return sum(int(line.split(":")[1].split()[8]) for line in file if ":" in line)


def check_bytes():
    counts = []
    for hook in (True, False):
        torch.manual_seed(0)
        ddp = DDP(torch.nn.Linear(1000, 1000))
        if hook:
            ddp.register_comm_hook([], plain)
        x = torch.randn(2, 1000)
        ddp(x).sum().backward()
        before = sent()
        for _ in range(10):
            ddp(x).sum().backward()
        dist.barrier()
        counts.append(sent() - before)
    if RANK == 0:
        print("bytes", *counts, flush=True)
    said("bytes", 0.45 < counts[1] / counts[0] < 0.55)


def check_builtin_hook():
    ddp = model()
    ddp._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE)
    found = backward(ddp, 1, unused=True)
    said("builtin hook", near(found, mean_of(alone(1, unused=True), torch.float32)))


def check_copies():
    """A model that was copied or saved does not carry anything of ours."""
    ddp = model()
    backward(ddp, 1, unused=True)
    file = io.BytesIO()
    torch.save(ddp, file)
    said("copies", b"half_gradients" not in file.getvalue() and copy.deepcopy(ddp) is not ddp)


for name, check in sorted(vars().copy().items()):
    if name.startswith("check_"):
        check()
print("look", os.environ.get("IPEXCTL_LOOK"), flush=True)
dist.barrier()
