import os

import torch
import torch.distributed as dist

try:
    import torch_ccl
except ImportError:
    torch_ccl = None

os.environ["RANK"] = os.environ.get("PMI_RANK", "0")
os.environ["WORLD_SIZE"] = os.environ.get("PMI_SIZE", "1")
os.environ.setdefault("CCL_WORKER_COUNT", "1")
os.environ['KMP_BLOCKTIME'] = '1'
backend = "ccl" if torch_ccl else "gloo"
dist.init_process_group(backend)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
