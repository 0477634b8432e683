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

    What a function calls becomes part of it. Else it would call, in the process that compiles it, the copy that stands
    alone, and where it is read from its file the copy compiled along with it: their last bits differ, and with them a
    run's in its first process and in all others.

    Args:
        fastmath: What the compiler may do to floating-point operations.
    """
    options: dict[str, Any] = {"fastmath": fastmath, "forceinline": True, "error_model": "numpy"}  # x / 0 as in NumPy
    translate = numba.njit(cache=True, **options)

    def made(function: Callable[..., Any]) -> Callable[..., Any]:
        found: Callable[..., Any] = translate(inspect.unwrap(function))
        return found

    return made
