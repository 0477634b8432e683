"""Options that several commands share, each described once."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["LARGEST_SEED", "Address", "AsJson", "BackendKind", "Quiet", "Workers", "given"]

LARGEST_SEED = 2**63 - 1
"""What a 64-bit generator takes."""

AsJson = Annotated[
    bool, typer.Option("--json", help="One strict JSON object on standard output and nothing else there.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and no closing words.")]

BackendKind = Annotated[
    str, typer.Option("--backend", help="Where it is measured: here, processes, dask or ray. Numbers are the same.")
]
Workers = Annotated[int, typer.Option(min=1, help="Processes of the backend.")]
Address = Annotated[str | None, typer.Option(help="HOST:PORT of a cluster of Dask or Ray that is there.")]


def given(context: typer.Context) -> list[str]:
    """The parameters that were written on the command line, and not left at their defaults.

    Args:
        context: of the command that runs.
    """
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return [name for name, source in sources.items() if source is not None and source.name != "DEFAULT"]
