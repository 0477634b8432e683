"""What every pair of tokens does to both, compiled: one evaluation of the velocity in difference form, vectorized.

    v_i = P_i sum_j w_j e^{-beta |x_j - x_i|^2 / 2} (x_j - x_i) / Z_i

Tokens close together lose no digits and nothing can overflow. Coordinates are rows: inner loops run over tokens. In two
and three dimensions exponentials are what costs, and each pair is visited once, in blocks of a length that the compiler
knows (`sums.kernels`). In higher dimensions what costs is to add up, and each token adds over all others, four
coordinates at a time, which writes nothing inside. So it does at very negative beta, where the largest weight of each
row, that of the farthest token, has to be known first.

The exponential is a polynomial that the compiler turns into vector instructions; its relative error is 4e-16. It is a
function of its own, with rules of its own for the compiler: sums may be reordered, its rounding trick may not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from armillary.dynamics.machine_code import compiled
from armillary.dynamics.sums.kernels import symmetric_kernel

__all__ = [
    "SOFTMAX",
    "UNIFORM",
    "UNNORMALIZED",
    "all_within",
    "compiled",
    "exponential",
    "nearest_pair",
    "room",
    "velocity",
]

SOFTMAX, UNNORMALIZED, UNIFORM = 0, 1, 2

_SHORT, _LONG, _FEW, _PAIR_BY_PAIR = 16, 64, 192, 4
"""Tokens of a block; up to how many tokens the short one is faster, and up to how many no block is."""

_circle_short, _circle_long = symmetric_kernel(2, _SHORT), symmetric_kernel(2, _LONG)
_sphere_short, _sphere_long = symmetric_kernel(3, _SHORT), symmetric_kernel(3, _LONG)

_LOG2E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_MAGIC = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to the nearest integer, which then lies in the low bits
_LOWEST = -700.0
_FARTHEST = -300.0  # repulsive weights below: those of one token differ by more than an exponential can, from any shift
_EXACT: set[str] = {"contract", "nsz", "arcp"}


@intrinsic  # type: ignore[untyped-decorator]
def _bits(typing: Any, number: Any) -> Any:
    """The 64 bits of a double as an integer."""

    def cast(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))

    return types.int64(types.float64), cast


@intrinsic  # type: ignore[untyped-decorator]
def _double(typing: Any, bits: Any) -> Any:
    """The double that 64 bits stand for."""

    def cast(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))

    return types.float64(types.int64), cast


@compiled(fastmath=_EXACT)
def exponential(argument):  # type: ignore[no-untyped-def]
    """e^x for x up to 0."""
    a = max(argument, _LOWEST)
    rounded = a * _LOG2E + _MAGIC
    two = _double((_bits(rounded) + 1023) << 52)
    k = rounded - _MAGIC
    r = (a - k * _LN2_HIGH) - k * _LN2_LOW
    p = 2.08767569878681e-09
    p = p * r + 2.505210838544172e-08
    p = p * r + 2.755731922398589e-07
    p = p * r + 2.7557319223985893e-06
    p = p * r + 2.48015873015873e-05
    p = p * r + 1.984126984126984e-04
    p = p * r + 1.388888888888889e-03
    p = p * r + 8.333333333333333e-03
    p = p * r + 4.1666666666666664e-02
    p = p * r + 1.6666666666666666e-01
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    return p * two


@compiled(fastmath=_EXACT)
def _kernel(squares, found, count, rule, beta, least):  # type: ignore[no-untyped-def]
    """What pairs at squared distances weigh: e^{-beta d^2 / 2 + least}, or 1 with uniform weights."""
    if rule == UNIFORM:
        for j in range(count):
            found[j] = 1.0
        return
    half = -0.5 * beta
    for j in range(count):
        found[j] = exponential(half * squares[j] + least)


@compiled(fastmath=_EXACT)
def _by_blocks(x, w, n, rule, beta, v, z, line, other):  # type: ignore[no-untyped-def]
    """Unprojected pulls into v and their weights into z, each pair once, in two or three dimensions."""
    dim = x.shape[0]
    length = _SHORT if n <= _FEW else _LONG
    blocks = (n + length - 1) // length
    tokens = line[: blocks * (dim + 1) * length].reshape((blocks, dim + 1, length))
    found = other[: blocks * (dim + 1) * length].reshape((blocks, dim + 1, length))
    found[:] = 0.0
    for b in range(blocks):
        begin, here = b * length, min(length, n - b * length)
        for k in range(dim):
            for i in range(here):
                tokens[b, k, i] = x[k, begin + i]
        for i in range(here):
            tokens[b, dim, i] = w[begin + i]
        for k in range(dim + 1):
            for i in range(here, length):
                tokens[b, k, i] = 0.0
    rate, shift = (0.0, 0.0) if rule == UNIFORM else (-0.5 * beta, beta - abs(beta))
    if dim == 2:
        if length == _SHORT:
            _circle_short(tokens, found, blocks, rate, shift)
        else:
            _circle_long(tokens, found, blocks, rate, shift)
    elif length == _SHORT:
        _sphere_short(tokens, found, blocks, rate, shift)
    else:
        _sphere_long(tokens, found, blocks, rate, shift)
    for b in range(blocks):
        begin, here = b * length, min(length, n - b * length)
        for k in range(dim):
            for i in range(here):
                v[k, begin + i] = found[b, k, i]
        for i in range(here):
            z[begin + i] = found[b, dim, i]


@compiled(fastmath=True)
def _distances_from(x, i, n, found):  # type: ignore[no-untyped-def]
    """Squared distances of all tokens from token i, four coordinates at a time."""
    dim = x.shape[0]
    for j in range(n):
        found[j] = 0.0
    for k in range(0, dim - 3, 4):
        a, b, c, d = x[k], x[k + 1], x[k + 2], x[k + 3]
        at, bt, ct, dt = a[i], b[i], c[i], d[i]
        for j in range(n):
            first, second, third, fourth = a[j] - at, b[j] - bt, c[j] - ct, d[j] - dt
            found[j] += first * first + second * second + third * third + fourth * fourth
    for k in range(dim - dim % 4, dim):
        a = x[k]
        at = a[i]
        for j in range(n):
            first = a[j] - at
            found[j] += first * first


@compiled(fastmath=True)
def _largest(numbers, n):  # type: ignore[no-untyped-def]
    found = 0.0
    for j in range(n):
        found = max(found, numbers[j])
    return found


@compiled(fastmath=True)
def _pulled_by(x, i, n, weights, v):  # type: ignore[no-untyped-def]
    """The pull of all tokens on token i into column i of v; returns the sum of the weights."""
    dim = x.shape[0]
    for k in range(0, dim - 3, 4):
        a, b, c, d = x[k], x[k + 1], x[k + 2], x[k + 3]
        at, bt, ct, dt = a[i], b[i], c[i], d[i]
        first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
        for j in range(n):
            first += weights[j] * (a[j] - at)
            second += weights[j] * (b[j] - bt)
            third += weights[j] * (c[j] - ct)
            fourth += weights[j] * (d[j] - dt)
        v[k, i], v[k + 1, i], v[k + 2, i], v[k + 3, i] = first, second, third, fourth
    for k in range(dim - dim % 4, dim):
        a = x[k]
        at, first = a[i], 0.0
        for j in range(n):
            first += weights[j] * (a[j] - at)
        v[k, i] = first
    total = 0.0
    for j in range(n):
        total += weights[j]
    return total


@compiled(fastmath=_EXACT)
def velocity(x, w, n, law, v, z, line, other, pair):  # type: ignore[no-untyped-def]
    """Velocities of the first n tokens, unit columns of x (`dim tokens`) of weights w, into v.

    `law` is rule, beta, factor and what unnormalized weights are divided by beside the sum of w; the rest is `room`.
    """
    dim = x.shape[0]
    rule, beta, factor, shift = law
    squares, kernel, total = pair[0], pair[1], 0.0
    for j in range(n):
        total += w[j]
    far = rule == SOFTMAX and beta < _FARTHEST
    if dim <= 3 and n > _PAIR_BY_PAIR and not far:
        _by_blocks(x, w, n, rule, beta, v, z, line, other)
    else:
        least = beta - abs(beta)
        for i in range(n):
            _distances_from(x, i, n, squares)
            if far:
                least = 0.5 * beta * _largest(squares, n)
            _kernel(squares, kernel, n, rule, beta, least)
            for j in range(n):
                kernel[j] *= w[j]
            z[i] = _pulled_by(x, i, n, kernel, v)
    for j in range(n):
        squares[j] = 0.0
        kernel[j] = factor / (total * shift if rule == UNNORMALIZED else z[j])
    for k in range(dim):
        for j in range(n):
            squares[j] += v[k, j] * x[k, j]
    for k in range(dim):
        for j in range(n):
            v[k, j] = (v[k, j] - squares[j] * x[k, j]) * kernel[j]


@compiled(fastmath=True)
def nearest_pair(x, n, squares):  # type: ignore[no-untyped-def]
    """The smallest squared distance of two of the first n tokens, and who they are."""
    best, first, second = 1e300, -1, -1
    for i in range(n - 1):
        _distances_from(x, i, n, squares)
        for j in range(i + 1, n):
            if squares[j] < best:
                best, first, second = squares[j], i, j
    return best, first, second


@compiled(fastmath=True)
def all_within(x, n, limit, squares):  # type: ignore[no-untyped-def]
    """Whether no two of the first n tokens are farther apart than a squared distance."""
    for i in range(n - 1):
        _distances_from(x, i, n, squares)
        for j in range(i + 1, n):
            if squares[j] > limit:
                return False
    return True


def room(tokens: int, dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What an evaluation writes to on its way: sums of weights, tokens in blocks, their sums in blocks, one pair."""
    size = (dim + 1) * (tokens + _LONG) if dim <= 3 else 1
    return np.empty(tokens), np.empty(size), np.empty(size), np.empty((2, tokens))
