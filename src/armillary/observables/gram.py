"""Inner products of rows with themselves: a symmetric matrix, of which only half is computed."""

from __future__ import annotations

import numpy as np
from torch import Tensor, empty, is_grad_enabled

__all__ = ["inner_products"]


def inner_products(rows: Tensor) -> Tensor:
    """X X^T of rows X. On the CPU NumPy sees that both factors are one array and computes one triangle of the product.

    Args:
        rows: Tensor `*batch tokens dim`.

    Returns:
        Tensor `*batch tokens tokens`, on the CPU symmetric to the last bit; with a gradient where the rows have one.
    """
    if rows.device.type != "cpu" or (rows.requires_grad and is_grad_enabled()):
        return rows @ rows.mT
    x = rows.detach().numpy()
    products = empty(*rows.shape[:-1], rows.shape[-2], dtype=rows.dtype)  # aligned, as what reads it would have it
    np.matmul(x, x.swapaxes(-1, -2), out=products.numpy())
    return products
