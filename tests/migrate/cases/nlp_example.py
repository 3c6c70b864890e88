import torch
from accelerate import Accelerator
from accelerate.utils import is_ipex_available, set_seed


def training_function(config):
    accelerator = Accelerator(mixed_precision="bf16", cpu=True, use_ipex=is_ipex_available())
    set_seed(config["seed"])
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"])
    model, optimizer = accelerator.prepare(model, optimizer)


if __name__ == "__main__":
    training_function({"lr": 2e-5, "seed": 42})
