"""Numbers of the attention maps of every block and head, taken inside the pass; the maps themselves are never kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from armillary.models.attention import attention_stream, require_same_logits
from armillary.observables.attention_declaration import MapNumber, Maps, map_numbers
from armillary.observables.gram import inner_products
from armillary.studies.collector import Collector, Declared, Setting, Variable, attainable
from armillary.studies.layout import Layout

__all__ = ["HEAD_MEAN", "Attention"]

HEAD_MEAN = "_head_mean"
"""What the name of a variable ends in that holds the mean over heads."""

_COPIES = 3  # of a sublayer's maps that the eager implementation forms at once: scores, softmax, and what it returns


class Attention(Collector):
    """One variable for each number with a value a head, and one with the mean over the heads.

    The pass that is measured is the eager one; after the first chunk the logits of a plain pass over the beginning of
    its first document are compared with it.
    """

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._numbers = _chosen(self.layout)
        self._ids: Tensor | None = None
        self._judged = False

    @classmethod
    def belongs(cls, setting: Setting) -> bool:
        """Where the plan names numbers of attention."""
        return bool(setting.layout.plan.attention)

    @classmethod
    def declared(cls, layout: Layout) -> Declared:
        """Two variables for each number that the plan names, and the axis of heads; nothing if it names none."""
        found: dict[str, Variable] = {}
        for number in _chosen(layout):
            attrs = _attributes(number, layout)
            mean = {**attrs, "definition": f"{attrs['definition']}; mean over the heads where it is defined"}
            found[number.name] = Variable(("condition", "layer", "head", "document"), attrs)
            found[number.name + HEAD_MEAN] = Variable(("condition", "layer", "document"), mean)
        return Declared(found, {"head": np.arange(layout.heads)} if found else {})

    @classmethod
    def held(cls, layout: Layout) -> int:
        """The maps of one sublayer."""
        return _COPIES * layout.heads * layout.tokens**2 * 4 if layout.plan.attention else 0

    @contextmanager
    def listening(self) -> Iterator[None]:
        """The eager pass, then the comparison with a plain one.

        Raises:
            CheckMissed: The logits with and without capture differ by more than rounding.
        """
        with attention_stream(self.setting.decoder, self._take):
            yield
        if self._ids is not None and not self._judged:
            require_same_logits(self.setting.decoder, self._ids)
            self._judged = True

    def finish(self, final: Tensor, ids: Tensor) -> None:
        """Remember which document to judge once the hooks are gone."""
        self._ids = ids[:1]

    def _take(self, layer: int, maps: Tensor, stream: Tensor) -> None:
        row = self.layout.rows.get(layer)
        if row is None:
            return
        stream = stream.to(torch.promote_types(stream.dtype, torch.float32))
        unit = stream / stream.norm(dim=-1, keepdim=True)  # a zero row gives NaN: what depends on it is undefined
        overlaps = inner_products(unit).clamp_(-1.0, 1.0)
        for document, (one, of_rows) in enumerate(zip(maps, overlaps, strict=True)):  # one fits the processor's cache
            held = Maps(one, of_rows)
            for number in self._numbers:
                values = number.of(held).double().cpu()
                self.arrays[number.name][document, row] = values.numpy()
                self.arrays[number.name + HEAD_MEAN][document, row] = float(values.nanmean())


def _chosen(layout: Layout) -> tuple[MapNumber, ...]:
    known = map_numbers()
    return tuple(known[name] for name in layout.plan.attention)


def _attributes(number: MapNumber, layout: Layout) -> dict[str, object]:
    return {
        "symbol": number.symbol,
        "definition": number.definition,
        "source": number.source,
        "undefined": f"{number.undefined}; at the embedding, which no attention comes before",
        "tap": "attention",
        "tokens": "all",
        "preparation": "normalize" if number.needs_overlaps else "as given",
        **attainable(*number.attainable(layout.tokens)),
    }
