"""The script that the ranks of `ipexctl bench allreduce` run: all_reduce of growing sizes.

Its argument is a JSON object: backend, max_size (bytes), seconds, compute (seconds). Each rank
prints one line of JSON after MARK for each result; ipexctl/bench/allreduce_result.py reads them.
All ranks do the same steps: rank 0 takes decisions that depend on a clock.
"""

import json
import os
import sys
import time

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from types import ModuleType
    from typing import Any

MARK = "ipexctl-allreduce:"
SMALLEST, FACTOR = 4, 4  # bytes; the factor between two sizes
MOST_ITERATIONS = ((8 << 10, 1000), (1 << 20, 100), (1 << 62, 20))  # of sizes up to this one
LATENCY_BOUND = 64 << 10  # bytes; below it a larger tensor hardly takes longer
BRIEF = 0.02  # share of the time for each latency-bound size
WARM_UP = 10  # iterations; otherwise the first size would include the opening of connections
PRODUCT = 1024  # rows of the matrices by whose product a host's speed is measured
PART_OF_MEMORY = 8  # gloo needs buffers besides the tensor, and other programs need memory, too
BINDINGS = ("oneccl_bindings_for_pytorch", "torch_ccl")  # the second is older


def print_record(kind: str, **fields: "Any") -> None:
    fields["kind"] = kind
    print(MARK + json.dumps(fields), flush=True)


def load_backend(name: str) -> None:
    """Import the bindings, which adds the backend `ccl` to torch."""
    for module in BINDINGS if name == "ccl" else ():
        try:
            __import__(module)
            return
        except ImportError:
            continue
    if name == "ccl":
        print_record("error", slug="no-ccl", why="no oneCCL bindings in this environment")
        sys.exit(1)


# --- speed of the host while all hosts are busy ---------------------------------------------------


def measure_compute(torch: "ModuleType", distributed: "ModuleType", seconds: float) -> None:
    """Print the FLOP rate of matrix products on this rank while all ranks do the same."""
    left, right = torch.ones(PRODUCT, PRODUCT), torch.ones(PRODUCT, PRODUCT)
    torch.mm(left, right)
    distributed.barrier()
    start, turns, took = time.perf_counter(), 0, 0.0
    while took < seconds or not turns:
        torch.mm(left, right)
        turns += 1
        took = max(time.perf_counter() - start, 1e-6)
    gflops = 2e-9 * PRODUCT**3 * turns / took
    print_record("compute", gflops=gflops, threads=torch.get_num_threads())
    distributed.barrier()


def available_memory() -> int:
    """Return the bytes of memory that are available on this host."""
    try:
        with open("/proc/meminfo") as file:
            rows = (line.split() for line in file if line.startswith("MemAvailable:"))
            return next(int(row[1]) << 10 for row in rows)
    except (OSError, StopIteration, ValueError, IndexError):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


# --- all_reduce ----------------------------------------------------------------------------------


class Bench(object):
    def __init__(self, torch: "ModuleType", distributed: "ModuleType", seconds: float) -> None:
        self.torch, self.distributed = torch, distributed
        self.rank = distributed.get_rank()
        self.seconds, self.end = seconds, time.perf_counter() + seconds

    def check(self) -> None:
        """Exit unless the sum is right: a fast but wrong sum is worthless."""
        number = self.distributed.get_world_size()
        value = self.torch.full((4,), float(self.rank + 1))
        self.distributed.all_reduce(value)
        if value.tolist() != [number * (number + 1) / 2.0] * 4:
            print_record(
                "error", slug="wrong-sum", why="all_reduce of 1..%d gave %s" % (number, value[0])
            )
            sys.exit(1)

    def least(self, number: int) -> int:
        """Return the smallest of all ranks' numbers."""
        value = self.torch.tensor([number], dtype=self.torch.int64)
        self.distributed.all_reduce(value, op=self.distributed.ReduceOp.MIN)
        return int(value[0])

    def decided(self, number: int) -> int:
        """Return rank 0's number on every rank."""
        value = self.torch.tensor([number], dtype=self.torch.int64)
        self.distributed.broadcast(value, 0)
        return int(value[0])

    def timed(self, tensor: "Any") -> float:
        self.distributed.barrier()
        start = time.perf_counter()
        self.distributed.all_reduce(tensor)
        return time.perf_counter() - start

    def left(self) -> float:
        return max(0.0, self.end - time.perf_counter())

    def run(self, largest: int) -> None:
        """Measure growing sizes until memory or time runs out; print the sizes that are left."""
        memory = self.least(available_memory() // (PART_OF_MEMORY * local_ranks()))
        sizes = []  # type: list[int]
        while SMALLEST * FACTOR ** len(sizes) <= largest:
            sizes.append(SMALLEST * FACTOR ** len(sizes))
        self.warm_up()
        last_mean, why = 0.0, ""
        for place, size in enumerate(sizes):
            expected = last_mean * (FACTOR if size > LATENCY_BOUND else 1)
            if size > memory:
                why = "memory"
            elif not self.decided(int(expected <= self.left())):
                why = "time"
            if why:
                print_record("left", sizes=sizes[place:], why=why)
                return
            share = self.left() / (len(sizes) - place)
            brief = BRIEF * self.seconds if size <= LATENCY_BOUND else share
            last_mean = self.measure(size, min(share, brief))

    def warm_up(self) -> None:
        for _ in range(WARM_UP):
            self.timed(self.torch.zeros(1))

    def measure(self, size: int, share: float) -> float:
        """Return the mean seconds of an all_reduce on this rank. They run in batches, until this
        size's share of the time is used up. The first one does not count."""
        tensor = self.torch.zeros(size // 4).fill_(0)  # fill_ touches its pages
        most = next(count for limit, count in MOST_ITERATIONS if size <= limit)
        start = time.perf_counter()
        times = [self.timed(tensor)]
        while True:
            took = time.perf_counter() - start
            batch = int((share - took) / (took / len(times)) / 2)
            batch = self.decided(max(0, min(most + 1 - len(times), batch)))
            if not batch:
                break
            times += [self.timed(tensor) for _ in range(batch)]
        times = times[1:] or times
        mean = sum(times) / len(times)
        print_record("size", size=size, iterations=len(times), average=mean * 1e6)
        return mean


def local_ranks() -> int:
    try:
        return max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    except ValueError:
        return 1


def main() -> None:
    options = json.loads(sys.argv[1])
    import torch  # type: ignore
    import torch.distributed as distributed  # type: ignore

    load_backend(options["backend"])
    distributed.init_process_group(options["backend"])
    bench = Bench(torch, distributed, options["seconds"])
    bench.check()
    print_record("rank", torch=torch.__version__, backend=distributed.get_backend())
    measure_compute(torch, distributed, options["compute"])
    bench.run(options["max_size"])
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
