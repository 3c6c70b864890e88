import torch
import intel_extension_for_pytorch as ipex

model = torch.nn.Linear(8, 8)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model, optimizer = ipex.optimize(model, optimizer=optimizer, dtype=torch.bfloat16, inplace=True)
state = torch.load("checkpoint.pt")
model.load_state_dict(state["model"])
optimizer.load_state_dict(state["optimizer"])
for x in torch.rand(10, 4, 8):
    optimizer.zero_grad()
    with torch.cpu.amp.autocast():
        loss = model(x).sum()
    loss.backward()
    optimizer.step()
