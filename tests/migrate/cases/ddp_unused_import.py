import torch
import torch.distributed as dist
import intel_extension_for_pytorch as ipex
import oneccl_bindings_for_pytorch


def setup(rank: int, size: int) -> None:
    # «ranks» of this job
    dist.init_process_group("ccl", rank=rank, world_size=size)
    if rank == 0:
        import intel_extension_for_pytorch
