"""Pictures of a record: one function declares a figure, and page and print draw the same declaration."""

from __future__ import annotations

from armillary.figures.drawing import Axis, Control, Curve, Drawing, Panel, Rule, Style, Tiles, View
from armillary.figures.printed import FORMATS, write_figures
from armillary.figures.reading import Reading
from armillary.figures.registry import drawings, figure, figure_names

__all__ = [
    "figure",
    "figure_names",
    "drawings",
    "write_figures",
    "FORMATS",
    "Reading",
    "Drawing",
    "View",
    "Panel",
    "Curve",
    "Rule",
    "Tiles",
    "Axis",
    "Control",
    "Style",
]
