"""Which gauges there are, and which of them a decoder admits; those it does not, with the reason."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType

from armillary.errors import ArgumentError, UnsupportedModelError
from armillary.models.anatomy import Decoder
from armillary.models.gauges.declaration import Gauge
from armillary.models.gauges.verification import Untie, refusal_of
from armillary.models.gauges.wiring import wiring_of

__all__ = ["GaugeTable", "controls", "gauges", "gauges_of", "named_gauges"]


class GaugeTable:
    """What a decoder admits: `admitted`, name -> gauge, and `refused`, name -> reason. Printing it lists both.

    Args:
        admitted: as above.
        refused: as above.
    """

    def __init__(self, admitted: Mapping[str, Gauge], refused: Mapping[str, str]) -> None:
        self.admitted: Mapping[str, Gauge] = MappingProxyType(dict(admitted))
        self.refused: Mapping[str, str] = MappingProxyType(dict(refused))

    def __str__(self) -> str:
        admitted = [f"{name}: {gauge.label}" for name, gauge in self.admitted.items()]
        return "\n".join([*admitted, *(f"{name}: refused, {why}" for name, why in self.refused.items())])


def gauges(*, seed: int = 0, condition_number: float = 10.0) -> dict[str, Gauge]:
    """Every gauge by name, with the laboratory's own choices.

    Args:
        seed: of the draws.
        condition_number: of the general maps of queries, keys and values.
    """
    found = (kind for kind in _kinds() if not kind.control)
    return {kind.name: kind.standard(seed=seed, condition_number=condition_number) for kind in found}


def controls(*, seed: int = 0, condition_number: float = 10.0) -> dict[str, Gauge]:
    """Every map that is wrong on purpose, by name: each must move the outputs of a decoder it fits.

    Args:
        seed: of the draws.
        condition_number: of the general maps.
    """
    found = (kind for kind in _kinds() if kind.control)
    return {kind.name: kind.standard(seed=seed, condition_number=condition_number) for kind in found}


def named_gauges(names: tuple[str, ...], *, seed: int = 0, condition_number: float = 10.0) -> dict[str, Gauge]:
    """Gauges by name; ("all",) for every one, ("none",) or () for none.

    Raises:
        ArgumentError: there is none of such a name, one comes twice, or "all" or "none" does not stand alone.
    """
    known = gauges(seed=seed, condition_number=condition_number)
    if names == ("all",):
        return known
    if names == ("none",):
        return {}
    if "all" in names or "none" in names:
        raise ArgumentError(
            f"Argument `gauges` must be all, none or names, but it is {', '.join(names)}. Write all or none alone."
        )
    for name in names:
        if name not in known:
            raise ArgumentError(
                f"Argument `gauges` must name gauges, but there is no {name!r}. Choose among "
                f"{', '.join(known)}, or all."
            )
    if len(set(names)) < len(names):
        raise ArgumentError(f"Argument `gauges` must name each once, but it is {', '.join(names)}. Leave one out.")
    return {name: known[name] for name in names}


def gauges_of(
    decoder: Decoder, *, seed: int = 0, condition_number: float = 10.0, untie: Untie = "by copy"
) -> GaugeTable:
    """The gauges that a decoder admits, and those that it does not, with the reason.

    Nothing is computed: an admitted gauge is a claim until `decoder.under` has verified it.

    Args:
        decoder: any.
        seed: of their draws.
        condition_number: of the general maps.
        untie: "by copy" or "never": whether a tied unembedding may be copied.
    """
    everything = gauges(seed=seed, condition_number=condition_number)
    try:
        wiring = wiring_of(decoder)
    except UnsupportedModelError as trouble:
        return GaugeTable({}, dict.fromkeys(everything, str(trouble)))
    refused = {
        name: why for name, one in everything.items() if (why := refusal_of(one, wiring, untie=untie)) is not None
    }
    return GaugeTable({name: one for name, one in everything.items() if name not in refused}, refused)


def _kinds() -> Iterator[type[Gauge]]:
    """Every class of this room with choices of its own, in the order of the files and within them."""
    room = __name__.rpartition(".")[0]
    for entry in iter_modules(import_module(room).__path__):
        module = import_module(f"{room}.{entry.name}")
        own = (kind for _, kind in inspect.getmembers(module, inspect.isclass) if kind.__module__ == module.__name__)
        named = (kind for kind in own if issubclass(kind, Gauge) and hasattr(kind, "name"))
        yield from (kind for kind in named if kind.standard.__func__ is not Gauge.standard.__func__)  # type: ignore[attr-defined]
