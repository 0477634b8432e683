"""`armillary simulate`: the idealized dynamics from the command line, ingredient by ingredient, written to a record."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from armillary.cli import terminal
from armillary.cli.given import given_heads, given_mask, given_mlp, given_start
from armillary.cli.options import LARGEST_SEED, AsJson, Quiet
from armillary.cli.report import drawn
from armillary.errors import ArgumentError
from armillary.studies import spelled
from armillary.studies.spelled import RULES

if TYPE_CHECKING:
    from torch import Tensor

    from armillary.dynamics.drifts import Drift
    from armillary.observables.declaration import Measurement
    from armillary.records.record import Record

__all__ = ["simulate"]

STARTS = f"{spelled.STARTS}, or a file .npy with [tokens, dim] or [systems, tokens, dim]"


def simulate(
    tokens: Annotated[int, typer.Option(min=2, help="Number of tokens.")] = 32,
    dim: Annotated[int, typer.Option(min=2, help="Dimension of the space they are unit vectors of.")] = 3,
    beta: Annotated[float, typer.Option(help="Factor of the scores, of any sign; 0 is uniform weights.")] = 4.0,
    rule: Annotated[str, typer.Option(help=f"Row rule: {', '.join(RULES)}.")] = "softmax",
    mask: Annotated[
        str, typer.Option(help="full, causal, window:N (back), window:N:both, or a file .npy of booleans.")
    ] = "full",
    heads: Annotated[
        str,
        typer.Option(
            help="identity, gaussian:HEADS:HEAD_DIM, orthogonal, goe (symmetric values), orthogonal:HEADS, goe:HEADS, "
            "or a file .npz with query, key, value, output or with scores, values."
        ),
    ] = "identity",
    norm: Annotated[
        str, typer.Option(help="post, pre, mix:TIME, peri, ngpt:ALPHA, sqrt-depth or flat (no norm).")
    ] = "post",
    mlp: Annotated[
        str,
        typer.Option(
            help="Hidden neurons of a random ReLU MLP; 0 for none; or a file .npz with up, down or with directions, "
            "amplitudes of a perceptron."
        ),
    ] = "0",
    noise: Annotated[float, typer.Option(min=0.0, help="Strength of tangential noise.")] = 0.0,
    start: Annotated[str, typer.Option(help=f"{STARTS}.")] = "uniform",
    jitter: Annotated[
        float, typer.Option(min=0.0, help="Angle in radians by which every token is turned first; 0 for none.")
    ] = 0.0,
    systems: Annotated[int, typer.Option(min=1, help="Independent starts, drawn (uniform, ring): for intervals.")] = 8,
    until: Annotated[float, typer.Option(help="Time to reach, or number of layers with --layer-step.")] = 30.0,
    keep: Annotated[int, typer.Option(min=2, help="How many states are kept and measured.")] = 101,
    measure: Annotated[
        str, typer.Option(help="default, or laboratory: whatever `armillary lab` measures of a layer.")
    ] = "default",
    log_times: Annotated[bool, typer.Option("--log-times", help="Kept times evenly spaced in log s.")] = False,
    merge: Annotated[
        float | None, typer.Option(help="Angle in radians below which tokens become one: for very long times.")
    ] = None,
    rtol: Annotated[float, typer.Option(help="Relative tolerance of the adaptive integrator.")] = 1e-8,
    layer_step: Annotated[
        float | None, typer.Option(help="Run the discrete residual network with this step instead of the flow.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED // 2, help="Of starts, matrices and noise.")] = 0,
    out: Annotated[Path, typer.Option(help="New folder for the record.")] = Path("records/simulation"),
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Move tokens on the sphere.

    By a dynamics of your choice; leaves a record with its pictures.
    """
    from armillary.records.record import Record
    from armillary.studies.simulation import Simulation
    from armillary.studies.spelled import spelled_field

    Record.require_new(out)
    given = {name: value for name, value in locals().items() if name in _CHOICES}
    with terminal.interruptible(out):
        first, words = _starts(start, tokens=tokens, dim=dim, systems=systems, jitter=jitter, seed=seed)
        field = spelled_field(
            norm, _drift(beta, rule, mask, heads, mlp=mlp, noise=noise, dim=int(first.shape[-1]), seed=seed)
        )
        study = Simulation(
            field=field, starts=first, start_words=words, until=until,
            at=_times(until, keep, logarithmic=log_times, layers=layer_step is not None),
            integrator=_integrator(rtol=rtol, noise=noise, layer_step=layer_step, seed=seed), merging=_merging(merge),
            seed=seed, measurements=_measured(measure), choices={k: str(v) for k, v in given.items() if v is not None},
        )  # fmt: skip
        with terminal.progress("simulating", quiet=quiet) as told:
            record = study.run(out, told=told)
        if as_json:  # before anything is drawn: numbers do not wait for pictures
            terminal.print_json(_summary(record))
        page = drawn(record, quiet=quiet)
    if not quiet and not as_json:
        _closing_words(record, page)


_CHOICES = (
    "tokens", "dim", "beta", "rule", "mask", "heads", "norm", "mlp", "noise", "start", "jitter", "systems", "until",
    "keep", "measure", "log_times", "merge", "rtol", "layer_step", "seed",
)  # fmt: skip


def _starts(text: str, *, tokens: int, dim: int, systems: int, jitter: float, seed: int) -> tuple[Tensor, str]:
    from armillary import sphere

    made, words = _unturned(text, tokens=tokens, dim=dim, systems=systems, seed=seed)
    if not jitter:
        return made, words
    return sphere.jitter(made, angle=jitter, seed=seed), f"{words}; every token turned by about {jitter:g} radians"


def _unturned(text: str, *, tokens: int, dim: int, systems: int, seed: int) -> tuple[Tensor, str]:
    import torch

    random = text in ("uniform", "ring")
    named = random or text in ("antipodal", "orthonormal") or text.startswith("equiangular:")
    if not named:
        if not Path(text).is_file():
            raise ArgumentError(f"Argument `--start` must be {STARTS}, but {text!r} is none of these. Check the name.")
        return given_start(Path(text)), f"the file {Path(text).name}"
    seeds = [seed * 1_000_003 + k for k in range(systems)] if random else [seed]
    made = [spelled.spelled_start(text, tokens=tokens, dim=dim, seed=one) for one in seeds]
    words = {
        "uniform": f"{systems} independent draws of {tokens} uniform directions, seed {seed}",
        "ring": f"{systems} even rings of {tokens} tokens, each jittered by {spelled.JITTER:g}, seed {seed}",
        "antipodal": "tokens in turn at two opposed points: stationary and unstable",
        "orthonormal": "equiangular, overlap 0",
    }
    return torch.stack(made), words.get(text, f"equiangular, overlap {text.removeprefix('equiangular:')}")


def _drift(beta: float, rule: str, mask: str, heads: str, *, mlp: str, noise: float, dim: int, seed: int) -> Drift:
    from armillary.dynamics.attention_drift import AttentionDrift
    from armillary.dynamics.pushes import Noise
    from armillary.studies.spelled import spelled_heads, spelled_mask, spelled_rule

    drift: Drift = AttentionDrift(
        spelled_rule(rule, beta),
        mask=given_mask(Path(mask)) if mask.endswith(".npy") else spelled_mask(mask),
        heads=given_heads(Path(heads)) if heads.endswith(".npz") else spelled_heads(heads, dim=dim, seed=seed),
    )
    beside = given_mlp(Path(mlp)) if mlp.endswith(".npz") else _random_mlp(mlp, dim=dim, seed=seed + 1)
    drift = drift if beside is None else drift + beside
    return drift + Noise(noise) if noise else drift


def _random_mlp(text: str, *, dim: int, seed: int) -> Drift | None:
    import torch

    from armillary.dynamics.pushes import MLPDrift

    if not text.isdecimal():
        raise ArgumentError(
            f"Argument `--mlp` must be a number of neurons or a file .npz, but it is {text!r}. Write --mlp 16."
        )
    if not int(text):
        return None
    draw = torch.Generator().manual_seed(seed)
    up = torch.randn(int(text), dim, generator=draw, dtype=torch.float64) * (2 / dim) ** 0.5
    down = torch.randn(dim, int(text), generator=draw, dtype=torch.float64) / int(text) ** 0.5
    return MLPDrift.of_weights(up, down)


def _integrator(*, rtol: float, noise: float, layer_step: float | None, seed: int) -> Any:
    from armillary.dynamics.integrators import ResidualLayer, StratonovichHeun, Tsit5

    if noise and layer_step is not None:
        raise ArgumentError("Argument `--noise` must go without --layer-step, but both are given. Leave one out.")
    if noise:
        return StratonovichHeun(step=0.01, seed=seed)
    return Tsit5(rtol=rtol) if layer_step is None else ResidualLayer(layer_step)


def _measured(text: str) -> Sequence[Measurement]:
    from armillary.studies import simulation

    lists = {
        "default": simulation.default_measurements_along_time,
        "laboratory": simulation.laboratory_measurements_along_time,
    }
    if text not in lists:
        raise ArgumentError(
            f"Argument `--measure` must be {' or '.join(lists)}, but it is {text!r}. Write --measure laboratory."
        )
    return lists[text]()


def _merging(angle: float | None) -> Any:
    from armillary.dynamics.merging import Merging

    return None if angle is None else Merging(angle)


def _times(until: float, keep: int, *, logarithmic: bool, layers: bool) -> int | list[float]:
    if not until > 0 or until == float("inf"):
        raise ArgumentError(f"Argument `--until` must be positive and finite, but it is {until:g}. Time runs forward.")
    if layers:
        return sorted({round(until * k / (keep - 1)) for k in range(keep)}) if until >= 1 else [until]
    if logarithmic:
        first = min(0.01, until / 1000)
        return [0.0, *(first * (until / first) ** (k / (keep - 2)) for k in range(keep - 2)), until] if keep > 2 else 2
    return keep


def _summary(record: Record) -> dict[str, Any]:
    data = record.dataset
    numbers = {
        str(name): data[name].values.tolist() for name in data.data_vars if data[name].dims == ("system", "time")
    }
    return {
        "study": record.study,
        "statuses": record.provenance["statuses"],
        "evaluations": record.provenance["evaluations"],
        "energy": record.provenance["energy"],
        "at": data["time"].values.tolist(),
        "measurements": {name: [[terminal.strict(v) for v in row] for row in rows] for name, rows in numbers.items()},
    }


def _closing_words(record: Record, page: Path) -> None:
    from armillary.figures import Run, reading_of
    from armillary.report.endings import ended

    study, data = record.study, record.dataset
    typer.echo(
        f"{study['dynamics']}; {study['systems']} starts of {study['tokens']} tokens in dimension {study['dim']}"
    )
    run = reading_of(record)
    assert isinstance(run, Run)
    typer.echo(f"  {ended(run)}")
    statuses = record.provenance["statuses"]
    if len(statuses) == 1 or not all(one.startswith("reached") for one in statuses):
        for status in dict.fromkeys(statuses):
            typer.echo(f"  {statuses.count(status)} of {len(statuses)}: {status}")
    typer.echo(f"  energy: {record.provenance['energy']}")
    for name in data.data_vars:
        if data[name].dims == ("system", "time"):
            last = data[name].values[:, -1]
            typer.echo(
                f"  {name}: {last.mean():.6g} at the end (over starts from {last.min():.4g} to {last.max():.4g})"
            )
    typer.echo(f"record: {record.path}\nreport: {page}")
