"""`armillary lab --states`: states captured elsewhere, from the options that describe them to a study."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from armillary.cli.study import layer_ranges
from armillary.errors import ArgumentError

if TYPE_CHECKING:
    from armillary.studies.captured import CapturedStates

__all__ = ["Axes", "StatesArray", "StatesFile", "captured"]

StatesFile = Annotated[
    Path | None,
    typer.Option(
        "--states",
        help="File of states captured elsewhere (.npy, .npz, .safetensors or .pt) in place of a model and documents; "
        "beside them it may hold `mask` and `layers`. What needs the decoder is left out. --layers then gives the "
        "number of each layer along its axis.",
    ),
]
Axes = Annotated[
    str | None,
    typer.Option(help="With --states: its axes in order, documents,layers,tokens,width in whichever order they lie."),
]
StatesArray = Annotated[
    str | None, typer.Option(help="With --states: name of the array. Default: the only one with four axes.")
]

_OF_STATES = (
    "states", "axes", "states_array", "layers", "max_documents", "max_tokens", "batch_size", "seed", "level", "out",
    "as_json", "quiet",
)  # fmt: skip
"""What says something of states; every other option would be ignored, and is refused instead."""


def captured(
    states: Path, *, axes: str | None, array: str | None, layers: str | None, max_documents: int | None,
    max_tokens: int | None, batch_size: int, seed: int, level: float, given: Sequence[str],
) -> CapturedStates:  # fmt: skip
    """The study of states that the options ask for.

    Raises:
        ArmillaryError: One sentence about the first option that does not fit.
    """
    from armillary.models.states import AXES, States
    from armillary.studies.captured import CapturedStates

    if others := [name for name in given if name not in _OF_STATES]:
        raise ArgumentError(
            f"Argument `--{others[0].replace('_', '-')}` must be left out with --states, but was given: states bring "
            "neither decoder nor texts with them, and are measured here and now. Leave it out."
        )
    if axes is None:
        raise ArgumentError(
            "Argument `--axes` must say what the axes of --states are, but was not given. Write "
            f"--axes {','.join(AXES)} in the order in which they lie."
        )
    numbers = None if layers is None else [layer for one in layer_ranges(layers) or () for layer in one]
    named = tuple(one.strip() for one in axes.split(","))
    found = States.from_file(states, axes=named, layers=numbers, array=array, tokens=max_tokens)
    chosen = found if max_documents is None else found.first(max_documents)
    return CapturedStates(chosen, level=level, seed=seed, batch_size=batch_size)
