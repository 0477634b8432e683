"""The figure of groups followed through depth: how many are born, merge, split and are lost, and who stays together."""

from __future__ import annotations

from armillary.figures.described import told
from armillary.figures.drawing import Axis, Drawing, Panel, View
from armillary.figures.reading import Reading
from armillary.figures.registry import figure

__all__ = ["groups_followed"]

PANELS = (
    ("group_persisting_share", "tokens that stay with their group", "share of tokens"),
    ("group_agreement", "agreement with the layer before", "adjusted Rand index"),
    ("groups_continued", "groups that go on", "groups"),
    ("groups_born", "born", "groups"),
    ("groups_merged", "mergers", "events"),
    ("groups_split", "splits", "events"),
    ("groups_lost", "lost", "groups"),
    ("groups_regrouped", "exchanged members", "events"),
)
"""Number, title and unit, in the order of the panels."""


@figure
def groups_followed(reading: Reading) -> Drawing | None:
    """Births, mergers, splits and losses of groups between neighboring layers, and the share of tokens that stay."""
    panels = []
    for name, title, unit in PANELS:
        curves = reading.by_condition(name)
        if curves and (name != "groups_regrouped" or any(isinstance(y, float) and y > 0 for c in curves for y in c.y)):
            panels.append(Panel(title, reading.depth_axis(), Axis(unit), curves))
    if not panels:
        return None
    name = "groups_born" if "groups_born" in reading.dataset else PANELS[0][0]
    return Drawing(
        "groups_followed",
        "Groups followed from layer to layer",
        f"What became of the groups since the measured layer before. Grouping: {reading.attribute(name, 'grouping')}; "
        f"{reading.attribute(name, 'linked')}. Rows centered, then normalized; first token left out. A number at a "
        "layer speaks of the step that leads to it, so nothing stands at the first. Agreement is 1 where both layers "
        "group alike and 0 on average for unrelated groupings; tokens alone count in it as groups. Shaded: "
        "document-bootstrap intervals.",
        told("Groups followed through depth", tuple(panels)),
        (View((), tuple(panels)),),
        columns=3,
    )
