"""A group of two ranks: one waits for a thread of its own, so the other waits for it in the
group, and the rest wait for both in a barrier of all."""

import threading
import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)
arrived = threading.Condition()
predictions = []


def teacher(steps):
    for step in range(steps):
        with arrived:
            predictions.append(torch.full((4,), float(step)))
            arrived.notify_all()
        time.sleep(0.05)


def wait_for_teacher():
    with arrived:
        while not predictions:
            arrived.wait()
        return predictions.pop()


def distill(rank, pair):
    target = wait_for_teacher() if rank == 3 else torch.zeros(4)
    dist.all_reduce(target, group=pair)
    return target


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    pair = dist.new_group([2, 3])
    if rank == 3:
        threading.Thread(target=teacher, args=(13,), daemon=True).start()
    for step in range(100):
        if rank in (2, 3):
            distill(rank, pair)
        dist.barrier()
        if rank == 0 and step % 2 == 0:
            print("distillation step", step, flush=True)
        time.sleep(0.25)


main()
