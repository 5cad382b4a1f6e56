"""A rank of torch.distributed.pipelining that trains the GPT of known_gpt.py in two stages, over Gloo.

    peer_pipeline_rank.py '{"order": "1f1b", "micro_batches": 4, "steps": 21, "samples": 12, "folder": "...", ...}'

RANK is the rank's number; stages meet at the first of the addresses. The second stage has a copy of the token embedding
as its head. Both add their gradients after the passes, as libraries with copies of tied weights do. The norm of all
gradients is clipped, each once. The first rank writes the report: {"times": [seconds of each step], "evals": [],
"losses": [loss of each step]}.
"""

import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # this file is started as a program

from peers.known_gpt import CONTEXT, adamw_of, first_weights, load, lr_of, make_gpt, windows_of  # noqa: E402
from peers.peer_step_rank import keep_heap  # noqa: E402


def stage_of(model, rank):
    """The half of the model that a rank computes. The second has the head's copy as `tokens`."""
    import torch
    from torch import nn

    half = len(model.blocks) // 2

    class First(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places, self.blocks = model.tokens, model.places, model.blocks[:half]

        def forward(self, x):
            return self.blocks(self.tokens(x) + self.places(torch.arange(x.size(1))))

    class Second(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.blocks, self.norm = model.tokens, model.blocks[half:], model.norm

        def forward(self, x):
            return self.norm(self.blocks(x)) @ self.tokens.weight.T

    return First() if rank == 0 else Second()


def clip(stage, rank, most):
    """Clips the norm over both stages; the tied matrix counts once."""
    import torch
    import torch.distributed as dist

    own = [p.grad for name, p in stage.named_parameters() if rank == 0 or name != "tokens.weight"]
    squares = torch.stack([g.square().sum() for g in own]).sum()
    dist.all_reduce(squares)
    scale = min(1.0, most / (squares.sqrt().item() + 1e-6))
    for p in stage.parameters():
        p.grad.mul_(scale)


def main(order, micro_batches, steps, samples, folder, report, addresses, **_):
    keep_heap()
    import torch
    import torch.distributed as dist
    from torch.distributed import pipelining

    torch.set_num_threads(1)
    rank, folder = int(os.environ["RANK"]), Path(folder)
    dist.init_process_group("gloo", init_method=f"tcp://{addresses[0]}:29600", rank=rank, world_size=2)
    model = make_gpt()
    load(model, first_weights(folder))
    stage = stage_of(model, rank)
    optimizer = adamw_of(stage)
    text = torch.frombuffer(bytearray((folder / "train.txt").read_bytes()), dtype=torch.uint8).long()

    def loss_of(logits, targets):
        return torch.nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1))

    kinds = {"gpipe": pipelining.ScheduleGPipe, "1f1b": pipelining.Schedule1F1B}
    schedule = kinds[order](
        pipelining.PipelineStage(stage, rank, 2, torch.device("cpu")), micro_batches, loss_fn=loss_of
    )
    times, means = [], []
    begin = time.perf_counter()
    for step in range(1, steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = lr_of(step - 1, 0)
        rows = torch.stack([text[at : at + CONTEXT + 1] for at in windows_of(step - 1, 0, 1, samples, len(text))])
        losses = []
        if rank == 0:
            schedule.step(rows[:, :-1].contiguous())
        else:
            schedule.step(target=rows[:, 1:].contiguous(), losses=losses)
        dist.all_reduce(stage.tokens.weight.grad)
        clip(stage, rank, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        end = time.perf_counter()
        times.append(end - begin)
        means.append(sum(loss.item() for loss in losses) / micro_batches if losses else 0.0)
        begin = end
    means = torch.tensor(means)
    dist.all_reduce(means)
    if rank == 0:
        Path(report).write_text(json.dumps({"times": times, "evals": [], "losses": means.tolist()}))
    dist.barrier()
    time.sleep(0.3)  # until both have left it
    os._exit(0)  # gloo's threads abort some processes that destroy their groups


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
