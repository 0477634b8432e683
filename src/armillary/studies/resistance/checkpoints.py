"""Checkpoints as rungs: first and last state of each training run, the only pair that training alone separates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from armillary.errors import ArgumentError

if TYPE_CHECKING:
    from armillary.studies.resistance.decoder_rungs import Saved

__all__ = ["arm_of", "checkpoint_rungs"]

FIRST, LAST = "-first", "-last"
"""How the names of the two rungs of a run end."""

_SEED = re.compile(r"-seed\d+$")


def checkpoint_rungs(folders: Sequence[Path]) -> tuple[Saved, ...]:
    """First and last checkpoint of every run in folders, as rungs.

    Args:
        folders: Each one run, a folder of `step-00000`, `step-00010` and so on, or a folder of such runs, as `armillary
            train` leaves it. Runs of one arm end in `-seed0`, `-seed1` and so on.

    Returns:
        Two rungs a run; the last one's neighbor is the first.

    Raises:
        ArgumentError: A folder holds no run with two checkpoints, or two runs have one name.
    """
    from armillary.studies.resistance.decoder_rungs import Saved  # late: pages read `arm_of`, and know nothing of torch

    found: dict[str, tuple[Saved, Saved]] = {}
    for folder in folders:
        runs = [one for one in (folder, *sorted(folder.glob("*"))) if len(_steps(one)) > 1]
        if not runs:
            raise ArgumentError(
                "Argument `checkpoints` must hold runs with two checkpoints (step-00000 and a later one), but "
                f"{folder} holds none. Name the folder NAME-checkpoints that `armillary train` leaves beside its "
                "record NAME."
            )
        for run in runs:
            name, steps = run.resolve().name, _steps(run)
            if name in found:
                raise ArgumentError(
                    f"Argument `checkpoints` must hold runs of different names, but two are called {name!r}. Rename "
                    "one of the folders."
                )
            first, last = (Saved(
                source=str(steps[at]), name=f"{name}{ending}", label=f"the checkpoint {steps[at].name} of {name}",
                neighbor=neighbor, change=change,
            ) for at, ending, neighbor, change in (
                (0, FIRST, "", ""), (-1, LAST, f"{name}{FIRST}", "training, from its own first weights"),
            ))  # fmt: skip
            found[name] = (first, last)
    return tuple(rung for pair in found.values() for rung in pair)


def arm_of(condition: str) -> str:
    """The arm that the last checkpoint of a run belongs to, its name without seed; empty for any other rung.

    Args:
        condition: Name of a rung.

    Example:
        >>> arm_of("recipe0-term1-seed2-last")
        'recipe0-term1'
    """
    return _SEED.sub("", condition.removesuffix(LAST)) if condition.endswith(LAST) else ""


def _steps(run: Path) -> list[Path]:
    """Checkpoints of a run, in the order of their steps."""
    steps = [one for one in run.glob("step-*") if one.name.removeprefix("step-").isdecimal()]
    return sorted(steps, key=lambda one: int(one.name.removeprefix("step-")))
