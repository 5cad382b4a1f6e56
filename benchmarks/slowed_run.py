"""A run of several ranks, one of which is slowed down, and DDP's side of it.

    run([zero, "train", "-n", "2", ...], rank=1, factor=4)    # rank 1 is stopped (SIGSTOP) for 3/4 of each 10 ms
    ddp_report(args, 4, folder)                               # {"seconds": [of each step], "evals": [[seconds, loss], ...]}

The model is a GPT of SHAPE over the bytes of examples/shakespeare/input.txt, of which the last tenth is for validation.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from training_run import ROOT

PERIOD = 0.01  # seconds, of which a rank that is slowed down runs 1/k
SHAPE = {"layers": 4, "width": 128, "heads": 4, "context": 64}
ADAMW = {"lr": 1e-3, "betas": (0.9, 0.99), "weight_decay": 0.1}
WARM_UP = 30  # steps in which the learning rate grows to its value


def has_torch(python):
    return subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0


def descendants(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for child in task.read_text().split():
                found += [int(child), *descendants(int(child))]
        except OSError:
            pass
    return found


def pid_of_rank(launcher, rank):
    """The newest process below the launcher whose environment has this rank; None while there is none."""
    for pid in reversed(descendants(launcher)):
        try:
            if f"RANK={rank}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                return pid
        except OSError:
            pass
    return None


def slow_down(launcher, rank, factor, period, over):
    pid = None
    while not over.is_set():
        pid = pid or pid_of_rank(launcher.pid, rank)
        if pid is None:
            time.sleep(period)
            continue
        try:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(period * (factor - 1) / factor)
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            return
        time.sleep(period / factor)


def end_when(launcher, is_enough, over):
    while not over.wait(0.5):
        if is_enough():
            launcher.send_signal(signal.SIGTERM)
            return


def run(command, rank, factor, environment=None, is_enough=None, period=PERIOD, beside=None):
    """Runs `command`, and beside(launcher, over) in a thread; a SIGTERM ends it as soon as is_enough(). Exits with what it said
    where it fails."""
    launcher = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    over = threading.Event()
    threads = [threading.Thread(target=slow_down, args=(launcher, rank, factor, period, over))] if factor > 1 else []
    if is_enough:
        threads.append(threading.Thread(target=end_when, args=(launcher, is_enough, over)))
    if beside:
        threads.append(threading.Thread(target=beside, args=(launcher, over)))
    for thread in threads:
        thread.start()
    said = launcher.communicate()[1]
    over.set()
    for thread in threads:
        thread.join()
    was_enough = is_enough and is_enough()
    if launcher.returncode != 0 and not was_enough:
        sys.exit(f"{' '.join(map(str, command))} ended with {launcher.returncode}:\n{said}")


def ddp_report(args, factor, folder, **asked):
    """args: python, ranks, steps, batch, and perhaps period. `asked`: eval_every, until_loss."""
    report = folder / "ddp.json"
    report.unlink(missing_ok=True)  # of a run before in the same folder
    shared = dict(steps=args.steps, batch=args.batch, report=str(report), eval_every=0, until_loss=0) | asked
    command = [args.python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(args.ranks), __file__, json.dumps(shared)]
    run(command, args.ranks - 1, factor, dict(os.environ, OMP_NUM_THREADS="1"), is_enough=report.exists,  # some abort as they exit
        period=getattr(args, "period", PERIOD))
    return json.loads(report.read_text())


def ddp_rank(steps, batch, report, eval_every, until_loss):
    import torch
    import torch.distributed as dist
    from torch import nn
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    width, context = SHAPE["width"], SHAPE["context"]
    text = torch.frombuffer(bytearray((ROOT / "examples/shakespeare/input.txt").read_bytes()), dtype=torch.uint8).long()
    for_training, for_validation = text[:len(text) * 9 // 10], text[len(text) * 9 // 10:]

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(256, width), nn.Embedding(context, width)
            self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(width, SHAPE["heads"], 4 * width, 0.0, "gelu", batch_first=True,
                                                                   norm_first=True) for _ in range(SHAPE["layers"]))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256, bias=False)
            self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(context))
            for embedding in (self.tokens, self.places):
                nn.init.normal_(embedding.weight, std=0.02)

        def forward(self, tokens):
            x = self.tokens(tokens) + self.places(torch.arange(context))
            for block in self.blocks:
                x = block(x, src_mask=self.mask, is_causal=True)
            return self.head(self.norm(x))

    def loss_of(data, begins):
        windows = torch.stack([data[b:b + context + 1] for b in begins])
        return nn.functional.cross_entropy(model(windows[:, :-1]).reshape(-1, 256), windows[:, 1:].reshape(-1))

    model = nn.parallel.DistributedDataParallel(Gpt())
    optimizer = torch.optim.AdamW(model.parameters(), fused=True, **ADAMW)
    draws = torch.Generator().manual_seed(dist.get_rank())
    seconds, evals = [], []
    for step in range(1, steps + 1):
        begin = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = ADAMW["lr"] * min(1, step / WARM_UP)
        loss_of(for_training, torch.randint(0, len(for_training) - context - 1, (batch,), generator=draws)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - begin)
        if eval_every and step % eval_every == 0:
            with torch.no_grad():
                loss = loss_of(for_validation, torch.arange(0, 64 * context, context))
            dist.broadcast(loss, 0)  # all ranks see the same, and end together
            evals.append([sum(seconds), loss.item()])
            if loss.item() <= until_loss:
                break
    if dist.get_rank() == 0:
        Path(report).write_text(json.dumps({"seconds": seconds, "evals": evals}))
    dist.destroy_process_group()


if __name__ == "__main__":
    ddp_rank(**json.loads(sys.argv[1]))
