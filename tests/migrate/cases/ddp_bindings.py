import argparse

import torch
import torch.distributed as dist
import oneccl_bindings_for_pytorch  # noqa: F401  registers the backend

parser = argparse.ArgumentParser()
parser.add_argument("--dist-backend", default="ccl", choices=["gloo", "mpi"])
parser.add_argument("--loss", default="ccl")
args = parser.parse_args()
BACKEND = 'ccl'


def main():
    dist.init_process_group(backend=BACKEND, init_method="env://")
    group = dist.new_group([0, 1], backend="ccl")
    dist.all_reduce(torch.ones(1), group=group)


if __name__ == "__main__":
    main()
