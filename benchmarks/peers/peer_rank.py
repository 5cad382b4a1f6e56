"""A rank of a peer that trains the GPT of known_gpt.py: DDP, DDP with its PowerSGD hook, or torchft's DiLoCo.

    peer_rank.py '{"system": "ddp", "ranks": 2, "steps": 21, "samples": 12, "folder": "...", "report": "peer.json"}'

RANK is the rank's number. Ranks meet at the addresses of their machines, or without addresses at torchrun's. The first
rank writes the report: {"times": [seconds of each step], "evals": [[seconds, loss, step], ...]}.
"""

import contextlib
import datetime
import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # this file is started as a program

from peers.known_gpt import CONTEXT, adamw_of, first_weights, load, lr_of, make_gpt, windows_of  # noqa: E402
from peers.peer_step_rank import keep_heap, over_ddp  # noqa: E402


def over_all_ranks(model, system, ranks, address):
    """The model whose gradients DDP averages over all ranks; with PowerSGD in one bucket, because its hook over gloo
    confuses two. A cap of its own would also replace DDP's first bucket of 1 MiB, whose sum begins early."""
    import torch
    import torch.distributed as dist

    meeting = (
        {"init_method": f"tcp://{address}:29600", "rank": int(os.environ["RANK"]), "world_size": ranks}
        if address
        else {}
    )
    dist.init_process_group("gloo", **meeting)
    model = over_ddp(model, **({"bucket_cap_mb": 100} if system == "powersgd" else {}))
    if system == "powersgd":
        from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

        model.register_comm_hook(
            powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=4, start_powerSGD_iter=2),
            powerSGD_hook.powerSGD_hook,
        )
    return model


def of_machine(model, own, size, address):
    """The model whose gradients DDP averages over the ranks of a machine; this rank is number `own` there."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"tcp://{address}:29800", rank=own, world_size=size)
    return torch.nn.parallel.DistributedDataParallel(model)


@contextlib.contextmanager
def over_torchft(model, optimizer, local_steps, addresses, own, size):
    """torchft's DiLoCo: each machine is a replica of `size` ranks with its own store; rank 0's lighthouse connects
    replicas."""
    import torch
    import torch.distributed as dist
    from torchft import Manager, ProcessGroupGloo
    from torchft.coordination import LighthouseServer
    from torchft.local_sgd import DiLoCo

    rank = int(os.environ["RANK"])
    address = addresses[rank // size]
    lighthouse = LighthouseServer(bind=f"{addresses[0]}:29700", min_replicas=2) if rank == 0 else None
    store = dist.TCPStore(address, 29600, is_master=own == 0, wait_for_workers=False)
    patience = datetime.timedelta(seconds=60)
    manager = Manager(
        pg=ProcessGroupGloo(timeout=patience),
        load_state_dict=lambda _: None,
        state_dict=dict,
        min_replica_size=2,
        use_async_quorum=False,
        timeout=patience,
        rank=own,
        world_size=size,
        store_addr=address,
        store_port=store.port,
        lighthouse_addr=f"http://{addresses[0]}:29700",
        replica_id=f"replica{rank // size}",
        hostname=address,
        init_sync=False,
    )
    outer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9, nesterov=True)
    try:
        with DiLoCo(manager, [model], optimizer, outer, sync_every=local_steps, pin_memory=False):
            yield
    finally:
        if size > 1:
            dist.barrier()  # before this machine's store ends
        manager.shutdown(wait=False)
        if lighthouse is not None:
            time.sleep(2)  # the other replica ends first
            lighthouse.shutdown()


def peer_rank(
    system, ranks, steps, samples, folder, report, addresses=(), warm_up=0, eval_every=0, until_loss=None, at_least=0
):
    """Trains for `steps`, each with `samples` samples of all ranks. It evaluates every `eval_every` steps (0: never),
    and ends when the loss is reached after `at_least` steps. All ranks compute the same loss, because they evaluate
    with the same weights. Copies that train apart have the same weights only after an outer step, so they evaluate only
    then."""
    keep_heap()
    import torch

    torch.set_num_threads(1)
    rank, folder = int(os.environ["RANK"]), Path(folder)
    model = make_gpt()
    load(model, first_weights(folder))
    optimizer = adamw_of(model)
    text, held_out = (
        torch.frombuffer(bytearray((folder / name).read_bytes()), dtype=torch.uint8).long()
        for name in ("train.txt", "validation.txt")
    )
    inputs, targets = held_out[:-1].view(-1, CONTEXT), held_out[1:].view(-1, CONTEXT)
    local_steps = int(system.split()[1]) if system.startswith("diloco") else 0
    merging = contextlib.nullcontext()
    if local_steps:
        size = ranks // len(addresses)
        trained = of_machine(model, rank % size, size, addresses[rank // size]) if size > 1 else model
        merging = over_torchft(model, optimizer, local_steps, addresses, rank % size, size)
    else:
        trained = over_all_ranks(model, system, ranks, addresses[0] if addresses else "")

    def evaluate():
        with torch.no_grad():
            return sum(model(a, b).item() * len(a) for a, b in zip(inputs.split(6), targets.split(6))) / len(inputs)

    times, evals = [], []
    with merging:
        begin = time.perf_counter()
        for step in range(1, steps + 1):
            for group in optimizer.param_groups:
                group["lr"] = lr_of(step - 1, warm_up)
            rows = torch.stack(
                [text[at : at + CONTEXT + 1] for at in windows_of(step - 1, rank, ranks, samples, len(text))]
            )
            trained(rows[:, :-1], rows[:, 1:]).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=bool(local_steps))  # DDP's gradients are views of its buckets
            end = time.perf_counter()
            times.append(end - begin)
            if eval_every and step % eval_every == 0 and step % (local_steps or 1) == 0:
                evals.append([sum(times), evaluate(), step])
                if step >= at_least and min(loss for _, loss, _ in evals) <= until_loss:
                    break
                end = time.perf_counter()
            begin = end
    if rank == 0:
        Path(report).write_text(json.dumps({"times": times, "evals": evals}))
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
        time.sleep(0.3)  # until all have left it
    os._exit(0)  # gloo's threads abort some processes that destroy their groups


if __name__ == "__main__":
    peer_rank(**json.loads(sys.argv[1]))
