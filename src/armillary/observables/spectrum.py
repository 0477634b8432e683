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

    A matrix of a few hundred rows is too small for several cores, and a batch of them is not: on the CPU each one
    goes to a core of its own (LAPACK releases the interpreter), elsewhere the device's own batched routine is used.

    Args:
        matrices: Symmetric positive semidefinite, `*batch n n`.

    Returns:
        Tensor `*batch n`, in the dtype of `matrices`; NaN for a matrix that holds NaN.
    """
    size = matrices.shape[-1]
    if matrices.device.type != "cpu":
        undefined = torch.isnan(matrices).any(-1).any(-1)
        values = torch.linalg.eigvalsh(torch.where(undefined[..., None, None], 0.0, matrices))
        return torch.where(undefined[..., None], torch.nan, values).flip(-1).clamp(min=0.0)
    flat = matrices.reshape(-1, size, size).numpy()
    with _controller().limit(limits=1, user_api="blas"):
        rows = list(_pool().map(_of_one, flat))
    return torch.from_numpy(np.stack(rows)).reshape(*matrices.shape[:-2], size)


def _of_one(matrix: np.ndarray) -> np.ndarray:
    if not np.isfinite(matrix).all():
        return np.full(len(matrix), np.nan, dtype=matrix.dtype)
    return np.maximum(np.linalg.eigvalsh(matrix)[::-1], 0.0)


@cache
def _pool() -> ThreadPoolExecutor:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return ThreadPoolExecutor(max_workers=cores, thread_name_prefix="eigenvalues")


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
