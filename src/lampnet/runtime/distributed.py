"""The only file that knows torch.distributed: processes that train or predict one model together.

Started by torchrun, every process reads the same data and takes its share of every batch. Alone, each
function here does nothing, so the rest of lampnet is written as for one process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from lampnet.errors import CheckpointError

#: What gloo says when a process at the other end is gone.
_LOST = ("connection closed", "connection reset", "connection refused", "broken pipe", "gloo", "timed out", "peer")


#: How long one process may prepare data while the others wait for it.
LONGEST_WAIT = timedelta(hours=2)
Held = TypeVar("Held")


class WorkerLost(CheckpointError):
    """Another process of a distributed run has died; what the last checkpoint holds is safe."""


@dataclass(frozen=True)
class Team:
    """This process's number among all, counted from 0; number 0 leads: it alone writes and logs."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        return self.rank == 0


def team() -> Team:
    """The processes this one works with.

    >>> team()
    Team(rank=0, size=1)
    """
    if dist.is_available() and dist.is_initialized():
        return Team(dist.get_rank(), dist.get_world_size())
    return Team()


def restarted() -> bool:
    """Whether torchrun has started this run again after a fault, so that it has to resume."""
    return os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") not in ("", "0")


@contextmanager
def joined() -> Iterator[Team]:
    """Meet the other processes that torchrun started; alone, nothing happens. Commands enter it once."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        yield team()
        return
    store, rank, size = next(rendezvous("env://", timeout=LONGEST_WAIT))
    # A run that was started again must not find the addresses of the processes before it.
    store = PrefixStore(f"start-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=LONGEST_WAIT)
    try:
        yield team()
    finally:
        dist.destroy_process_group()


@contextmanager
def explained_losses() -> Iterator[None]:
    """Turn the network's error about a lost process into a sentence."""
    try:
        yield
    except RuntimeError as fault:
        if team().size > 1 and any(sign in str(fault).lower() for sign in _LOST):
            raise WorkerLost(
                "another process of this run was lost, so it ends here; start it again with --resume "
                "(torchrun --max-restarts does so by itself) to go on from the last checkpoint"
            ) from fault
        raise


def share(rows: np.ndarray) -> np.ndarray:
    """This process's part of some rows; every row goes to exactly one process.

    >>> share(np.arange(3)).tolist()
    [0, 1, 2]
    """
    us = team()
    return rows[us.rank :: us.size]


def total(values: list[float]) -> list[float]:
    """The sum over all processes, the same on each of them."""
    if team().size == 1:
        return values
    summed = torch.tensor(values, dtype=torch.float64)
    with explained_losses():
        dist.all_reduce(summed)
    return [float(value) for value in summed]


def merged(rows: np.ndarray) -> np.ndarray:
    """One array from arrays that are zero but for each process's own rows."""
    if team().size > 1:
        with explained_losses():
            dist.all_reduce(torch.from_numpy(rows))
    return rows


def from_leader(value: Held) -> Held:
    """What process 0 holds, on every process; the others' own values are dropped."""
    if team().size == 1:
        return value
    held = [value]
    with explained_losses():
        dist.broadcast_object_list(held, src=0)
    return held[0]


def wait_for_all() -> None:
    """Go on when every process has come here."""
    if team().size > 1:
        with explained_losses():
            dist.barrier()


def shared_network(model: nn.Module, idle_parameters: bool) -> nn.Module:
    """The model as DistributedDataParallel: it starts from process 0's weights and averages gradients.

    idle_parameters  whether some parameter gets no gradient (an edgeless label graph asks empty_rows)
    """
    if team().size == 1:
        return model
    with explained_losses():
        wrapped: nn.Module = nn.parallel.DistributedDataParallel(model, find_unused_parameters=idle_parameters)
    return wrapped


def without_averaging(network: nn.Module) -> AbstractContextManager[None]:
    """Gradients inside stay on this process, to be averaged together with the next ones."""
    if isinstance(network, nn.parallel.DistributedDataParallel):
        held: AbstractContextManager[None] = network.no_sync()
        return held
    return nullcontext()
