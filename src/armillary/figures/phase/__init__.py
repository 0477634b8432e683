"""Figures that presets of `armillary phase` bring along, one file a preset; results without one are drawn plainly."""
