"""How functions become machine code: at their first call, kept for the next process."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numba

__all__ = ["compiled"]


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
