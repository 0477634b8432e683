"""What measuring costs: a bare forward pass against the same pass plus (a) the core set, (b) all of the laboratory.

The three are alternated, batch by batch, over the same documents in one run, so that the machine's drift cancels in the
ratios. Prints wall and processor seconds and their ratios:

    (a) mean overlap, squared mean direction, participation rank as given / normalized / centered, overlap histogram and
        float32 spectrum at the 31 taps of the stream; target 1.10 of the bare pass to the final norm;
    (b) everything `armillary lab` computes by default at every tap, statement and held-out loss included; target 1.6.
        The loss needs the unembedding, which the bare pass to the final norm leaves out: both denominators are printed.

Usage: python benchmarks/measure_overhead.py [--documents 32] [--tokens 256] [--batch-size 4] [--threads 2]
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "20000")  # as the command line does, see armillary/cli/__init__.py

import torch

from armillary.models.capture import Tap, stream
from armillary.models.conditions import Trained
from armillary.models.decoder import load_decoder
from armillary.models.documents import Documents
from armillary.observables.alignment import mean_overlap, overlap_histogram, squared_mean_direction
from armillary.observables.cloud import Cloud
from armillary.observables.rank import participation_rank
from armillary.studies.laboratory import Laboratory

CORE = (
    mean_overlap.after("normalize"),
    squared_mean_direction.after("normalize"),
    participation_rank.after(),
    participation_rank.after("normalize"),
    participation_rank.after("center"),
)


class Clock:
    """Wall and processor seconds, summed over calls."""

    def __init__(self) -> None:
        self.wall = self.processor = 0.0

    def run(self, work: Callable[[], Any]) -> Any:
        wall, processor = time.perf_counter(), time.process_time()
        result = work()
        self.wall += time.perf_counter() - wall
        self.processor += time.process_time() - processor
        return result


def core(tap: Tap, residual: torch.Tensor, read: torch.Tensor, *, spectrum: bool = True) -> None:
    """The core set of one tap, the way the laboratory would take it."""
    if tap.place != "block":
        return
    cloud = Cloud(residual)
    for measurement in CORE:
        measurement.of(cloud)
    unit = cloud.after("normalize")
    overlap_histogram(unit.pairs, bins=64)
    if spectrum:
        _ = unit.singular_values
    cloud.forget()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("documents", 32), ("tokens", 256), ("batch-size", 8), ("threads", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    decoder = load_decoder()
    torch.set_num_threads(asked.threads)
    documents = Documents.from_topics(decoder.tokenizer, limit=asked.documents, tokens=asked.tokens)
    others = Documents.from_topics(decoder.tokenizer, limit=4, tokens=asked.tokens, offset=asked.documents)
    study = Laboratory(decoder, documents, [Trained()], calibration=others, batch_size=asked.batch_size)
    condition = study.conditions[0]
    calibrations = study.calibrate(condition, decoder)
    bench = study.bench(condition, decoder, calibrations)

    def measured(sink: Any, batch: torch.Tensor) -> torch.Tensor:
        with stream(decoder, sink):
            return decoder.hidden(batch)

    clocks = {name: Clock() for name in ("bare", "bare with loss", "core, no spectrum", "core", "laboratory")}
    with torch.inference_mode():
        decoder.hidden(documents.token_ids[:1])
        for chunk in study.partition(condition):
            batch = documents.token_ids[chunk.start : chunk.stop]
            clocks["bare"].run(lambda ids=batch: decoder.hidden(ids))
            clocks["bare with loss"].run(lambda ids=batch: decoder.loss(decoder.hidden(ids), ids))
            clocks["core, no spectrum"].run(lambda ids=batch: measured(partial(core, spectrum=False), ids))
            clocks["core"].run(lambda ids=batch: measured(core, ids))
            clocks["laboratory"].run(lambda ids=batch: bench.measure(ids, documents.titles[: len(ids)]))
    print(f"{decoder.facts.name}, {len(documents)} documents x {documents.tokens} tokens, {asked.threads} threads")
    for name, clock in clocks.items():
        print(f"  {name:17s} {clock.wall:7.2f} s wall {clock.processor:7.2f} s processor")
    bare = clocks["bare"]
    loss = clocks["bare with loss"]
    rows = (
        ("core, no spectrum", 1.10, bare),
        ("core", 1.10, bare),
        ("laboratory", 1.6, bare),
        ("laboratory", 1.6, loss),
    )
    for name, target, other in rows:
        under = "bare pass" if other is bare else "bare pass with loss"
        clock = clocks[name]
        print(
            f"  {name} / {under}: {clock.wall / other.wall:.2f} wall, "
            f"{clock.processor / other.processor:.2f} processor (target {target})"
        )


if __name__ == "__main__":
    main()
