"""The idealization: tokens as unit vectors that move each other, written down ingredient by ingredient."""
