"""A run keeps to a limit of memory, and says beforehand what it takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

from armillary.errors import ArgumentError
from armillary.models.conditions import Initial, Trained
from armillary.models.documents import Documents
from armillary.studies.laboratory import Laboratory
from armillary.studies.memory import MIB, bytes_of, in_words
from armillary.studies.plan import Plan
from tiny import tiny_decoder, tiny_ids


def study(**changed: Any) -> Laboratory:
    chosen: dict[str, Any] = {"conditions": [Trained()], "batch_size": 6}
    documents = Documents.from_token_ids(tiny_ids(documents=6, tokens=48))
    return Laboratory(tiny_decoder("llama"), documents, **(chosen | changed))


def test_the_batch_size_follows_from_the_limit_is_recorded_and_the_numbers_are_those_of_that_batch_size(
    tmp_path: Path,
) -> None:
    whole = study().need
    limit = whole.fixed + 3 * whole.document + whole.document // 2
    found = study(memory_limit=limit).run(tmp_path / "limited")
    assert found.study["batch_size"] == 3 and found.study["memory_limit"] == limit
    xr.testing.assert_equal(found.dataset, study(batch_size=3).run(tmp_path / "three").dataset)
    assert study(memory_limit=whole.beyond).settled({}).batch_size == 6
    begun = study(memory_limit=limit).settled({"memory_limit": limit, "batch_size": 2, "threads": 1})
    assert begun.batch_size == 2  # a run that was cut short goes on with its own


def test_a_limit_that_one_document_does_not_fit_is_refused_with_the_least_one(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"must be at least (\d+MiB) .* but is 5MiB\. Allow (\d+MiB)") as error:
        study(memory_limit=5 * MIB).run(tmp_path / "record")
    assert list(tmp_path.iterdir()) == []
    least = str(error.value).split("Allow ")[1].split(",")[0]
    assert study(memory_limit=bytes_of(least)).run(tmp_path / "record").study["batch_size"] >= 1


def test_a_fresh_model_stands_beside_the_trained_one() -> None:
    fresh = study(conditions=[Trained(), Initial(seed=0, recipe=0.02)]).need
    assert fresh.fixed - study().need.fixed == fresh.model


def test_documents_that_pass_once_more_in_the_wider_type_are_counted() -> None:
    once, twice = (study(batch_size=2, plan=Plan(rounding_documents=count)).need for count in (0, 2))
    assert twice.beyond - once.beyond == 2 * twice.wider + twice.block > 0


def test_sizes_are_read_in_human_units() -> None:
    assert bytes_of("300") == bytes_of(300) == bytes_of("300MiB") == bytes_of(" 300 mib") == 300 * MIB
    assert bytes_of("1.5GiB") == 1536 * MIB and bytes_of("2GB") == 2 * 10**9
    assert in_words(MIB + 1) == "2MiB" and in_words(2 * MIB - 1, down=True) == "1MiB"
    for bad in ("", "much", "0", "-3MiB", "3 furlongs"):
        with pytest.raises(ArgumentError, match="300MiB or 2GiB"):
            bytes_of(bad)


LIMITED = """
import re, sys
import torch
from transformers import GPT2Config, GPT2LMHeadModel
import armillary as am
from armillary.models.decoder import decoder_from_model

def held(key):
    with open("/proc/self/status") as status:
        return int(re.search(key + r":\\s+(\\d+)", status.read())[1]) * 1024

torch.manual_seed(0)
shape = {"vocab_size": 1000, "n_embd": 256, "n_layer": 12, "n_head": 4, "n_positions": 512}
config = GPT2Config(**shape, bos_token_id=None, eos_token_id=None)
decoder = decoder_from_model(GPT2LMHeadModel(config).eval(), None, name="random")
ids = torch.randint(0, 1000, (200, 512), generator=torch.Generator().manual_seed(1))
documents = am.Documents.from_token_ids(ids)
measurements = [am.mean_overlap.after("normalize"), am.participation_rank.after("normalize")]
study = am.Laboratory(
    decoder, documents, [am.Trained()], measurements, layers=LAYERS, memory_limit=300 * 2**20, threads=1,
    plan=am.Plan(attention=()),
)
before = held("VmRSS")
cost = study.settled({}).need.beyond
record = study.run(FOLDER)
print("peak", held("VmHWM") - before, "said", cost, "batch", record.study["batch_size"])

# the same with all states in memory, and in plain NumPy
import numpy as np
from armillary.models.capture import capture
states = capture(decoder, ids[:4], batch_size=4).states.double().numpy()
for place, layer in enumerate(record.dataset["layer"].values):
    rows = states[:, layer]
    rows = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    gram = rows @ rows.transpose(0, 2, 1)
    upper = np.triu_indices(512, 1)
    overlap = gram[:, upper[0], upper[1]].mean(-1)
    rank = 512.0**2 / (gram**2).sum((1, 2))
    where = {"condition": "trained", "layer": layer, "tap": "block", "tokens": "all", "preparation": "normalize"}
    for name, expected in (("mean_overlap", overlap), ("participation_rank", rank)):
        np.testing.assert_allclose(record.dataset[name].sel(where).values[:4], expected, rtol=1e-6, atol=1e-6)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read where Linux writes it")
def test_two_hundred_documents_of_512_tokens_stay_within_300_mib_beyond_the_model(tmp_path: Path) -> None:
    code = f"FOLDER, LAYERS = {str(tmp_path / 'record')!r}, [12]\n" + LIMITED
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr[-2000:]
    _, peak, _, said, _, batch = ended.stdout.split()
    assert int(peak) <= int(said) <= 300 * MIB and int(batch) >= 1
