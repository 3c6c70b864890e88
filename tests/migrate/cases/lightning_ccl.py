import lightning as L
from lightning.pytorch.strategies import DDPStrategy

trainer = L.Trainer(
    accelerator="cpu",
    strategy=DDPStrategy(process_group_backend="ccl"),
    num_nodes=2,
)
