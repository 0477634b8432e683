"""Compiled loops over pairs of tokens, each pair once, in blocks of a length the compiler knows; a fast exponential.

Loops of fixed length over arrays that lie at fixed distances need no checks at run time, so that the compiler turns all
of a pair's arithmetic, the exponential included, into vector instructions. Pair sums are taken of differences,

    Z_i = sum_j w_j e^{-beta |x_j - x_i|^2 / 2},      p_i = sum_j w_j e^{-beta |x_j - x_i|^2 / 2} (x_j - x_i),

so that tokens close together lose no digits; beta < 0 carries e^{2 beta}, so that nothing can overflow.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic, overload

from armillary.dynamics.machine_code import compiled

__all__ = ["exponentials", "packed", "row_kernel", "symmetric_kernel", "unpacked"]

_LOG2E = 1.4426950408889634
_STRICT: set[str] = {"contract", "nsz", "arcp"}
"""What the compiler may do with the exponential: reassociation would undo the rounding trick, silently."""


def _reread(source: Any, target: Any) -> Callable[..., Any]:
    """The same bits as a number of another type."""

    @intrinsic
    def reread(context, value):  # type: ignore[no-untyped-def]
        def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            return builder.bitcast(arguments[0], context.get_value_type(target))

        return target(source), code

    found: Callable[..., Any] = reread
    return found


_bits64, _double = _reread(types.float64, types.int64), _reread(types.int64, types.float64)
_bits32, _single = _reread(types.float32, types.int32), _reread(types.int32, types.float32)

_HIGH, _LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_MAGIC = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to the nearest integer, which then lies in the low bits


def _exponential64(x):  # type: ignore[no-untyped-def]
    """e^x for x of at most 0, to 5e-16; 1e-304 below -700. Terms are paired, so that few wait for others."""
    x = max(x, -700.0)
    t = x * _LOG2E + _MAGIC
    k = t - _MAGIC
    r = (x - k * _HIGH) - k * _LOW
    r2 = r * r
    r4 = r2 * r2
    low = (1.0 + r) + (0.5 + 1.6666666666666666e-01 * r) * r2
    middle = (4.1666666666666664e-02 + 8.333333333333333e-03 * r) + (
        1.388888888888889e-03 + 1.984126984126984e-04 * r
    ) * r2
    high = (2.48015873015873e-05 + 2.7557319223985893e-06 * r) + (
        2.755731922398589e-07 + 2.505210838544172e-08 * r + 2.08767569878681e-09 * r2
    ) * r2
    return (low + (middle + high * r4) * r4) * _double((_bits64(t) + 1023) << 52)


_F = np.float32
_F_LOG2E, _F_MAGIC = _F(1.44269504), _F(12582912.0)  # 1.5 * 2^23
_F_HIGH, _F_LOW, _F_LOWEST = _F(0.693359375), _F(-2.12194440e-4), _F(-87.0)
_F1, _F2, _F3 = _F(1.0), _F(0.5), _F(1 / 6)
_F4, _F5, _F6, _F7 = _F(1 / 24), _F(1 / 120), _F(1 / 720), _F(1 / 5040)


def _exponential32(x):  # type: ignore[no-untyped-def]
    """e^x for x of at most 0 in single precision, to 1.2e-7; 1.6e-38 below -87."""
    x = max(x, _F_LOWEST)
    t = x * _F_LOG2E + _F_MAGIC
    k = t - _F_MAGIC
    r = (x - k * _F_HIGH) - k * _F_LOW
    r2 = r * r
    low = (_F1 + r) + (_F2 + _F3 * r) * r2
    high = (_F4 + _F5 * r) + (_F6 + _F7 * r) * r2
    return (low + high * (r2 * r2)) * _single((_bits32(t) + np.int32(127)) << np.int32(23))


def exponential(x: float) -> float:
    """e^x for x of at most 0, in compiled code, in the precision of x."""
    raise NotImplementedError("it lives in compiled code only")


@overload(exponential, jit_options={"fastmath": _STRICT})
def _exponential_for(x):  # type: ignore[no-untyped-def]
    return inspect.unwrap({types.float64: _exponential64, types.float32: _exponential32}[x])


@compiled(fastmath=_STRICT)
def exponentials(arguments, found):  # type: ignore[no-untyped-def]
    """The exponential alone, of numbers of at most 0 from one array into another: the measure of a pair sum."""
    for j in range(arguments.size):
        found[j] = exponential(arguments[j])


def packed(rows: np.ndarray, weights: np.ndarray | None, length: int) -> np.ndarray:
    """Tokens in blocks `blocks dim+1 length`, coordinates and then the weight; the last block is filled up with 0."""
    tokens, dim = rows.shape
    blocks = -(-tokens // length)
    full = np.zeros((blocks * length, dim + 1), dtype=rows.dtype)
    full[:tokens, :dim] = rows
    full[:tokens, dim] = 1.0 if weights is None else weights
    return np.ascontiguousarray(full.reshape(blocks, length, dim + 1).transpose(0, 2, 1))


def unpacked(blocks: np.ndarray, tokens: int) -> np.ndarray:
    """The inverse of `packed`: `tokens entries`."""
    return blocks.transpose(0, 2, 1).reshape(-1, blocks.shape[1])[:tokens]


@cache
def symmetric_kernel(dim: int, length: int) -> Callable[..., None]:
    """Sums over all pairs, each pair once.

    Args:
        dim: Of the tokens.
        length: Of a block.

    Returns:
        A function (tokens in blocks, found in blocks, how many blocks, -beta / 2, beta - |beta|) that adds p and Z.
    """
    made = {2: _symmetric_2, 3: _symmetric_3}.get(dim, _symmetric)
    return _named(made(dim, length), dim, length)


def _symmetric_2(dim: int, length: int) -> Callable[..., None]:
    def sums(tokens, found, blocks, rate, shift):  # type: ignore[no-untyped-def]
        zero = rate - rate
        for a in range(blocks):
            for b in range(a, blocks):
                for i in range(length):
                    xi, yi, wi = tokens[a, 0, i], tokens[a, 1, i], tokens[a, 2, i]
                    px = py = pz = zero
                    if a == b:
                        for j in range(length):
                            dx, dy = tokens[b, 0, j] - xi, tokens[b, 1, j] - yi
                            e = exponential(rate * (dx * dx + dy * dy) + shift) * tokens[b, 2, j]
                            px += e * dx
                            py += e * dy
                            pz += e
                    else:
                        for j in range(length):
                            dx, dy = tokens[b, 0, j] - xi, tokens[b, 1, j] - yi
                            e = exponential(rate * (dx * dx + dy * dy) + shift)
                            f, g = e * tokens[b, 2, j], e * wi
                            px += f * dx
                            py += f * dy
                            pz += f
                            found[b, 0, j] -= g * dx
                            found[b, 1, j] -= g * dy
                            found[b, 2, j] += g
                    found[a, 0, i] += px
                    found[a, 1, i] += py
                    found[a, 2, i] += pz

    return sums


def _symmetric_3(dim: int, length: int) -> Callable[..., None]:
    def sums(tokens, found, blocks, rate, shift):  # type: ignore[no-untyped-def]
        zero = rate - rate
        for a in range(blocks):
            for b in range(a, blocks):
                for i in range(length):
                    x0, x1, x2, wi = tokens[a, 0, i], tokens[a, 1, i], tokens[a, 2, i], tokens[a, 3, i]
                    p0 = p1 = p2 = pz = zero
                    if a == b:
                        for j in range(length):
                            d0, d1, d2 = tokens[b, 0, j] - x0, tokens[b, 1, j] - x1, tokens[b, 2, j] - x2
                            e = exponential(rate * (d0 * d0 + d1 * d1 + d2 * d2) + shift) * tokens[b, 3, j]
                            p0 += e * d0
                            p1 += e * d1
                            p2 += e * d2
                            pz += e
                    else:
                        for j in range(length):
                            d0, d1, d2 = tokens[b, 0, j] - x0, tokens[b, 1, j] - x1, tokens[b, 2, j] - x2
                            e = exponential(rate * (d0 * d0 + d1 * d1 + d2 * d2) + shift)
                            f, g = e * tokens[b, 3, j], e * wi
                            p0 += f * d0
                            p1 += f * d1
                            p2 += f * d2
                            pz += f
                            found[b, 0, j] -= g * d0
                            found[b, 1, j] -= g * d1
                            found[b, 2, j] -= g * d2
                            found[b, 3, j] += g
                    found[a, 0, i] += p0
                    found[a, 1, i] += p1
                    found[a, 2, i] += p2
                    found[a, 3, i] += pz

    return sums


def _symmetric(dim: int, length: int) -> Callable[..., None]:
    def sums(tokens, found, blocks, rate, shift):  # type: ignore[no-untyped-def]
        zero = rate - rate
        near = np.empty(length, dtype=tokens.dtype)
        for a in range(blocks):
            for b in range(a, blocks):
                for i in range(length):
                    wi = tokens[a, dim, i] if a != b else zero
                    near[:] = 0
                    for k in range(dim):
                        here = tokens[a, k, i]
                        for j in range(length):
                            apart = tokens[b, k, j] - here
                            near[j] += apart * apart
                    pz = zero
                    for j in range(length):
                        e = exponential(rate * near[j] + shift)
                        near[j] = e
                        pz += e * tokens[b, dim, j]
                        found[b, dim, j] += e * wi
                    found[a, dim, i] += pz
                    for k in range(dim):
                        here, pull = tokens[a, k, i], zero
                        for j in range(length):
                            toward = near[j] * (tokens[b, k, j] - here)
                            pull += toward * tokens[b, dim, j]
                            found[b, k, j] -= toward * wi
                        found[a, k, i] += pull

    return sums


@cache
def row_kernel(length: int) -> Callable[..., None]:
    """Sums for some tokens over all tokens.

    Args:
        length: Of a block.

    Returns:
        A function (rows `some dim`, tokens in blocks, found `some dim+1`, -beta / 2, beta - |beta|) that adds p and Z.
    """

    def sums(rows, tokens, found, rate, shift):  # type: ignore[no-untyped-def]
        zero = rate - rate
        near = np.empty(length, dtype=tokens.dtype)
        dim = rows.shape[1]
        for i in range(rows.shape[0]):
            for b in range(tokens.shape[0]):
                near[:] = 0
                for k in range(dim):
                    here = rows[i, k]
                    for j in range(length):
                        apart = tokens[b, k, j] - here
                        near[j] += apart * apart
                pz = zero
                for j in range(length):
                    e = exponential(rate * near[j] + shift) * tokens[b, dim, j]
                    near[j] = e
                    pz += e
                found[i, dim] += pz
                for k in range(dim):
                    here, pull = rows[i, k], zero
                    for j in range(length):
                        pull += near[j] * (tokens[b, k, j] - here)
                    found[i, k] += pull

    return _named(sums, length)


def _named(function: Callable[..., Any], *sizes: int) -> Callable[..., None]:
    """A function that closes over nothing but whole numbers, compiled under a name that holds them.

    Machine code is kept by the name and found again by the next process. Under one name for several sizes, code of one
    size could be taken for another's there: names of compiled functions are numbered within a process only.
    """
    plain = inspect.unwrap(function)
    plain.__qualname__ = plain.__name__ = "_".join([function.__qualname__.split(".")[0], *map(str, sizes)])
    return compiled(fastmath=True)(plain)
