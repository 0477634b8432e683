"""Groups followed from layer to layer: how many are born, merge, split and are lost, and how many tokens stay."""

from __future__ import annotations

import numpy as np

from armillary.observables.group_history import EVENTS, followed_groups
from armillary.observables.grouping import labels_of
from armillary.studies.batch import TapBatch
from armillary.studies.collector import Collector, Declared, Setting, Variable, attainable
from armillary.studies.layout import Layout
from armillary.studies.plan import CENTERED

__all__ = ["AGREEMENT", "PERSISTING", "History", "event_name"]

PERSISTING, AGREEMENT = "group_persisting_share", "group_agreement"

_WORDS = {
    "continued": "groups that go on as one group",
    "born": "groups without a forerunner",
    "merged": "groups that several came together in",
    "split": "groups that fell into several",
    "regrouped": "sets of groups whose members were exchanged",
    "lost": "groups that nothing is left of",
}


def event_name(kind: str) -> str:
    """The variable of one kind of event, `groups_merged` for instance."""
    return f"groups_{kind}"


class History(Collector):
    """Events between each measured layer and the one measured before it; nothing at the first."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._before: list[np.ndarray | None] = []

    @classmethod
    def declared(cls, layout: Layout) -> Declared:
        """One count for each kind of event, the share of tokens that stay, and the agreement of the two groupings."""
        plan = layout.plan
        about = {
            "source": "groups linked by a majority of their members",
            "undefined": "a row of zero length, and at the first measured layer",
            "tap": "block",
            "tokens": "without_first",
            "preparation": ", ".join(CENTERED),
            "grouping": str(plan.followed),
            "linked": str(plan.majority),
        }
        how = f"since the measured layer before, under {plan.followed}, {plan.majority}"
        dims = ("condition", "layer", "document")
        found = {
            event_name(kind): Variable(
                dims,
                {
                    "symbol": kind,
                    "definition": f"number of {_WORDS[kind]} {how}",
                    **about,
                    **attainable(0.0, (layout.tokens - 1) // plan.majority.least),
                },
            )
            for kind in EVENTS
        }
        found[PERSISTING] = Variable(
            dims,
            {
                "symbol": "stay",
                "definition": f"share of all tokens that stay in a group that continues {how}",
                **about,
                **attainable(0.0, 1.0),
            },
        )
        found[AGREEMENT] = Variable(
            dims,
            {
                "symbol": "ARI",
                "definition": "adjusted Rand index of the groups of the measured layer before and of this one, under "
                f"{plan.followed}: 1 if they are the same, 0 on average for unrelated ones; a noise token is a group",
                **about,
                "source": "Hubert & Arabie 1985",
                **attainable(-1.0, 1.0),
            },
        )
        return Declared(found)

    @classmethod
    def held(cls, layout: Layout) -> int:
        """Labels of two layers."""
        return 16 * layout.tokens

    def begin(self, documents: int) -> None:
        """Nothing was seen before the first layer of a chunk."""
        super().begin(documents)
        self._before = []

    def add(self, batch: TapBatch) -> None:
        """Group the tokens at one layer, and follow the groups from the layer before."""
        if batch.tap.place != "block":
            return
        cloud = batch.stream.shared[1].prepared(CENTERED)
        labels = labels_of(cloud, self.layout.plan.followed)
        for document, (before, after) in enumerate(zip(self._before, labels, strict=bool(self._before))):
            if before is None or after is None:
                continue
            step = followed_groups(np.stack([before, after]), by=self.layout.plan.majority).steps[0]
            for kind in EVENTS:
                self.arrays[event_name(kind)][document, batch.row] = step.count(kind)
            self.arrays[PERSISTING][document, batch.row] = step.persisting_share
            self.arrays[AGREEMENT][document, batch.row] = step.agreement
        self._before = labels
