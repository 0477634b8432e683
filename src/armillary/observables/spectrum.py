"""Eigenvalues of many small symmetric matrices, one core each: the spectrum that the rank family reads."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import torch
from threadpoolctl import ThreadpoolController
from torch import Tensor

from armillary.shapes import Overlaps

__all__ = ["eigenvalues"]


def eigenvalues(matrices: Overlaps) -> Tensor:
    """Eigenvalues of symmetric matrices, descending; those that rounding made negative are zero.

    A matrix of a few hundred rows is too small for several cores, and a batch of them is not: on the CPU each core
    takes a share of the batch (LAPACK releases the interpreter), elsewhere the device's own batched routine is used.

    Args:
        matrices: Symmetric positive semidefinite, `*batch n n`.

    Returns:
        Tensor `*batch n`, in the dtype of `matrices`; NaN for a matrix that holds NaN.
    """
    size = matrices.shape[-1]
    undefined = ~torch.isfinite(matrices.sum((-2, -1)))
    if bool(undefined.any()):
        undefined = ~torch.isfinite(matrices).all(-1).all(-1)  # a sum of finite numbers may overflow
        matrices = torch.where(undefined[..., None, None], 0.0, matrices)
    if matrices.device.type == "cpu":
        values = _on_all_cores(matrices.reshape(-1, size, size).numpy()).reshape(*matrices.shape[:-1])
    else:
        values = torch.linalg.eigvalsh(matrices)
    values = values.flip(-1).clamp(min=0.0)
    return torch.where(undefined[..., None], torch.nan, values)


def _on_all_cores(matrices: np.ndarray) -> Tensor:
    parts = np.array_split(matrices, min(_cores(), len(matrices)))  # one call a core: handing over takes milliseconds
    with _controller().limit(limits=1, user_api="blas"):
        return torch.from_numpy(np.concatenate(list(_pool().map(np.linalg.eigvalsh, parts))))


@cache
def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=_cores(), thread_name_prefix="eigenvalues")


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
