"""The picture of a record at a glance: order parameter and mean overlap against depth, every condition.

python -m armillary.figures.picture RECORD docs/picture.png
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from armillary.errors import ArgumentError
from armillary.figures.depth import ALIGNMENT, ORDER, depth_panels, plain_drawing
from armillary.figures.drawing import Drawing
from armillary.figures.printed import FORMATS, print_drawing
from armillary.figures.reading import Reading

if TYPE_CHECKING:
    from armillary.records.record import Record

__all__ = ["picture", "write_picture"]


def picture(reading: Reading) -> Drawing:
    """Order parameter and mean overlap side by side.

    Args:
        reading: the record's reading.

    Raises:
        ArgumentError: the record has neither.
    """
    panels = depth_panels(reading, ORDER[0], ALIGNMENT[0])
    drawing = plain_drawing("picture", "Token directions against depth", panels, {}, "")
    if drawing is None:
        raise ArgumentError(
            "Argument `record` must hold the order parameter of centered rows or the mean overlap, but it holds "
            "neither. Run `armillary lab` with its own measurements."
        )
    return drawing


def write_picture(record: Record | Reading, path: str | Path) -> Path:
    """Draw the picture of a record into one file.

    Args:
        record: an opened record, or a reading of it.
        path: a file that ends in .png (300 dots per inch), .svg or .pdf.

    Returns:
        The file.

    Raises:
        ArgumentError: the ending is none of the three, or the record lacks both numbers.
    """
    target = Path(path)
    ending = target.suffix.removeprefix(".")
    if ending not in FORMATS:
        raise ArgumentError(f"Argument `path` must end in one of {list(FORMATS)}, but is {target}. Name such a file.")
    reading = Reading.of(record)
    target.parent.mkdir(parents=True, exist_ok=True)
    named = replace(picture(reading), name=target.stem)
    return print_drawing(named, target.parent, (ending,), source=reading.digest)[0]


if __name__ == "__main__":
    from armillary.records.record import Record

    sys.stdout.write(f"{write_picture(Record.open(sys.argv[1]), sys.argv[2])}\n")
