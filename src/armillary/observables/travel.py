"""How what was declared goes to another process: by its name where a module has it, as a whole where none does."""

from __future__ import annotations

import importlib
import sys
from dataclasses import fields
from typing import Any

__all__ = ["by_name"]


def by_name(declared: Any, module: str) -> tuple[Any, tuple[Any, ...]]:
    """What `__reduce__` of a declared number returns: it comes back as the very object that its module holds.

    Args:
        declared: A dataclass with a `name`.
        module: Where its function was written.
    """
    name = str(declared.name)
    if module in sys.modules and vars(sys.modules[module]).get(name) is declared:
        return _of_module, (module, name)
    return _whole, (type(declared), tuple(getattr(declared, one.name) for one in fields(declared)))


def _of_module(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def _whole(kind: type, values: tuple[Any, ...]) -> Any:
    return kind(*values)
