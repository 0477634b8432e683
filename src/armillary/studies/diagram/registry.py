"""Every preset of `armillary phase` by name, found rather than listed: the modules of `armillary.studies.phase`."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

from armillary.errors import ArgumentError

if TYPE_CHECKING:
    from armillary.studies.diagram.declaration import Preset

__all__ = ["preset_named", "preset_names"]

_ROOM = "armillary.studies.phase"


def preset_names() -> tuple[str, ...]:
    """Names of all presets, in alphabetical order; none of them is loaded."""
    package = importlib.import_module(_ROOM)
    return tuple(sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(package.__path__)))


def preset_named(name: str) -> Preset:
    """The preset of that name.

    Args:
        name: As `preset_names` has it.

    Raises:
        ArgumentError: There is none.
    """
    if name not in preset_names():
        raise ArgumentError(
            f"Argument `preset` must be one of {', '.join(preset_names())}, but it is {name!r}. Name one of them."
        )
    found: Preset = importlib.import_module(f"{_ROOM}.{name.replace('-', '_')}").PRESET
    return found
