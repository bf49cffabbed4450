"""Training with several processes: their ranks, roles and communication (§5.2)."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel


@dataclass(frozen=True)
class World:
    """This process's rank and the number of processes, which is 1 without ``torchrun``."""

    rank: int = 0  #: the index of this process
    size: int = 1  #: the number of processes

    @property
    def is_main(self) -> bool:
        """Return whether this is the process that prints, measures and keeps records."""
        return self.rank == 0

    def wait(self) -> None:
        """Wait until all processes have reached this point."""
        if self.size > 1:
            dist.barrier()

    def total(self, numbers: Tensor) -> Tensor:
        """Return the sum over all processes; every process must call this."""
        numbers = numbers.clone()
        if self.size > 1:
            dist.all_reduce(numbers)
        return numbers

    def any_rank(self, wish: bool, device: str = "cpu") -> bool:
        """Return True in all processes if any of them passes True; every process must call this."""
        if self.size == 1:
            return wish
        return bool(self.total(torch.tensor(float(wish), device=device)))


ALONE = World()


@contextmanager
def init_distributed(device: str = "cpu") -> Iterator[World]:
    """Join the process group under ``torchrun``, and leave it when the context ends.

    The backend is nccl on ``"cuda"``, with one GPU per process, and gloo otherwise.
    Raises ValueError if there are fewer GPUs than processes.
    """
    if not dist.is_torchelastic_launched():
        yield ALONE
        return
    if device == "cuda":
        rank = int(os.environ["LOCAL_RANK"])
        gpus = torch.cuda.device_count()
        if rank >= gpus:
            raise ValueError(
                f"each process needs its own GPU, but this computer has only {gpus}; start fewer "
                "processes, or use --device cpu"
            )
        torch.cuda.set_device(rank)
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    try:
        yield World(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()


def parallelize(model: nn.Module, world: World, *, sharded: bool = False) -> nn.Module:
    """Divide the work among the processes; return the module to call during training.

    Each process holds all weights (DDP) or, if ``sharded``, a shard of them (FSDP2, in place).
    """
    if world.size == 1:
        return model
    if not sharded:
        return DistributedDataParallel(model, forward_sync_buffers=False)
    from torch.distributed.fsdp import fully_shard  # a slow import

    for layers in [module for module in model.modules() if isinstance(module, nn.ModuleList)]:
        for layer in layers:
            fully_shard(layer)
    fully_shard(model)
    return model
