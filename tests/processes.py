"""Several gloo processes on this machine for tests of data-parallel training: the same function in each."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import distributed as dist
from torch import multiprocessing


def together(function: Callable[[int, int], Any], world: int) -> list[Any]:
    """What `function(rank, world)` returns in each process of a group; a function of a module, results that pickle."""
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(_one, (world, folder, function), nprocs=world)
        return [pickle.loads((Path(folder) / str(rank)).read_bytes()) for rank in range(world)]


def _one(rank: int, world: int, folder: str, function: Callable[[int, int], Any]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world, timeout=timedelta(seconds=120)
    )
    try:
        (Path(folder) / str(rank)).write_bytes(pickle.dumps(function(rank, world)))
        dist.barrier()
    finally:
        dist.destroy_process_group()
