"""Lightning's Trainer: so many devices on so many nodes, as its guide says."""

import argparse

import lightning as L
import torch
from report import report

parser = argparse.ArgumentParser()
parser.add_argument("--devices", type=int, default=2)
parser.add_argument("--nodes", type=int, default=4)
args = parser.parse_args()


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(64, 10)

    def training_step(self, batch, _):
        loss = torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


data = torch.utils.data.TensorDataset(torch.randn(512, 64), torch.randint(0, 10, (512,)))
trainer = L.Trainer(
    accelerator="cpu", devices=args.devices, num_nodes=args.nodes, strategy="ddp", max_steps=6,
    logger=False, enable_checkpointing=False,
)  # fmt: skip
model = Classifier()
trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=16))
report(trainer.world_size, model.parameters())
