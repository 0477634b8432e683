"""Matrices on trial: does a head attract or repel by its matrices alone, beside random directions and fresh heads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from armillary.models.matrices import PlainBlock, PlainWeights

__all__ = ["FORMS", "GAINS", "HEAD_NUMBERS", "axis_of", "declared_heads", "form_numbers", "head_table"]

GAINS = ("folded", "left out")
"""Whether the gain of the norm that a head reads through is part of its matrices: folding it changes no output."""

FORMS = {"vo": "W_O W_V", "qk": "scale W_Q^T W_K"}
"""The two matrices of a head: what it carries, and what its scores are a form of."""

HEAD_NUMBERS = {
    "trace": (
        "tr M / (|M|_F sqrt k)",
        "trace over Frobenius norm and root of the head's dimension k: 1 for a projection on k directions, which "
        "attracts, -1 for minus one, which repels, 0 on average for random directions",
    ),
    "trace_over_width": ("tr M / d", "trace over the width of the stream: 1 for the identity matrix"),
    "top": ("lambda_1", "largest eigenvalue of the symmetric part"),
    "second": ("lambda_2", "second largest eigenvalue of the symmetric part"),
    "bottom": ("lambda_d", "smallest eigenvalue of the symmetric part; negative directions repel"),
    "positive_share": (
        "sum lambda_+^2 / sum lambda^2",
        "share of the symmetric part's squared eigenvalues that are positive: 1/2 without a sign",
    ),
    "antisymmetric_share": (
        "|A|^2 / |M|^2",
        "share of the antisymmetric part in the squared Frobenius norm: 0 for symmetric matrices, 1/2 for generic ones",
    ),
}
"""Numbers of one matrix M of a head: symbol and definition."""


def form_numbers(left: Tensor, right: Tensor) -> dict[str, float]:
    """The numbers of M = left @ right.T, a matrix of low algebraic rank, without forming it.

    The symmetric part (M + M^T) / 2 has the nonzero eigenvalues of R J R^T, with R from the QR decomposition of [left,
    right] and J = [[0, 1/2], [1/2, 0]].

    Args:
        left: `dim k`.
        right: `dim k`.

    Returns:
        One number for each of `HEAD_NUMBERS`; NaN for the zero matrix.
    """
    dim, k = left.shape
    a, b = left.double().cpu(), right.double().cpu()
    trace = float((a * b).sum())
    squared = float(((a.mT @ a) * (b.mT @ b)).sum())
    if squared == 0.0:
        return dict.fromkeys(HEAD_NUMBERS, math.nan)
    triangle = torch.linalg.qr(torch.cat([a, b], dim=1), mode="r")[1]
    half = torch.zeros(2 * k, 2 * k, dtype=torch.float64)
    half[:k, k:] = half[k:, :k] = 0.5 * torch.eye(k, dtype=torch.float64)
    found = torch.linalg.eigvalsh(triangle @ half @ triangle.mT)
    if len(found) < dim:
        found = torch.cat([found, torch.zeros(min(2, dim - len(found)), dtype=torch.float64)]).sort()[0]
    squares = found.square().sum()
    return {
        "trace": trace / math.sqrt(squared * k),
        "trace_over_width": trace / dim,
        "top": float(found[-1]),
        "second": float(found[-2]),
        "bottom": float(found[0]),
        "positive_share": float(found.clamp(min=0).square().sum() / squares),
        "antisymmetric_share": 1.0 - float(squares) / squared,
    }


def head_table(weights: PlainWeights, *, gain: str) -> dict[str, np.ndarray]:
    """Numbers of both matrices of every head, `blocks heads` each, named `vo_trace`, `qk_trace` and so on.

    Args:
        weights: The matrices.
        gain: One of `GAINS`.
    """
    blocks, heads = len(weights.blocks), len(weights.blocks[0].attention.query)
    found = {f"{form}_{name}": np.full((blocks, heads), np.nan) for form in FORMS for name in HEAD_NUMBERS}
    for at, block in enumerate(weights.blocks):
        for head in range(heads):
            for form, (left, right) in _factors(block, head, gain).items():
                for name, value in form_numbers(left, right).items():
                    found[f"{form}_{name}"][at, head] = value
    return found


def axis_of(block: PlainBlock, head: int) -> Tensor:
    """The unit vector along the largest eigenvalue of the symmetric part of W_O W_V, gain folded in, `dim`.

    Args:
        block: The block.
        head: Counted from 0.
    """
    left, right = _factors(block, head, "folded")["vo"]
    a, b = left.double().cpu(), right.double().cpu()
    frame, triangle = torch.linalg.qr(torch.cat([a, b], dim=1))
    k = a.shape[1]
    half = torch.zeros(2 * k, 2 * k, dtype=torch.float64)
    half[:k, k:] = half[k:, :k] = 0.5 * torch.eye(k, dtype=torch.float64)
    vectors = torch.linalg.eigh(triangle @ half @ triangle.mT)[1]
    axis = frame @ vectors[:, -1]
    return axis / axis.norm()


def declared_heads(tables: Sequence[dict[str, dict[str, np.ndarray]]], sources: Sequence[str]) -> dict[str, Any]:
    """The tables of all sources as variables `source gain block head` of a record.

    Args:
        tables: One for each source: gain -> name -> `blocks heads`.
        sources: Their names.
    """
    found: dict[str, Any] = {}
    for form, matrix in FORMS.items():
        for name, (symbol, words) in HEAD_NUMBERS.items():
            values = np.stack([np.stack([table[gain][f"{form}_{name}"] for gain in GAINS]) for table in tables])
            found[f"head_{form}_{name}"] = (
                ("source", "gain", "block", "head"),
                values,
                {
                    "symbol": symbol.replace("M", matrix) if form == "vo" else symbol,
                    "definition": f"M = {matrix} of a head: {words}",
                    "source": "symmetric part and trace; Trockman and Kolter 2023 for the traces",
                    "undefined": "a matrix of zeros",
                },
            )
    return found


def _factors(block: PlainBlock, head: int, gain: str) -> dict[str, tuple[Tensor, Tensor]]:
    """Both matrices of a head as left @ right.T, in the coordinates of the stream."""
    own = block.attention
    group = head * len(own.key) // len(own.query)
    norm = block.attention_norm
    factor = 1.0 if norm is None or norm.gain is None or gain != "folded" else norm.gain.double()
    value = own.value[head * len(own.value) // len(own.output)].double() * factor
    query, key = (one.double() * factor for one in (own.query[head], own.key[group]))
    return {"vo": (own.output[head].double(), value.mT), "qk": (own.scale * query.mT, key.mT)}
