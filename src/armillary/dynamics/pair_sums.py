"""What every pair of tokens does to both, compiled: one evaluation of the velocity in difference form, vectorized.

    v_i = P_i sum_j w_j e^{-beta |x_j - x_i|^2 / 2} (x_j - x_i) / Z_i

Tokens close together lose no digits and nothing can overflow. Coordinates are rows: inner loops run over tokens. In two
and three dimensions exponentials are what costs, and each pair is visited once: tokens i and i + k, for one offset k
after another, are two pieces of one line of twice the length, without gaps. In higher dimensions what costs is to add
up, and each token adds over all others, four coordinates at a time, which writes nothing inside. So it does at very
negative beta, where the largest weight of each row, that of the farthest token, has to be known first.

The exponential is a polynomial that the compiler turns into vector instructions; its relative error is 4e-16. It is a
function of its own, with rules of its own for the compiler: sums may be reordered, its rounding trick may not.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

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

_LOG2E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_MAGIC = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to the nearest integer, which then lies in the low bits
_LOWEST = -700.0
_FARTHEST = -300.0  # repulsive weights below: those of one token differ by more than an exponential can, from any shift
_EXACT: set[str] = {"contract", "nsz", "arcp"}


def compiled(*, fastmath: bool | set[str]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compiles a function at its first call and keeps the machine code beside the file for the next process.

    What may have been wrapped around it for checking is taken off: the compiler reads the function itself. A file is
    compiled again when it changes, and not when only a file changes whose functions it calls: after editing this one,
    touch those that import it (tests keep machine code of their own for every version).

    Args:
        fastmath: What the compiler may do to floating-point operations.
    """
    translate = numba.njit(cache=True, fastmath=fastmath, error_model="numpy")  # as NumPy divides: by zero to infinity

    def made(function: Callable[..., Any]) -> Callable[..., Any]:
        found: Callable[..., Any] = translate(inspect.unwrap(function))
        return found

    return made


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
def _squares(twice, offset, count, dim, found):  # type: ignore[no-untyped-def]
    """Squared distances of tokens j and j + offset."""
    if dim == 2:
        a, b = twice[0, :count], twice[1, :count]
        c, d = twice[0, offset : offset + count], twice[1, offset : offset + count]
        for j in range(count):
            first, second = c[j] - a[j], d[j] - b[j]
            found[j] = first * first + second * second
        return
    a, b, e = twice[0, :count], twice[1, :count], twice[2, :count]
    c, d, f = (
        twice[0, offset : offset + count],
        twice[1, offset : offset + count],
        twice[2, offset : offset + count],
    )
    for j in range(count):
        first, second, third = c[j] - a[j], d[j] - b[j], f[j] - e[j]
        found[j] = first * first + second * second + third * third


@compiled(fastmath=_EXACT)
def _by_offsets(x, w, n, rule, beta, v, z, twice, back, pair):  # type: ignore[no-untyped-def]
    """Unprojected pulls into v and their weights into z, each pair once, in two or three dimensions."""
    dim = x.shape[0]
    own = math.exp(beta - abs(beta)) if rule != UNIFORM else 1.0
    weight, summed, squares, kernel = twice[dim], back[dim], pair[0], pair[1]
    for j in range(n):
        weight[j] = w[j]
        weight[j + n] = w[j]
        z[j] = w[j] * own
        summed[j] = 0.0
        summed[j + n] = 0.0
    for k in range(dim):
        line, other = twice[k], back[k]
        for j in range(n):
            line[j] = x[k, j]
            line[j + n] = x[k, j]
            v[k, j] = 0.0
            other[j] = 0.0
            other[j + n] = 0.0
    for offset in range(1, n // 2 + 1):
        count = offset if 2 * offset == n else n  # half way round, each pair would come twice
        _squares(twice, offset, count, dim, squares)
        _kernel(squares, kernel, count, rule, beta, beta - abs(beta))
        there, returned = weight[offset : offset + count], summed[offset : offset + count]
        for j in range(count):
            squares[j] = there[j] * kernel[j]
            z[j] += squares[j]
        for j in range(count):
            kernel[j] = weight[j] * kernel[j]
            returned[j] += kernel[j]
        for k in range(dim):
            line, here = twice[k, offset : offset + count], twice[k, :count]
            pushed, pulled = back[k, offset : offset + count], v[k]
            for j in range(count):
                apart = line[j] - here[j]
                pulled[j] += squares[j] * apart
                pushed[j] -= kernel[j] * apart
    for j in range(n):
        z[j] += summed[j] + summed[j + n]
    for k in range(dim):
        for j in range(n):
            v[k, j] += back[k, j] + back[k, j + n]


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
def velocity(x, w, n, law, v, z, twice, back, pair):  # type: ignore[no-untyped-def]
    """Velocities of the first n tokens, unit columns of x (`dim tokens`) of weights w, into v.

    `law` is rule, beta, factor and what unnormalized weights are divided by beside the sum of w; the rest is `room`.
    """
    dim = x.shape[0]
    rule, beta, factor, shift = law
    squares, kernel, total = pair[0], pair[1], 0.0
    for j in range(n):
        total += w[j]
    far = rule == SOFTMAX and beta < _FARTHEST
    if dim <= 3 and not far:
        _by_offsets(x, w, n, rule, beta, v, z, twice, back, pair)
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
    """What an evaluation writes to on its way: sums of weights, lines of twice the length, pushes back, one pair."""
    lines = dim + 1 if dim <= 3 else 1
    shape = (lines, 2 * tokens) if dim <= 3 else (1, 1)
    return np.empty(tokens), np.empty(shape), np.empty(shape), np.empty((2, tokens))
