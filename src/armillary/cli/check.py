"""`armillary check`: what a decoder promises, and whether it keeps it."""

from __future__ import annotations

import typer

from armillary.cli import terminal
from armillary.cli.options import AsJson
from armillary.cli.source import AllowPickle, Device, Dtype, Model, Revision, Source, Tokenizer, TrustRemoteCode

__all__ = ["check"]


def check(
    model: Model = None,
    revision: Revision = None,
    tokenizer: Tokenizer = None,
    device: Device = "auto",
    dtype: Dtype = "float32",
    allow_pickle: AllowPickle = False,
    trust_remote_code: TrustRemoteCode = False,
    as_json: AsJson = False,
) -> None:
    """Print what a decoder promises and whether it keeps it; exit code 1 if it misses one."""
    from dataclasses import asdict

    from armillary.models.decoder import prove

    source = Source(
        model=model, revision=revision, tokenizer=tokenizer, device=device, dtype=dtype, allow_pickle=allow_pickle,
        trust_remote_code=trust_remote_code,
    )  # fmt: skip
    with terminal.interruptible():
        decoder = source.load(prove=False)
        promises = prove(decoder)
    if as_json:
        terminal.print_json({"model": asdict(decoder.facts), "promises": [asdict(one) for one in promises]})
    else:
        typer.echo(f"{decoder.facts.name} ({decoder.facts.architecture}, {decoder.facts.layers} blocks)")
        for note in (*decoder.facts.permitted, *decoder.facts.notes):
            typer.echo(f"note    {note}")
        for one in promises:
            typer.echo(f"{'kept  ' if one.passed else 'MISSED'}  {one.name}: expected {one.expected}, got {one.got}")
    if not all(one.passed for one in promises):
        raise typer.Exit(1)
