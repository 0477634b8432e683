"""Options that several commands share, each described once."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["LARGEST_SEED", "AsJson", "Quiet"]

LARGEST_SEED = 2**63 - 1
"""What a 64-bit generator takes."""

AsJson = Annotated[
    bool, typer.Option("--json", help="One strict JSON object on standard output and nothing else there.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and no closing words.")]
