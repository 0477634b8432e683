"""From what was written on the command line to a study: conditions, documents, layers, each judged before it runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from armillary.errors import ArgumentError, UnsoundError
from armillary.studies.presets import Preset

if TYPE_CHECKING:
    from armillary.cli.corpus import Corpus
    from armillary.cli.source import Source
    from armillary.models.conditions import Condition
    from armillary.models.decoder import Decoder
    from armillary.studies.laboratory import Laboratory

__all__ = ["chosen_layers", "laboratory", "layer_ranges", "require_interval"]


def require_interval(*, level: float, documents: int) -> None:
    """Refuse, before a model is loaded, what no interval can be given for."""
    if not 0 < level < 1:
        remedy = f"Write {level / 100:g}." if 50 <= level < 100 else "Write 0.95, for instance."
        raise ArgumentError(f"Argument `--level` must lie between 0 and 1, but it is {level:g}. {remedy}")
    from armillary.studies.laboratory import Laboratory

    if level > (highest := 1 - 10 / Laboratory.resamples):
        raise ArgumentError(
            f"Argument `--level` must be at most {highest:g}, so that five of {Laboratory.resamples} resamples lie "
            f"beyond either end, but it is {level:.12g}. Lower it."
        )
    if documents < 2:
        raise UnsoundError(
            "Argument `--max-documents` must be at least 2, but it is 1: tokens of one document are dependent, so one "
            "document gives no interval. Ask for more."
        )


def laboratory(
    preset: Preset, *, source: Source, corpus: Corpus, conditions: list[str] | None, layers: str | None,
    max_documents: int | None, max_tokens: int | None, batch_size: int, seed: int, level: float,
    threads: int | None, memory_limit: str | None, gauges: list[str] | None = None,
) -> Laboratory:  # fmt: skip
    """The laboratory that the options of `armillary lab` ask for, with its decoder loaded and its documents cut.

    Raises:
        ArmillaryError: One sentence about the first option that does not fit.
    """
    from armillary.studies.laboratory import Laboratory
    from armillary.studies.memory import bytes_of

    asked, ranges = _conditions(conditions or preset.conditions), layer_ranges(layers)
    reparametrized = _gauges(gauges)
    decoder = source.load()
    if decoder.tokenizer is None:
        raise ArgumentError(
            f"Argument `--model` must hold a tokenizer that cuts the documents, but {decoder.facts.name} holds none. "
            "Put its tokenizer.json beside the weights, or name one with `--tokenizer`."
        )
    if conditions is None and decoder.facts.released_spread is None:
        asked = {text: one for text, one in asked.items() if not one.name.startswith("initial-released")}
    for text, condition in asked.items():
        _require_fit(text, condition, decoder)
    chosen = chosen_layers(ranges, decoder.facts.layers, layers)
    evaluation = corpus.evaluation(decoder, limit=max_documents or preset.documents, tokens=max_tokens or preset.tokens)
    own = {"conditions": conditions or None, "layers": layers, "max_documents": max_documents, "max_tokens": max_tokens}
    return Laboratory(
        decoder, evaluation, list(asked.values()), layers=chosen,
        calibration=corpus.calibration(decoder, evaluation), level=level, seed=seed, batch_size=batch_size,
        threads=threads, gauges=reparametrized, memory_limit=None if memory_limit is None else bytes_of(memory_limit),
        preset=preset.but(*(name for name, given in own.items() if given is not None)),
    )  # fmt: skip


def _gauges(texts: list[str] | None) -> tuple[str, ...]:
    """The re-parametrizations asked for; an unknown name is refused before a model is loaded."""
    from armillary.models.gauges.listing import named_gauges

    asked = tuple(one.strip() for given in texts or ("all",) for one in given.split(","))
    return asked if named_gauges(asked) else ()


def _conditions(texts: Sequence[str]) -> dict[str, Condition]:
    """The conditions asked for, by what was written; each once."""
    from armillary.models.conditions import parse_condition

    found: dict[str, Condition] = {}
    for text in (one.strip() for given in texts for one in given.split(",")):
        condition = parse_condition(text)
        if condition in found.values():
            raise ArgumentError(
                f"Argument `--conditions` must name each condition once, but {condition.name} comes twice. Leave one "
                "out."
            )
        found[text] = condition
    return found


def _require_fit(text: str, condition: Condition, decoder: Decoder) -> None:
    try:
        condition.check_fits(decoder)
    except ArgumentError as error:
        raise type(error)(f"Argument `--conditions` must fit the decoder, but {text!r} does not: {error}") from error


def layer_ranges(text: str | None) -> list[range] | None:
    """The ranges that a text such as 0,5,10-30 names, both ends included."""
    found: list[range] = []
    for part in (text or "").split(",") if text is not None else ():
        match = re.fullmatch(r"\s*([0-9]+)(?:-([0-9]+))?\s*", part)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise ArgumentError(f"Argument `--layers` must look like 0,5,10-30, but it is {text!r}. Use whole numbers.")
        found.append(range(int(match[1]), int(match[2] or match[1]) + 1))
    return found or None


def chosen_layers(ranges: list[range] | None, last: int, text: str | None) -> list[int] | None:
    """The layers that ranges name, ascending; None where none were asked for.

    Raises:
        ArgumentError: A layer beyond the last block.
    """
    if ranges is None:
        return None
    if max(one.stop for one in ranges) > last + 1:
        raise ArgumentError(
            f"Argument `--layers` must lie within 0 (embedding) and {last}, the blocks of this decoder, but it is "
            f"{text!r}. Layer l is the stream after block l."
        )
    return sorted({layer for one in ranges for layer in one})
