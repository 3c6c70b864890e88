import torch
from torch.cpu.amp import autocast
from transformers import BertConfig, BertModel

import intel_extension_for_pytorch as ipex

model = BertModel(BertConfig()).eval()
data = torch.randint(30000, size=[1, 512])
model = ipex.optimize(model, dtype=torch.bfloat16)
with torch.no_grad(), torch.cpu.amp.autocast():
    model(data)
with torch.no_grad():
    with torch.cpu.amp.autocast(enabled=True, dtype=torch.bfloat16):
        model(data)
    with torch.cpu.amp.autocast(True):
        model(data)
    with autocast():
        model(data)
