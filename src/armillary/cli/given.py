"""Ingredients that come from files: matrices of heads, weights of an MLP, a mask, a start."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from armillary.errors import ArgumentError

if TYPE_CHECKING:
    from torch import Tensor

    from armillary.dynamics.attention import Allowed
    from armillary.dynamics.drifts import Drift
    from armillary.dynamics.heads import Heads

__all__ = ["given_heads", "given_mask", "given_mlp", "given_start"]

_HEADS = (("query", "key", "value", "output"), ("scores", "values"))
_MLPS = (("up", "down"), ("directions", "amplitudes"))


def given_start(path: Path) -> Tensor:
    """Starts from a .npy file, `systems tokens dim`."""
    rows = _one(path, "--start")
    if rows.ndim not in (2, 3):
        raise ArgumentError(
            f"Argument `--start` must hold [tokens, dim] or [systems, tokens, dim], but {path} holds "
            f"{list(rows.shape)}. Reshape it."
        )
    return (rows if rows.ndim == 3 else rows[None]).double()


def given_mask(path: Path) -> Allowed:
    """A mask from a .npy file with a boolean [tokens, tokens]."""
    from armillary.dynamics.attention import Allowed

    pairs = _one(path, "--mask")
    if pairs.ndim != 2:
        raise ArgumentError(
            f"Argument `--mask` must hold boolean [tokens, tokens], but {path} holds {list(pairs.shape)}. Give one row "
            "a token, True where it may look."
        )
    return Allowed(pairs)


def given_heads(path: Path) -> Heads:
    """Heads from a .npz file: `query`, `key`, `value`, `output`, or `scores` and `values`."""
    from armillary.dynamics.heads import Heads

    found = _several(path, "--heads", _HEADS)
    if "scores" in found:
        return Heads.given(scores=found["scores"], values=found["values"])
    return Heads(found["query"], found["key"], found["value"], found["output"])


def given_mlp(path: Path) -> Drift:
    """An MLP from a .npz file: `up` and `down` of a ReLU layer, or `directions` and `amplitudes` of a perceptron."""
    from armillary.dynamics.pushes import MLPDrift, Perceptron

    found = _several(path, "--mlp", _MLPS)
    if "up" in found:
        return MLPDrift.of_weights(found["up"], found["down"])
    return Perceptron(found["directions"], found["amplitudes"])


def _one(path: Path, option: str) -> Tensor:
    import torch

    return torch.as_tensor(_read(path, option, ".npy"))


def _several(path: Path, option: str, kinds: Sequence[tuple[str, ...]]) -> dict[str, Tensor]:
    """The arrays of the kind that the file has."""
    import torch

    found = _read(path, option, ".npz")
    kind = next((names for names in kinds if set(names) <= set(found)), None)
    if kind is None:
        said = ", or ".join(" and ".join(f"`{name}`" for name in names) for names in kinds)
        raise ArgumentError(
            f"Argument `{option}` must hold the arrays {said}, but {path} holds {sorted(found)}. Write it with "
            "numpy.savez."
        )
    return {name: torch.as_tensor(found[name]).double() for name in kind}


def _read(path: Path, option: str, ending: str) -> Any:
    import numpy as np

    write = "numpy.save" if ending == ".npy" else "numpy.savez"
    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ArgumentError(
            f"Argument `{option}` must be a NumPy file {ending}, but {path} cannot be read ({why}). Write it with "
            f"{write}."
        ) from error
    if isinstance(found, np.ndarray) != (ending == ".npy"):
        raise ArgumentError(
            f"Argument `{option}` must be a NumPy file {ending}, but {path} is of the other kind. Write it with "
            f"{write}."
        )
    if isinstance(found, np.ndarray):
        return _numbers(found, path, option)
    with found:
        return {name: _numbers(found[name], path, option) for name in found.files}


def _numbers(array: Any, path: Path, option: str) -> Any:
    import numpy as np

    if not isinstance(array, np.ndarray) or array.dtype.kind not in "bfiu":
        raise ArgumentError(
            f"Argument `{option}` must hold real numbers, but {path} holds {getattr(array, 'dtype', type(array))}. "
            "Convert it with .astype(float)."
        )
    return array if array.dtype.kind == "b" else array.astype(float)
