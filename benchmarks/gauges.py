"""Every gauge of the default decoder verified, and which laboratory numbers it moved by how much at which layer.

    python benchmarks/gauges.py [--layers 0,5,12,15,20,30] [--documents 4] [--tokens 64] [--model ...]

A few minutes on one core. Proofs and places first, then, for each gauge and layer, the number at each place that moved
most, and last the largest relative move of any number of the stream. Maps that are wrong on purpose end the list.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import armillary as am
from armillary.models.gauges.listing import controls
from armillary.records.gauge_summary import number_words, summary_text
from armillary.records.gauged import PLACE_WORDS

JUDGED = {"level": 0.95, "resamples": 2000, "seed": 0}
BASIS = ("largest_coordinate_share", "coordinate_kurtosis")


def table(found: am.GaugedNumbers) -> str:
    """One line for each gauge, place and layer where something moved: the number that moved most."""
    lines = [f"{'gauge':20} {'place':24} layer  number that moved most, before -> after [interval of the difference]"]
    for gauge in found.under:
        made = found.verdicts(gauge, **JUDGED)
        judged = [
            entry for entry in zip(found.numbers, made, strict=True) if entry[1].word == "changes" and entry[1].resolved
        ]
        for place in PLACE_WORDS:
            for layer in sorted({number.layer for number, _ in judged if number.place == place}):
                here = [entry for entry in judged if (entry[0].place, entry[0].layer) == (place, layer)]
                number, verdict = max(here, key=lambda entry: abs(np.nan_to_num(entry[1].relative)))
                move = f"{verdict.before:.3g} -> {verdict.after:.3g} [{verdict.low:.3g}, {verdict.high:.3g}]"
                words = f"{number_words(number.number)}: {move}, {len(here)} numbers moved"
                lines.append(f"{gauge:20} {PLACE_WORDS[place]:24} {layer:5}  {words}")
    return "\n".join(lines)


def stillness(found: am.GaugedNumbers) -> str:
    """The largest relative move of a stream number that is not one of single coordinates."""
    kept = [k for k, one in enumerate(found.numbers) if one.place == "stream" and not one.number.startswith(BASIS)]
    lines = []
    for gauge, one in found.under.items():
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = np.abs(one.after - found.before)[:, kept] / np.abs(found.before[:, kept])
        apart = np.where(np.isfinite(apart), apart, 0.0)
        k = int(apart.max(axis=0).argmax())
        lines.append(f"{gauge:20} {apart.max():.1e} ({found.numbers[kept[k]]})")
    return "\n".join(lines)


def main() -> None:
    """Print all of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model")
    parser.add_argument("--layers", default="0,5,12,15,20,30")
    parser.add_argument("--documents", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=64)
    chosen = parser.parse_args()
    decoder = am.load_decoder(chosen.model, device="cpu")
    documents = am.Documents.from_topics(decoder.tokenizer, limit=chosen.documents, tokens=chosen.tokens)
    layers = tuple(map(int, chosen.layers.split(",")))
    found = am.numbers_under(decoder, documents, layers=layers)
    print(summary_text(found, **JUDGED), "\n")
    print(table(found), "\n")
    print("largest relative move of a stream number, coordinates apart:")
    print(stillness(found), "\n")
    trial = am.GaugeTrial(decoder, documents)
    for wrong in controls().values():
        if trial.refusal(wrong) is None:
            try:
                trial.under(wrong)
            except am.CheckMissed as missed:
                print(missed)


if __name__ == "__main__":
    main()
