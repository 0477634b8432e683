"""`armillary simulate`: the idealized dynamics from the command line, ingredient by ingredient, written to a record."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from armillary.cli import terminal
from armillary.cli.options import LARGEST_SEED, AsJson, Quiet
from armillary.cli.report import drawn
from armillary.errors import ArgumentError

if TYPE_CHECKING:
    from torch import Tensor

    from armillary.dynamics.attention import Mask, RowRule
    from armillary.dynamics.drifts import Drift
    from armillary.dynamics.heads import Heads
    from armillary.dynamics.normalization import VelocityField
    from armillary.records.record import Record

__all__ = ["simulate"]

RULES = ("softmax", "unnormalized", "uniform", "hardmax")
STARTS = (
    "uniform, equiangular:C, orthonormal, ring, antipodal, or a file .npy with [tokens, dim] or [systems, tokens, dim]"
)
TIE = 1e-12


def simulate(
    tokens: Annotated[int, typer.Option(min=2, help="Number of tokens.")] = 32,
    dim: Annotated[int, typer.Option(min=2, help="Dimension of the space they are unit vectors of.")] = 3,
    beta: Annotated[float, typer.Option(help="Factor of the scores, of any sign; 0 is uniform weights.")] = 4.0,
    rule: Annotated[str, typer.Option(help=f"Row rule: {', '.join(RULES)}.")] = "softmax",
    mask: Annotated[str, typer.Option(help="full, causal, window:N (back) or window:N:both.")] = "full",
    heads: Annotated[
        str, typer.Option(help="identity, gaussian:HEADS:HEAD_DIM, orthogonal or goe (symmetric values).")
    ] = "identity",
    norm: Annotated[
        str, typer.Option(help="post, pre, mix:TIME, peri, ngpt:ALPHA, sqrt-depth or flat (no norm).")
    ] = "post",
    mlp: Annotated[int, typer.Option(min=0, help="Hidden neurons of a random ReLU MLP; 0 for none.")] = 0,
    noise: Annotated[float, typer.Option(min=0.0, help="Strength of tangential noise.")] = 0.0,
    start: Annotated[str, typer.Option(help=f"{STARTS}.")] = "uniform",
    systems: Annotated[int, typer.Option(min=1, help="Independent starts, drawn (uniform, ring): for intervals.")] = 8,
    until: Annotated[float, typer.Option(help="Time to reach, or number of layers with --layer-step.")] = 30.0,
    keep: Annotated[int, typer.Option(min=2, help="How many states are kept and measured.")] = 101,
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

    Record.require_new(out)
    given = {name: value for name, value in locals().items() if name in _CHOICES}
    with terminal.interruptible(out):
        first, words = _starts(start, tokens=tokens, dim=dim, systems=systems, seed=seed)
        field = _field(norm, _drift(beta, rule, mask, heads, mlp=mlp, noise=noise, dim=int(first.shape[-1]), seed=seed))
        study = Simulation(
            field=field, starts=first, start_words=words, until=until,
            at=_times(until, keep, logarithmic=log_times, layers=layer_step is not None),
            integrator=_integrator(rtol=rtol, noise=noise, layer_step=layer_step, seed=seed), merging=_merging(merge),
            seed=seed, choices={k: str(v) for k, v in given.items() if v is not None},
        )  # fmt: skip
        with terminal.progress("simulating", quiet=quiet) as told:
            record = study.run(out, told=told)
        if as_json:  # before anything is drawn: numbers do not wait for pictures
            terminal.print_json(_summary(record))
        page = drawn(record, quiet=quiet)
    if not quiet and not as_json:
        _closing_words(record, page)


_CHOICES = (
    "tokens", "dim", "beta", "rule", "mask", "heads", "norm", "mlp", "noise", "start", "systems", "until", "keep",
    "log_times", "merge", "rtol", "layer_step", "seed",
)  # fmt: skip


def _starts(text: str, *, tokens: int, dim: int, systems: int, seed: int) -> tuple[Tensor, str]:
    import torch

    from armillary import sphere

    if text == "uniform":
        made = [sphere.uniform(tokens=tokens, dim=dim, seed=seed * 1_000_003 + k) for k in range(systems)]
        return torch.stack(made), f"{systems} independent draws of {tokens} uniform directions, seed {seed}"
    if text == "ring":
        if dim != 2:
            raise ArgumentError(f"Argument `--start` must go with --dim 2 for a ring, but --dim is {dim}. Add --dim 2.")
        angles = torch.arange(tokens, dtype=torch.float64) * (2 * torch.pi / tokens)
        ring = torch.stack([angles.cos(), angles.sin()], dim=1)
        draw = torch.Generator().manual_seed(seed)
        shifted = [
            sphere.normalize(ring + 0.01 * torch.randn(ring.shape, generator=draw, dtype=torch.float64))
            for _ in range(systems)
        ]
        return torch.stack(shifted), f"{systems} even rings of {tokens} tokens, each jittered by 0.01, seed {seed}"
    if text == "antipodal":
        row = torch.zeros(tokens, dim, dtype=torch.float64)
        row[:, 0] = torch.tensor([1.0, -1.0] * ((tokens + 1) // 2))[:tokens]
        return row[None], "tokens in turn at two opposed points: stationary and unstable, nothing is jittered"
    match = re.fullmatch(r"(equiangular):(-?[0-9.eE+-]+)|orthonormal", text)
    if match:
        overlap = float(match[2]) if match[1] else 0.0
        return sphere.equiangular(tokens=tokens, dim=dim, overlap=overlap)[None], f"equiangular, overlap {overlap:g}"
    return _from_file(Path(text))


def _from_file(path: Path) -> tuple[Tensor, str]:
    import numpy as np
    import torch

    if not path.is_file():
        raise ArgumentError(f"Argument `--start` must be {STARTS}, but {str(path)!r} is none of these. Check the name.")
    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ArgumentError(
            f"Argument `--start` must be a NumPy file, but {path} cannot be read ({error}). Write it with numpy.save."
        ) from error
    rows = torch.as_tensor(np.asarray(found, dtype=float))
    if rows.ndim not in (2, 3):
        raise ArgumentError(
            f"Argument `--start` must hold [tokens, dim] or [systems, tokens, dim], but {path} holds "
            f"{list(rows.shape)}. "
            "Reshape it."
        )
    return (rows if rows.ndim == 3 else rows[None]), f"the file {path.name}"


def _drift(beta: float, rule: str, mask: str, heads: str, *, mlp: int, noise: float, dim: int, seed: int) -> Drift:
    from armillary.dynamics.attention_drift import AttentionDrift
    from armillary.dynamics.pushes import MLPDrift, Noise

    drift: Drift = AttentionDrift(_rule(rule, beta), mask=_mask(mask), heads=_heads(heads, dim=dim, seed=seed))
    if mlp:
        import torch

        draw = torch.Generator().manual_seed(seed + 1)
        up = torch.randn(mlp, dim, generator=draw, dtype=torch.float64) * (2 / dim) ** 0.5
        down = torch.randn(dim, mlp, generator=draw, dtype=torch.float64) / mlp**0.5
        drift = drift + MLPDrift.of_weights(up, down)
    return drift + Noise(noise) if noise else drift


def _rule(text: str, beta: float) -> RowRule:
    from armillary.dynamics.attention import Hardmax, Softmax, Uniform, Unnormalized

    if text not in RULES:
        raise ArgumentError(
            f"Argument `--rule` must be one of {', '.join(RULES)}, but it is {text!r}. Name one of them."
        )
    if text == "uniform" or (text == "softmax" and beta == 0):
        return Uniform()
    return Hardmax(tie=TIE) if text == "hardmax" else {"softmax": Softmax, "unnormalized": Unnormalized}[text](beta)


def _mask(text: str) -> Mask:
    from armillary.dynamics.attention import Causal, Full, Window

    window = re.fullmatch(r"window:([0-9]+)(:both)?", text)
    if window:
        return Window(int(window[1]), "both" if window[2] else "back")
    if text in ("full", "causal"):
        return Full() if text == "full" else Causal()
    raise ArgumentError(
        f"Argument `--mask` must be full, causal, window:N or window:N:both, but it is {text!r}. Write --mask causal."
    )


def _heads(text: str, *, dim: int, seed: int) -> Heads | None:
    from armillary.dynamics.heads import Heads

    gaussian = re.fullmatch(r"gaussian:([0-9]+):([0-9]+)", text)
    if text == "identity":
        return None
    if gaussian and int(gaussian[1]) and int(gaussian[2]):
        return Heads.gaussian(dim=dim, heads=int(gaussian[1]), head_dim=int(gaussian[2]), seed=seed)
    if text in ("orthogonal", "goe"):
        return Heads.orthogonal(dim=dim, seed=seed) if text == "orthogonal" else Heads.goe(dim=dim, seed=seed)
    raise ArgumentError(
        f"Argument `--heads` must be identity, gaussian:HEADS:HEAD_DIM, orthogonal or goe, but it is {text!r}. "
        "Write --heads gaussian:4:8."
    )


def _field(text: str, drift: Drift) -> VelocityField:
    from armillary.dynamics import normalization as norms

    plain: dict[str, Any] = {
        "post": norms.on_sphere, "pre": norms.pre_norm, "peri": norms.peri_norm, "sqrt-depth": norms.sqrt_depth,
        "flat": norms.flat,
    }  # fmt: skip
    if text in plain:
        made: VelocityField = plain[text](drift)
        return made
    with_number = re.fullmatch(r"(mix|ngpt):([0-9.eE+-]+)", text)
    if with_number is None:
        raise ArgumentError(
            f"Argument `--norm` must be post, pre, mix:TIME, peri, ngpt:ALPHA, sqrt-depth or flat, but it is {text!r}. "
            "Write --norm pre."
        )
    number = float(with_number[2])
    return norms.mix_norm(drift, switch=number) if with_number[1] == "mix" else norms.ngpt(drift, alpha=number)


def _integrator(*, rtol: float, noise: float, layer_step: float | None, seed: int) -> Any:
    from armillary.dynamics.integrators import ResidualLayer, StratonovichHeun, Tsit5

    if noise and layer_step is not None:
        raise ArgumentError("Argument `--noise` must go without --layer-step, but both are given. Leave one out.")
    if noise:
        return StratonovichHeun(step=0.01, seed=seed)
    return Tsit5(rtol=rtol) if layer_step is None else ResidualLayer(layer_step)


def _merging(angle: float | None) -> Any:
    from armillary.dynamics.merging import Merging

    return None if angle is None else Merging(angle)


def _times(until: float, keep: int, *, logarithmic: bool, layers: bool) -> int | list[float]:
    if until <= 0:
        raise ArgumentError(f"Argument `--until` must be positive, but it is {until:g}. Time runs forward.")
    if layers:
        return sorted({round(until * k / (keep - 1)) for k in range(keep)}) if until >= 1 else [until]
    if logarithmic:
        return [0.0, *(0.01 * (until / 0.01) ** (k / (keep - 2)) for k in range(keep - 2)), until] if keep > 2 else 2
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
        "measurements": {name: [[_strict(v) for v in row] for row in rows] for name, rows in numbers.items()},
    }


def _strict(value: float) -> float | None:
    return value if value == value and abs(value) != float("inf") else None


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
