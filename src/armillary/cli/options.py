"""Options that several commands share, each described once."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["LARGEST_SEED", "AsJson", "Device", "Dtype", "Model", "Quiet"]

LARGEST_SEED = 2**63 - 1
"""What a 64-bit generator takes."""

Model = Annotated[
    str | None, typer.Option(help="Folder, GGUF file or hub id. Default: the embedded SmolLM2-135M-Instruct (4-bit).")
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Dtype = Annotated[str, typer.Option(help="Type of weights and states: float32, bfloat16, float16 or float64.")]
AsJson = Annotated[
    bool, typer.Option("--json", help="One strict JSON object on standard output and nothing else there.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and no closing words.")]
