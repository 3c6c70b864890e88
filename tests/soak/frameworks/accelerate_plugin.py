"""The same loop with a plugin of Accelerate: DeepSpeed or FSDP."""

import argparse

import torch
from accelerate import Accelerator
from report import report
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--plugin", choices=["deepspeed", "fsdp"])
args = parser.parse_args()

if args.plugin == "deepspeed":
    from accelerate import DeepSpeedPlugin

    accelerator = Accelerator(deepspeed_plugin=DeepSpeedPlugin(zero_stage=1))
else:
    from accelerate.utils import FullyShardedDataParallelPlugin

    accelerator = Accelerator(fsdp_plugin=FullyShardedDataParallelPlugin(fsdp_version=2))
torch.manual_seed(int(accelerator.process_index))
x, y = load_digits(return_X_y=True)
data = TensorDataset(torch.tensor(x, dtype=torch.float32) / 16, torch.tensor(y))
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
loader = DataLoader(data, batch_size=32, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for step, (inputs, labels) in zip(range(6), loader, strict=False):
    loss = torch.nn.functional.cross_entropy(model(inputs), labels)
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    accelerator.print(f"step {step} loss {loss.item():.4f}")
accelerator.wait_for_everyone()
report(accelerator.num_processes, accelerator.unwrap_model(model).parameters())
accelerator.end_training()
