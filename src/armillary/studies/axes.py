"""What every axis of a record counts, in words: `long_name` of its coordinate, as plotting and netCDF tools read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray

__all__ = ["AXES", "with_words"]

AXES = {
    "condition": "state of the decoder: trained, fresh, or with a part removed",
    "layer": "0 is the embedding, l the residual stream after block l",
    "tap": "where states are read: block (after it), mid (after attention), and with _read what the next norm hands on",
    "tokens": "which tokens of a document took part",
    "preparation": "ordered steps before a measurement; as given is none",
    "document": "title of the document",
    "component": "singular direction, largest first, from 0",
    "position": "place of a token in its document, from 0",
    "coordinate": "coordinate of the residual stream, from 0",
    "head": "attention head of a block, from 0",
    "bin": "center of a bin of overlaps; the last bin is closed",
    "threshold": "grouping threshold, an angle",
    "band": "positions of both tokens of a pair, first and last",
    "histogram_tokens": "which tokens took part in a histogram",
    "histogram_preparation": "ordered steps before a histogram",
    "spectrum_preparation": "ordered steps before a spectrum",
    "transformation": "map applied to the states; none for the states themselves",
    "statement_layer": "layer whose states were mapped",
    "statement_measurement": "measurement | preparation, before and after each map",
    "isotropic_measurement": "measurement | preparation, of a cloud of independent uniform directions",
}
"""Name of an axis -> what it counts."""


def with_words(dataset: xarray.Dataset) -> xarray.Dataset:
    """The dataset with the words of every axis known here; what an axis says of itself stays.

    Args:
        dataset: With labeled axes; its attributes are added to in place.

    Returns:
        The dataset.
    """
    for name, words in AXES.items():
        if name in dataset.coords:
            dataset[name].attrs.setdefault("long_name", words)
    return dataset
