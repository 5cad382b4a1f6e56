#!/usr/bin/env python3
"""Trains a small classifier with a loop for Accelerate and ZeRO stage 3.

    zero launch -n 2 -- python3 examples/python/accelerate_loop.py
    torchrun --standalone --nproc-per-node 2 examples/python/accelerate_loop.py

Two lines differ from a script for Accelerate: the import, and zero=... . The data are points in 16 dimensions; the
class of a point is its nearest centre. Needs the packages torch and accelerate.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn

from zerocpp.accelerate import Accelerator  # instead of: from accelerate import Accelerator

CLASSES, WIDTH = 8, 16


def points(number: int, seed: int) -> torch.utils.data.TensorDataset:
    centres = torch.randn(CLASSES, WIDTH, generator=torch.Generator().manual_seed(0))
    x = torch.randn(number, WIDTH, generator=torch.Generator().manual_seed(seed))
    return torch.utils.data.TensorDataset(x, torch.cdist(x, centres).argmin(1))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", default=4, type=int, help="number of passes over the data")
    parser.add_argument("--stage", default=3, type=int, help="ZeRO stage")
    given = parser.parse_args()

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2, zero={"stage": given.stage, "clip": 1.0})
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(WIDTH, 128), nn.GELU(), nn.Linear(128, 128), nn.GELU(), nn.Linear(128, CLASSES))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.999)
    loader = torch.utils.data.DataLoader(points(1024, 1), batch_size=16, shuffle=True)
    held_out = torch.utils.data.DataLoader(points(256, 2), batch_size=16)
    model, optimizer, loader, held_out, schedule = accelerator.prepare(model, optimizer, loader, held_out, schedule)

    for epoch in range(given.epochs):
        model.train()
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(x), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
        model.eval()
        right = total = 0
        for x, y in held_out:
            with torch.no_grad():
                found, wanted = accelerator.gather_for_metrics((model(x).argmax(-1), y))
            right, total = right + int((found == wanted).sum()), total + len(wanted)
        accelerator.print(
            f"epoch {epoch + 1}: loss {accelerator.reduce(loss.detach(), 'mean'):.4f}, {right} of {total}"
        )
    accelerator.end_training()  # closes the engine: the model is whole again


if __name__ == "__main__":
    main()
