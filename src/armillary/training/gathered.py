"""Rows and numbers of all processes as if one had them: the same value everywhere, the gradient of one process."""

from __future__ import annotations

import torch
from torch import Tensor
from torch import distributed as dist

__all__ = ["gathered", "processes"]


def processes() -> int:
    """How many processes train together; 1 where nobody began a process group."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def gathered(rows: Tensor) -> Tensor:
    """The rows of every process, one after the other, in the order of the processes.

    A process has the gradient of its own rows only. Data-parallel training averages gradients over processes, so that
    own rows come back with their gradient multiplied by the number of processes: after the average it is that of one
    process which holds everything.

    Args:
        rows: `rows *rest`; their number may differ between processes.

    Returns:
        All rows; where there is one process, the rows as they are.
    """
    many = processes()
    if many == 1:
        return rows
    count = torch.tensor([len(rows)], device=rows.device)
    counts = [torch.zeros_like(count) for _ in range(many)]
    dist.all_gather(counts, count)
    lengths = [int(one) for one in counts]
    padded = rows.detach().new_zeros((max(lengths), *rows.shape[1:]))
    padded[: len(rows)] = rows.detach()
    received = [torch.empty_like(padded) for _ in range(many)]
    dist.all_gather(received, padded)
    parts = [part[:length] for part, length in zip(received, lengths, strict=True)]
    parts[dist.get_rank()] = rows.detach() + (rows - rows.detach()) * many
    return torch.cat(parts)
