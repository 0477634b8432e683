"""Pictures of a record: one function declares a figure, and page and print draw the same declaration."""

from __future__ import annotations

from armillary.figures.diagram import DiagramReading
from armillary.figures.drawing import Axis, Control, Curve, Drawing, Panel, Playback, Rule, Style, Tiles, View
from armillary.figures.printed import FORMATS, write_figures
from armillary.figures.reading import Reading
from armillary.figures.registry import (
    drawings,
    figure,
    figure_names,
    figure_of,
    reading_of,
)
from armillary.figures.run import Run

__all__ = [
    "figure",
    "figure_of",
    "figure_names",
    "reading_of",
    "drawings",
    "write_figures",
    "FORMATS",
    "Reading",
    "Run",
    "DiagramReading",
    "Drawing",
    "View",
    "Panel",
    "Curve",
    "Rule",
    "Tiles",
    "Playback",
    "Axis",
    "Control",
    "Style",
]
