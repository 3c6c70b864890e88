"""The script that the ranks of `ipexctl bench models` run: models in several precisions.

Its argument is a JSON object: models, precisions, small, seconds. Each rank prints one line of JSON
after MARK for each result; ipexctl/bench/models_result.py reads them. There is one rank per host.
Rank 0 decides everything, and tells the others what to do next.
"""

import copy
import fcntl
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from contextlib import contextmanager
from datetime import timedelta

MARK = "ipexctl-models:"
SIZES = {
    "resnet50": {"batch": 32, "length": 224, "layers": 50, "memory": 6 << 30},
    "bert": {"batch": 8, "length": 128, "layers": 12, "memory": 5 << 30},
}
SMALL = {
    "resnet50": {"batch": 2, "length": 64, "layers": 50, "memory": 2 << 30},
    "bert": {"batch": 2, "length": 64, "layers": 2, "memory": 2 << 30},
}
WORKS = ("inference", "training")
PREPARING = 0.75  # share of a model's time, at most, in which it is built, checked and compiled
ROUNDS, ENOUGH, FEWEST = 15, 5, 3
TURN = 2.0  # seconds, at most, of one configuration in one round
CHECKED = 4  # samples, at least, of which the outputs are compared
END, MODEL, PREPARE, MEASURE = range(4)  # what rank 0 has the others do


class TimeUp(BaseException):
    """No `except Exception` in a compiler shall stop it."""


def say(kind, **fields):
    fields["kind"] = kind
    print(MARK + json.dumps(fields), flush=True)


@contextmanager
def limited(seconds):
    def end(number, frame):
        raise TimeUp()

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.01))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Config(object):
    """One row: what is measured, and, once it is prepared, the function that does one step."""

    def __init__(self, work, precision, engine="eager", hosts=1):
        self.work, self.precision, self.engine, self.hosts = work, precision, engine, hosts
        self.module = self.step = None
        self.seconds = 0.0  # of a step
        self.count = 1  # of steps in a round

    def row(self):
        return {
            "work": self.work,
            "precision": self.precision,
            "engine": self.engine,
            "hosts": self.hosts,
        }


def counts(world):
    """Numbers of hosts: 2, 4, 8 and so on, and all of them."""
    found, count = [], 2
    while count < world:
        found.append(count)
        count *= 2
    return found + [world] if world > 1 else []


def configurations(name, precisions, world):
    """The most important first, as time may not suffice for all."""
    floats = [p for p in precisions if p != "int8"]
    found = [Config(work, "fp32") for work in WORKS]
    found += [Config(work, p) for p in floats if p != "fp32" for work in WORKS]
    found += [Config("training", p, hosts=n) for n in reversed(counts(world)) for p in floats]
    if "int8" in precisions and name == "bert":
        found.append(Config("inference", "int8"))
    for engine in ("ipex", "compile"):
        found += [Config(work, p, engine) for work in WORKS for p in floats]
    return found


def missing(torch, config):
    """What a row needs and this host does not have: a slug, or ""."""
    from importlib.util import find_spec

    if config.engine == "ipex" and find_spec("intel_extension_for_pytorch") is None:
        return "no-ipex"
    if config.engine == "compile":
        if not hasattr(torch, "compile"):
            return "no-compile"
        if shutil.which(os.environ.get("CXX") or "g++") is None:
            return "no-compiler"
    if config.precision == "int8":
        engines = set(torch.backends.quantized.supported_engines) - {"none"}
        if not engines or find_spec("torch.ao.quantization") is None:
            return "no-int8"
    return ""


def first_line(error):
    text = str(error).strip().splitlines()
    return ("%s: %s" % (type(error).__name__, text[0] if text else ""))[:200]


class Model(object):
    """A network with its inputs, and the configurations that are measured of it on this rank."""

    def __init__(self, bench, name):
        import benchmark_networks as networks  # type: ignore

        torch, asked = bench.torch, bench.asked
        self.bench, self.torch, self.name, self.networks = bench, torch, name, networks
        self.size = (SMALL if asked["small"] else SIZES)[name]
        torch.manual_seed(1)  # the same on all hosts
        self.base, batch = networks.made(name, self.size)
        self.batches = [batch() for _ in range(max(1, CHECKED // self.size["batch"]))]
        self.optimizer = networks.optimizer_of(name, self.base.parameters())
        self.configs = configurations(name, asked["precisions"], bench.world)
        self.references = {}  # type: dict  # work -> what fp32 eager gives

    # --- building --------------------------------------------------------------------------------

    def build(self, config):
        torch, training = self.torch, config.work == "training"
        module, optimizer = self.base, self.optimizer
        if config.hosts > 1:
            module = copy.deepcopy(module)
            optimizer = self.networks.optimizer_of(self.name, module.parameters())
            ddp = torch.nn.parallel.DistributedDataParallel
            module = ddp(module, process_group=self.bench.groups[config.hosts])
        module.train(training)
        if config.precision == "int8":
            from torch.ao.quantization import quantize_dynamic  # type: ignore

            module = quantize_dynamic(module, {torch.nn.Linear}, dtype=torch.qint8)
        elif config.engine == "ipex":
            import intel_extension_for_pytorch as ipex  # type: ignore

            dtype = torch.bfloat16 if config.precision == "bf16" else torch.float32
            given = {"optimizer": optimizer} if training else {}
            module = ipex.optimize(module, dtype=dtype, inplace=False, **given)
            if training:
                module, optimizer = module
        config.module = module
        call = torch.compile(module) if config.engine == "compile" else module
        config.step = (
            self.training(call, config, optimizer) if training else self.inference(call, config)
        )

    def forward(self, call, config, inputs):
        bf16 = config.precision == "bf16"
        with self.torch.autocast("cpu", dtype=self.torch.bfloat16, enabled=bf16):
            return call(inputs)

    def inference(self, call, config):
        def step(batch):
            with self.torch.inference_mode():
                return self.forward(call, config, batch[0])

        return step

    def training(self, call, config, optimizer):
        loss_of = self.torch.nn.functional.cross_entropy

        def step(batch):
            optimizer.zero_grad()
            output = self.forward(call, config, batch[0])
            loss_of(output.float(), batch[1]).backward()
            optimizer.step()
            return output.detach()

        return step

    # --- what it computes, and how fast ----------------------------------------------------------

    def prepare(self, config):
        """Builds it, and compares what it computes with fp32 eager. Raises what torch raises."""
        self.build(config)
        batches = self.batches if config.work == "inference" else self.batches[:1]
        found = self.torch.cat([config.step(batch).float() for batch in batches])
        grads = self.gradients(config)
        reference = self.references.setdefault(config.work, (found, grads))
        error, same = self.compared(found, reference[0])
        if grads is not None and shapes(grads) == shapes(reference[1]):
            error = self.gradient_error(grads, reference[1])
        if self.bench.rank == 0:
            say("check", model=self.name, error=error, same=same, **config.row())
        began = time.perf_counter()
        config.step(self.batches[0])
        config.seconds = time.perf_counter() - began

    def gradients(self, config):
        if config.work == "inference":
            return None
        grads = [p.grad for p in config.module.parameters()]
        return grads if config.work in self.references else [g.clone() for g in grads]

    def compared(self, found, expected):
        """The relative error, and the share of equal decisions."""
        same = (found.argmax(1) == expected.argmax(1)).float().mean()
        return float((found - expected).norm() / expected.norm()), float(same)

    def gradient_error(self, found, expected):
        differences = map(lambda a, b: float((a.float() - b).norm()) ** 2, found, expected)
        return (sum(differences) / sum(float(b.norm()) ** 2 for b in expected)) ** 0.5

    def turn(self, config, count):
        import host_pressure  # type: ignore  # beside this script

        config.module.train(config.work == "training")
        if count >= FEWEST:
            config.step(self.batches[0])
        if config.hosts > 1:
            self.bench.distributed.barrier(group=self.bench.groups[config.hosts])
        pressure = host_pressure.Pressure()
        for _ in range(count):
            config.step(self.batches[0])
        samples = count * self.size["batch"] * config.hosts
        say("turn", model=self.name, samples=samples, **dict(config.row(), **pressure.found()))


def shapes(tensors):
    """IPEX keeps some gradients elsewhere: None."""
    return [None if tensor is None else tensor.shape for tensor in tensors]


class Bench(object):
    def __init__(self, torch, distributed, asked):
        self.torch, self.distributed, self.asked = torch, distributed, asked
        self.rank, self.world = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE"))
        self.end = time.perf_counter() + asked["seconds"]
        self.groups = {n: distributed.new_group(range(n)) for n in counts(self.world)}

    def shared(self, *numbers):
        """Rank 0's numbers, on all ranks."""
        if self.world == 1:
            return numbers
        values = self.torch.tensor(numbers or (0, 0, 0), dtype=self.torch.int64)
        self.distributed.broadcast(values, 0)
        return tuple(values.tolist())

    def follow(self):
        """What the other ranks do: what rank 0 says."""
        models = []  # type: list
        while True:
            work, place, count = self.shared()
            if work == END:
                return
            if work == MODEL:
                models[:] = [Model(self, self.asked["models"][place])]
                continue
            model = models[0]
            config = model.configs[place]
            if self.rank < config.hosts:
                model.prepare(config) if work == PREPARE else model.turn(config, count)

    def lead(self):
        models = self.asked["models"]
        for place, name in enumerate(models):
            now = time.perf_counter()
            self.measure(place, name, now, now + (self.end - now) / (len(models) - place))
        self.shared(END, 0, 0)

    def measure(self, place, name, began, end):
        import host_pressure

        need = (SMALL if self.asked["small"] else SIZES)[name]["memory"]
        need += need // 4 * len(self.groups)  # a copy for each number of hosts
        if host_pressure.available() < need:
            for config in configurations(name, self.asked["precisions"], self.world):
                say("left", model=name, why="memory", **config.row())
            return
        self.shared(MODEL, place, 0)
        model = Model(self, name)
        say("model", model=name, **{k: v for k, v in model.size.items() if k != "memory"})
        limit = began + PREPARING * (end - began)
        for number, config in enumerate(model.configs):
            measuring = ENOUGH * sum(one.seconds for one in model.configs)
            self.prepare(model, number, config, min(limit, end - measuring))
        self.rounds(model, self.chosen(model, end), end)

    def prepare(self, model, number, config, limit):
        why, text = missing(self.torch, config), ""
        if not why and time.perf_counter() + self.expected(model, config) > limit:
            why = "time"
        if not why:
            try:
                self.prepared(model, number, config, limit)
            except TimeUp:
                why = "time"
                stop_compilers()
            except Exception as e:
                why, text = "failed", first_line(e)
                if config.hosts > 1:
                    raise  # the others wait
        if why:
            say("left", model=model.name, why=why, text=text, **config.row())

    def prepared(self, model, number, config, limit):
        if config.hosts > 1:
            self.shared(PREPARE, number, 0)
            model.prepare(config)
            return
        with limited(limit - time.perf_counter()):
            model.prepare(config)

    def expected(self, model, config):
        """Seconds that it takes at least: a few steps, if they are like those of fp32."""
        likely = [c.seconds for c in model.configs[: len(WORKS)]]  # fp32 eager
        work = WORKS.index(config.work)
        if config in model.configs[: len(WORKS)]:
            return FEWEST * likely[0] * work
        return FEWEST * likely[work] or float("inf")  # nothing to compare with

    def chosen(self, model, end):
        """Those for which there is time to measure each at least FEWEST times."""
        found, cost = [], 0.0  # type: list, float
        for config in model.configs:
            if not config.seconds:
                continue
            cost += FEWEST * config.seconds
            if time.perf_counter() + cost > end and found:
                cost -= FEWEST * config.seconds
                say("left", model=model.name, why="time", **config.row())
            else:
                found.append(config)
        return found

    def rounds(self, model, chosen, end):
        """All configurations in turns, so that what disturbs a host for a while disturbs all."""
        share = (end - time.perf_counter()) / ROUNDS / max(1, len(chosen))
        for config in chosen:
            config.count = max(1, int(min(TURN, share) / config.seconds))
        longest = sum(config.count * config.seconds for config in chosen)
        for number in range(ROUNDS):
            began = time.perf_counter()
            if number and began + longest > end:
                return
            for config in chosen:
                if config.hosts > 1:
                    self.shared(MEASURE, model.configs.index(config), config.count)
                model.turn(config, config.count)
            longest = max(longest, time.perf_counter() - began)


@contextmanager
def compiled_files():
    """A folder for what torch compiles. If this rank is killed, nothing locks it any more, and its
    host removes it (ipexctl/remote/scratch_folder.py)."""
    folder = tempfile.mkdtemp(prefix="ipexctl-")
    try:
        with open(os.path.join(folder, "lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.environ["TMPDIR"] = tempfile.tempdir = folder
            yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def stop_compilers():
    """Processes that still compile what is not needed any more."""
    try:
        from torch._inductor.async_compile import shutdown_compile_workers  # type: ignore

        shutdown_compile_workers()
    except Exception:
        pass  # another torch has none, or has them elsewhere


def say_what_is_used(torch):
    """And oneDNN, which every CPU converts a tensor with, prints its instruction set on stdout."""
    try:
        with torch.backends.mkldnn.verbose(1):
            torch.ones(64, 64).to_mkldnn()
    except Exception:
        pass
    say("rank", torch=torch.__version__, threads=torch.get_num_threads())


def main(asked):
    import torch  # type: ignore
    import torch.distributed as distributed  # type: ignore

    say_what_is_used(torch)
    several = int(os.environ["WORLD_SIZE"]) > 1
    if several:
        distributed.init_process_group("gloo", timeout=timedelta(seconds=asked["seconds"] + 1800))
    bench = Bench(torch, distributed, asked)
    if bench.rank == 0:
        bench.lead()
    else:
        bench.follow()
    if several:
        distributed.barrier()
        distributed.destroy_process_group()


if __name__ == "__main__":
    with compiled_files():
        main(json.loads(sys.argv[1]))
