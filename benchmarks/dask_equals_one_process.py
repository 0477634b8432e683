"""A thousand generated documents through two Dask workers, compared bit for bit with one process.

Run `python benchmarks/dask_equals_one_process.py [--documents 1000] [--tokens 32]`. A tiny random decoder is written
to a folder with a byte tokenizer, the documents to a folder of text files, and `armillary lab` is called twice.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from tiny import saved, tiny_model

WORDS = ("sphere", "token", "layer", "turns", "toward", "each", "other", "mean", "depth", "grows", "slowly")


def written(folder: Path, count: int, tokens: int) -> Path:
    folder.mkdir()
    chance = random.Random(0)
    for number in range(count):
        text = " ".join(chance.choice(WORDS) for _ in range(tokens))
        (folder / f"{number:05d}.txt").write_text(f"{number} {text}\n", encoding="utf-8")
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=32)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        model = saved(tiny_model("llama", layers=2), Path(place) / "model")
        texts = written(Path(place) / "texts", asked.documents, asked.tokens)
        hashes = {}
        for name, options in {"one process": [], "two Dask workers": ["--backend", "dask", "--workers", "2"]}.items():
            record = Path(place) / name.replace(" ", "-")
            code = (
                f"import sys; sys.argv[1:] = {_arguments(model, texts, asked, record, options)!r}; {_WITHOUT_PICTURES}"
            )
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            hashes[name] = json.loads((record / "provenance.json").read_text())["record"]["measurements"]
            print(f"{name}: {time.perf_counter() - began:.0f} s, measurements {hashes[name]}")
        print("equal to the last bit" if len(set(hashes.values())) == 1 else "DIFFERENT")
        sys.exit(len(set(hashes.values())) - 1)


_WITHOUT_PICTURES = (
    "from armillary.cli import lab, main; lab.drawn = lambda record, **_: record.path / 'report.html'; main()"
)


def _arguments(model: Path, texts: Path, asked: argparse.Namespace, record: Path, options: list[str]) -> list[str]:
    given = {"--model": model, "--documents": texts, "--max-documents": asked.documents, "--out": record}
    given |= {"--max-tokens": asked.tokens, "--conditions": "trained,ablated-mlp", "--batch-size": 50, "--threads": 1}
    given |= {"--genre": "words drawn at random"}
    return ["lab", *(str(part) for pair in given.items() for part in pair), "--quiet", *options]


if __name__ == "__main__":
    main()
