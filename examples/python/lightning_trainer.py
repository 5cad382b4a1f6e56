#!/usr/bin/env python3
"""Trains a small classifier with Lightning's Trainer and ZeRO stage 3.

    zero launch -n 2 -- python3 examples/python/lightning_trainer.py --ranks 2
    python3 examples/python/lightning_trainer.py --ranks 2            # Lightning starts the ranks

One argument differs from a script for another strategy: strategy=ZeroStrategy(...). The data are points in 16
dimensions; the class of a point is its nearest centre. Needs the packages torch and lightning.
"""

from __future__ import annotations

import argparse
from typing import Any

import lightning
import torch
from torch import nn

from zerocpp.lightning import ZeroStrategy

CLASSES, WIDTH = 8, 16


def points(number: int, seed: int) -> torch.utils.data.TensorDataset:
    centres = torch.randn(CLASSES, WIDTH, generator=torch.Generator().manual_seed(0))
    x = torch.randn(number, WIDTH, generator=torch.Generator().manual_seed(seed))
    return torch.utils.data.TensorDataset(x, torch.cdist(x, centres).argmin(1))


class Classifier(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(WIDTH, 128), nn.GELU(), nn.Linear(128, 128), nn.GELU(), nn.Linear(128, CLASSES)
        )

    def training_step(self, batch: Any, number: int) -> torch.Tensor:
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.log("loss", loss, sync_dist=True, on_epoch=True, on_step=False)
        return loss

    def validation_step(self, batch: Any, number: int) -> None:
        x, y = batch
        right = (self.net(x).argmax(-1) == y).float().mean()
        self.log("right", right, sync_dist=True)

    def on_train_epoch_end(self) -> None:
        found = self.trainer.callback_metrics
        self.print(f"epoch {self.current_epoch + 1}: loss {found['loss']:.4f}, {100 * found['right']:.1f} % right")

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=3e-3)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.999)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", default=1, type=int, help="number of processes")
    parser.add_argument("--epochs", default=4, type=int, help="number of passes over the data")
    parser.add_argument("--stage", default=3, type=int, help="ZeRO stage")
    given = parser.parse_args()

    torch.manual_seed(1)
    trainer = lightning.Trainer(
        strategy=ZeroStrategy(stage=given.stage),
        accelerator="cpu",
        devices=given.ranks,
        max_epochs=given.epochs,
        gradient_clip_val=1.0,
        accumulate_grad_batches=2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    loader = torch.utils.data.DataLoader(points(1024, 1), batch_size=16, shuffle=True)
    trainer.fit(Classifier(), loader, torch.utils.data.DataLoader(points(256, 2), batch_size=16))


if __name__ == "__main__":
    main()
