"""PartialState for the group, the loop by hand."""

import argparse

import torch
from accelerate import PartialState
from report import report

parser = argparse.ArgumentParser()
parser.add_argument("--cpu", action="store_true")
state = PartialState(cpu=True) if parser.parse_args().cpu else PartialState()
torch.manual_seed(state.process_index)
model = torch.nn.Linear(64, 10)
wrapped = model
if state.num_processes > 1:
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = wrapped(torch.randn(32, 64)).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    state.print(f"step {step} loss {loss.item():.4f}")
report(state.num_processes, model.parameters())
if state.num_processes > 1:
    state.destroy_process_group()
