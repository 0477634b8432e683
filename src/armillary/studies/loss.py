"""The next-token loss of each document, taken on the pass that is measured."""

from __future__ import annotations

from torch import Tensor

from armillary.studies.collector import Collector, Declared, Variable
from armillary.studies.layout import Layout

__all__ = ["Loss"]


class Loss(Collector):
    """Variable `loss`, one number for each condition and document."""

    @classmethod
    def declared(cls, layout: Layout) -> Declared:
        """One variable."""
        attrs = {
            "symbol": "loss",
            "definition": "next-token cross entropy on the same tokens, nats per token",
            "source": "the decoder's own head",
            "undefined": "never",
            "units": "nats per token",
            "lowest": 0.0,
        }
        return Declared({"loss": Variable(("condition", "document"), attrs)})

    def finish(self, final: Tensor, ids: Tensor) -> None:
        """The decoder's own head on the final states."""
        self.arrays["loss"][:] = self.setting.decoder.loss(final, ids).numpy()
