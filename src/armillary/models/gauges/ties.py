"""An unembedding that is the embedding, made a tensor of its own by copy, so that saving and loading keep it one."""

from __future__ import annotations

from typing import Any

from torch import nn

from armillary.models.anatomy import Decoder

__all__ = ["untied"]


def untied(decoder: Decoder) -> None:
    """Give the unembedding a copy of the tensor it shares; the function stays, and the configuration says it.

    Without the configuration's flag the library would tie the two again when it next loads the model, or is asked to.

    Args:
        decoder: changed in place: hand over a copy.
    """
    head: Any = decoder.head
    head.weight = nn.Parameter(head.weight.detach().clone(), requires_grad=False)
    decoder.model.config.tie_word_embeddings = False
    decoder.model.all_tied_weights_keys = decoder.model.get_expanded_tied_weights_keys(all_submodels=False)
