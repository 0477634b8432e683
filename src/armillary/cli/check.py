"""`armillary check`: the laws that the simulator must obey, and what a decoder promises; exit code 1 on any miss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from armillary.cli import terminal
from armillary.cli.options import AsJson
from armillary.cli.source import AllowPickle, Device, Dtype, Model, Revision, Source, Tokenizer, TrustRemoteCode
from armillary.errors import ArgumentError

if TYPE_CHECKING:
    from armillary.checks.declaration import Verdict

__all__ = ["check"]

NOTHING = "nothing taken away"
"""The field of the search that has every ingredient: a decrease there is a miss."""


def check(
    model: Model = None,
    fast: Annotated[bool, typer.Option("--fast", help="Only the laws of the simulator, the quick ones.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Every law, the slow ones included (minutes), and the decoder's promises.")
    ] = False,
    ingredients: Annotated[
        bool,
        typer.Option("--ingredients", help="Take each ingredient of the energy's proof away and look for a decrease."),
    ] = False,
    revision: Revision = None,
    tokenizer: Tokenizer = None,
    device: Device = "auto",
    dtype: Dtype = "float32",
    allow_pickle: AllowPickle = False,
    trust_remote_code: TrustRemoteCode = False,
    as_json: AsJson = False,
) -> None:
    """Put simulator and decoder to the proof.

    The simulator to its laws and a decoder to its promises; exit code 1 on any miss.

    Without options: the quick laws, and the promises of the embedded default. With --model: that decoder's promises.
    """
    if fast and (everything or model is not None):
        raise ArgumentError(
            "Argument `--fast` must stand without --all and --model, but it does not: it asks for quick laws only. "
            "Leave "
            "one of them out."
        )
    source = Source(
        model=model, revision=revision, tokenizer=tokenizer, device=device, dtype=dtype, allow_pickle=allow_pickle,
        trust_remote_code=trust_remote_code,
    )  # fmt: skip
    content: dict[str, Any] = {}
    passed = True
    with terminal.interruptible():
        if ingredients:
            content["ingredients"] = _decreases(as_json=as_json)
            passed &= not any(one["found"] for one in content["ingredients"] if one["removed"] == NOTHING)
        elif model is None:
            content["laws"], content["claims"] = _laws("all" if everything else "fast", as_json=as_json)
            passed &= all(one["passed"] for one in content["laws"])
        if not fast and not ingredients:
            content |= _promises(source, as_json=as_json)
            passed &= all(one["passed"] for one in content["promises"])
    if as_json:
        terminal.print_json(content)
    if not passed:
        raise typer.Exit(1)


def _laws(cost: Any, *, as_json: bool) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Every verdict, and every claim with what became of the checks behind it: "kept", "MISSED" or "not run"."""
    from dataclasses import asdict

    import armillary.checks  # noqa: F401 - importing it declares the checks
    from armillary.checks.claims import CLAIMS
    from armillary.checks.declaration import CHECKS, run_checks

    found = run_checks(cost=cost, told=None if as_json else _say)
    became = {one.name: "kept" if one.passed else "MISSED" for one in found}
    claims = [
        asdict(claim) | {"checks": {name: became.get(name, "not run") for name in claim.checks}} for claim in CLAIMS
    ]
    if not as_json:
        kept = sum(one.passed for one in found)
        typer.echo(f"{kept} of {len(CHECKS) if cost == 'all' else len(found)} laws kept")
        if cost == "all":
            typer.echo("claims:")
            for claim in claims:
                behind = ", ".join(f"{name} ({became})" for name, became in claim["checks"].items())
                typer.echo(f"  {claim['words']} [{claim['status']}]: {behind}")
    numbers = ("expected", "got", "error", "tolerance")
    laws = [asdict(one) | {name: terminal.strict(getattr(one, name)) for name in numbers} for one in found]
    return laws, claims


def _say(one: Verdict) -> None:
    drawn = f" ({one.draws} draws, seeds {one.seeds})" if one.draws else ""
    raised = f"; it raised: {one.raised}" if one.raised else ""
    typer.echo(
        f"{'kept  ' if one.passed else 'MISSED'}  {one.name}: {one.formula}: expected {one.expected:.10g}, got "
        f"{one.got:.10g}, error {one.error:.1e}, tolerance {one.tolerance:.1e}{drawn}{raised}"
    )


def _decreases(*, as_json: bool) -> list[dict[str, Any]]:
    from armillary.checks.ingredients import removals, search

    found = []
    for removed, field in removals().items():
        one = search(removed, field, tries=2000, seed=0)
        found.append(
            {
                "removed": removed, "found": one.found, "rate": one.rate, "floor": one.floor, "tries": one.tries,
                "configuration": one.configuration.tolist(),
            }
        )  # fmt: skip
        if not as_json:
            typer.echo(str(one))
    return found


def _promises(source: Source, *, as_json: bool) -> dict[str, Any]:
    from dataclasses import asdict

    from armillary.models.decoder import prove

    decoder = source.load(prove=False)
    promises = prove(decoder)
    if not as_json:
        typer.echo(f"{decoder.facts.name} ({decoder.facts.architecture}, {decoder.facts.layers} blocks)")
        for note in (*decoder.facts.permitted, *decoder.facts.notes):
            typer.echo(f"note    {note}")
        for one in promises:
            typer.echo(f"{'kept  ' if one.passed else 'MISSED'}  {one.name}: expected {one.expected}, got {one.got}")
    return {"model": asdict(decoder.facts), "promises": [asdict(one) for one in promises]}
