"""DeepSpeed's engine with ZeRO-1, as its getting-started guide has it."""

import deepspeed
import torch
from report import report

model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
deepspeed.init_distributed("gloo")
torch.manual_seed(torch.distributed.get_rank())
engine, *_ = deepspeed.initialize(
    model=model,
    model_parameters=model.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 16,
        "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "torch_adam": True}},
        "zero_optimization": {"stage": 1},
        "zero_allow_untested_optimizer": True,
    },
)
for step in range(6):
    loss = engine(torch.randn(16, 64)).pow(2).mean()
    engine.backward(loss)
    engine.step()
    if torch.distributed.get_rank() == 0:
        print(f"step {step} loss {loss.item():.4f}")
report(torch.distributed.get_world_size(), engine.module.parameters())
torch.distributed.destroy_process_group()
