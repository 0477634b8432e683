"""`armillary diagnose`: overlap, norm, participation rank and gradient through depth before any training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from armillary.cli import terminal
from armillary.cli.options import AsJson, Quiet
from armillary.cli.report import drawn
from armillary.errors import ArgumentError

if TYPE_CHECKING:
    from armillary.records.record import Record
    from armillary.studies.diagnosis import Diagnosis

__all__ = ["diagnose"]

DEFAULT_RECIPES = "library"


def diagnose(
    model: Annotated[
        str | None,
        typer.Argument(
            help="Type of model (gpt2, llama ...), config.json, folder or hub id; default: the embedded model's."
        ),
    ] = None,
    changed: Annotated[
        list[str] | None, typer.Option("--set", help="FIELD=VALUE of the configuration; may be repeated.")
    ] = None,
    recipes: Annotated[
        list[str] | None,
        typer.Option("--recipe", help="Recipe of initialization; may be repeated. `--list-recipes` prints them."),
    ] = None,
    list_recipes: Annotated[bool, typer.Option("--list-recipes", help="Print the recipes and stop.")] = False,
    draws: Annotated[int, typer.Option(min=1, help="How many times each recipe is drawn (seeds 0, 1, ...).")] = 3,
    max_documents: Annotated[int, typer.Option(min=1, help="Documents of each draw.")] = 4,
    max_tokens: Annotated[int, typer.Option(min=2, help="Tokens of each document.")] = 64,
    texts: Annotated[
        str, typer.Option(help="distinct: ids without repetition; bytes: Python's reference.")
    ] = "distinct",
    threshold: Annotated[float, typer.Option(help="Overlap whose depth is told.")] = 0.5,
    out: Annotated[Path, typer.Option(help="New folder for the record.")] = Path("records/diagnosis"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be measured and stop.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Diagnose initializations before any training.

    Measured beside predicted: overlap, norm, participation rank and gradient at every layer, for a list of recipes.
    """
    from armillary.records.record import Record

    if list_recipes:
        from armillary.training.recipes import accepted_recipes

        typer.echo("\n".join(accepted_recipes().split(", ")))
        return
    if not dry_run:
        Record.require_new(out)
    study = _study(
        model, changed or [], recipes or [DEFAULT_RECIPES], draws=draws, documents=max_documents, tokens=max_tokens,
        texts=texts, threshold=threshold,
    )  # fmt: skip
    if dry_run:
        typer.echo(
            f"{study.source}: {len(study.recipes)} recipes ({', '.join(map(str, study.recipes))}), {draws} draws of "
            f"each, {max_documents} documents of {max_tokens} tokens ({texts})"
        )
        return
    with terminal.interruptible(out):
        with terminal.progress("diagnosing", quiet=quiet) as told:
            record = study.run(out, told=told)
        if as_json:
            terminal.print_json(summary(record))
        page = drawn(record, quiet=quiet)
    if not quiet and not as_json:
        _closing_words(record, page)


def _study(model: str | None, changed: list[str], recipes: list[str], **sizes: Any) -> Diagnosis:
    from armillary.models.configurations import configuration
    from armillary.studies.diagnosis import Diagnosis
    from armillary.training.recipes import parse_recipe

    changes = {}
    for one in changed:
        field, equals, value = one.partition("=")
        if not equals:
            raise ArgumentError(f"Argument `--set` must be FIELD=VALUE, but it is {one!r}. Write --set n_layer=4.")
        changes[field] = value
    config = configuration(model, changes)
    words = model or "the embedded default's configuration"
    words += f" with {', '.join(changed)}" if changed else ""
    return Diagnosis(config=config, source=words, recipes=[parse_recipe(one) for one in recipes], **sizes)


def summary(record: Record) -> dict[str, Any]:
    """The study, every number at every layer, and the depth of the threshold, ready for strict JSON.

    Args:
        record: of a diagnosis.
    """
    data = record.dataset
    numbers = {
        str(name): {
            str(recipe): [[terminal.strict(value) for value in row] for row in data[name].values[place].tolist()]
            for place, recipe in enumerate(data["recipe"].values)
        }
        for name in data.data_vars
    }
    return {
        "study": record.study,
        "prediction": record.provenance["prediction"],
        "layers": data["layer"].values.tolist(),
        "numbers": numbers,
        "depth_of_threshold": {
            f"{prefix or 'measured'} {recipe}".replace("predicted_", "predicted"): [
                terminal.strict(depth) for depth in depths(record, str(recipe), f"{prefix}mean_overlap")
            ]
            for recipe in data["recipe"].values
            for prefix in ("", "predicted_")
            if f"{prefix}mean_overlap" in data
        },
    }


def depths(record: Record, recipe: str, name: str) -> list[float]:
    """Depth at which the overlap passes the study's threshold, one number a draw.

    Args:
        record: of a diagnosis.
        recipe: which.
        name: "mean_overlap", or what was predicted of it.
    """
    from armillary.records.crossings import crossing

    data = record.dataset
    rows = data[name].sel(recipe=recipe).values
    return [crossing(data["layer"].values, row, float(record.study["threshold"])) for row in rows]


def _closing_words(record: Record, page: Path) -> None:
    from armillary.records.crossings import crossings

    data, layers = record.dataset, record.dataset["layer"].values
    shown = sorted({0, 1, 2, len(layers) // 2, len(layers) - 1} & set(range(len(layers))))
    for recipe in data["recipe"].values:
        typer.echo(f"{recipe} ({record.study['draws']} draws, {record.study['tokens']} tokens)")
        typer.echo("  " + " " * 30 + "".join(f"{f'layer {layers[k]}':>12s}" for k in shown))
        for name in data.data_vars:
            mean = data[name].sel(recipe=recipe).values.mean(0)
            words = str(name).replace("_", " ")
            typer.echo(f"  {words:30s}" + "".join(f"{mean[k]:12.4g}" for k in shown))
        threshold = float(record.study["threshold"])
        found = {
            name: crossings(layers, data[name].sel(recipe=recipe).values, threshold)
            for name in ("mean_overlap", "predicted_mean_overlap")
            if name in data
        }
        predicted = f" (predicted {found['predicted_mean_overlap']})" if len(found) > 1 else ""
        typer.echo(f"  overlap passes {threshold:g} at layer {found['mean_overlap']}{predicted}")
    if str(record.provenance["prediction"]).startswith("none"):
        typer.echo(f"  prediction {record.provenance['prediction']}")
    typer.echo(f"record: {record.path}\nreport: {page}")
