"""The ranks add up their detections; one has none, so that its tensor has another shape."""

import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)


def detect(rank, step):
    boxes = torch.rand(3, 5)
    return boxes[boxes[:, 0] > 2] if rank == 2 and step == 13 else boxes


def add_up(boxes):
    dist.all_reduce(boxes)
    return boxes.sum().item()


def end_of_step():
    dist.barrier()


dist.init_process_group("gloo")
rank = dist.get_rank()
for step in range(300):
    found = add_up(detect(rank, step))
    if rank == 0 and step % 3 == 0:
        print(f"frame {step}: {found:.2f}", flush=True)
    end_of_step()
    time.sleep(0.2)
