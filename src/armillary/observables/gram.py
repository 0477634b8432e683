"""Inner products of rows with themselves: a symmetric matrix, of which only half is computed."""

from __future__ import annotations

from torch import Tensor, from_numpy, is_grad_enabled

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
    return from_numpy(x @ x.swapaxes(-1, -2))
