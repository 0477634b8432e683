"""`armillary check`: what a decoder promises, and whether it keeps it."""

from __future__ import annotations

import typer

from armillary.cli import terminal
from armillary.cli.options import AsJson, Device, Dtype, Model

__all__ = ["check"]


def check(model: Model = None, device: Device = "auto", dtype: Dtype = "float32", as_json: AsJson = False) -> None:
    """Print what a decoder promises and whether it keeps it; exit code 1 if it misses one."""
    from dataclasses import asdict

    from armillary.models.decoder import load_decoder, prove

    with terminal.interruptible():
        decoder = load_decoder(model, device=device, dtype=dtype, prove=False)
        promises = prove(decoder)
    if as_json:
        terminal.print_json({"model": asdict(decoder.facts), "promises": [asdict(one) for one in promises]})
    else:
        typer.echo(f"{decoder.facts.name} ({decoder.facts.architecture}, {decoder.facts.layers} blocks)")
        for one in promises:
            typer.echo(f"{'kept  ' if one.passed else 'MISSED'}  {one.name}: expected {one.expected}, got {one.got}")
    if not all(one.passed for one in promises):
        raise typer.Exit(1)
