"""A model drawn fresh from a configuration, and the proof that nothing of the trained weights is left in it."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn

from armillary.errors import CheckMissed, UnsupportedModelError
from armillary.models.proofs import ConditionProof, kind_of, kinds, listed, manner, tensors_of

__all__ = ["fresh_model", "freshness"]


def fresh_model(trained: Any, *, spread: float, seed: int, field: str = "initializer_range") -> Any:
    """A new model from a copy of the configuration; torch's global random state is as before afterwards.

    Args:
        trained: The model whose configuration, dtype, device and attention are taken.
        spread: Standard deviation of the matrices, as the family's own rule uses it.
        seed: Of the draw, which happens on the CPU.
        field: Of the configuration, the one that holds the spread.

    Returns:
        The fresh model in evaluation mode.

    Raises:
        UnsupportedModelError: The configuration has no place for a spread.
    """
    from transformers import AutoModelForCausalLM

    config = copy.deepcopy(trained.config)
    if not hasattr(config, field):
        raise UnsupportedModelError(
            f"Argument `decoder` must have a configuration with an `{field}` to be drawn afresh, but "
            f"{type(config).__name__} has none. Leave out the initial conditions."
        )
    setattr(config, field, spread)
    if hasattr(config, "quantization_config"):
        del config.quantization_config  # a fresh model is not quantized
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would reseed the accelerators too
        fresh: Any = AutoModelForCausalLM.from_config(
            config, dtype=trained.dtype, attn_implementation=trained.config._attn_implementation
        )
    experts = getattr(trained.config, "_experts_implementation", None)
    if experts is not None:
        fresh.set_experts_implementation(experts)
    buffers = dict(trained.named_buffers())
    for name, buffer in fresh.named_buffers():  # a model cast as a whole has cast its position frequencies too
        if name in buffers:
            buffer.data = buffer.data.to(buffers[name].dtype)
    return fresh.to(trained.device).eval()


def freshness(trained: Any, fresh: Any, *, spread: float, layers: int, origin: str) -> ConditionProof:
    """The proof that nothing of the trained weights is left.

    Args:
        trained: The model that was loaded.
        fresh: The one drawn anew.
        spread: The spread asked for.
        layers: Number of blocks.
        origin: What the fresh model is called in the proof.

    Returns:
        What changed, what is constant in both, the measured spreads, and a sentence.

    Raises:
        CheckMissed: A tensor is still the trained one, a tie is lost, or the spread did not arrive.
    """
    old, new = tensors_of(trained), tensors_of(fresh)
    unlike = sorted(old.keys() ^ new.keys()) or [name for name in old if _form(old[name]) != _form(new[name])]
    if type(trained) is not type(fresh) or unlike:
        raise CheckMissed(
            "The initial model must have the tensors of the trained one, but "
            f"{listed(unlike) or type(fresh).__name__} differ in name, shape, dtype or device. "
            "Bring the whole decoder to one dtype and device, or leave out the initial conditions."
        )
    ties = _ties(trained)
    if ties != _ties(fresh):
        raise CheckMissed(
            f"Tied weights must stay tied, but {_joined(ties)} became {_joined(_ties(fresh))}. Set "
            "`tie_word_embeddings` in the decoder's configuration to what its weights are."
        )
    parameters = dict(fresh.named_parameters(remove_duplicate=False))
    equal = [name for name in old if torch.equal(old[name], new[name])]
    constants = tuple(name for name in equal if name in parameters and _constant(new[name]))
    stale = [name for name in equal if name in parameters and name not in constants]
    stale += [name for name in parameters if name not in equal and _shares_a_row(old[name], new[name])]
    if stale:
        raise CheckMissed(
            f"No tensor may still be the trained one, but {listed(stale)} are, in whole or in part. Give another seed: "
            "the decoder at hand may itself have been drawn from this one."
        )
    moved = [name for name in old if name not in parameters and name not in equal]
    if moved:
        raise CheckMissed(
            f"Buffers must follow from the configuration, but {listed(moved)} differ from a fresh model's. Reload the "
            "decoder: they were changed after it was loaded."
        )
    changed = tuple(name for name in old if name not in equal)
    spreads, words = _spreads(fresh, spread, layers)
    tied = f"; tied weights stay tied ({' = '.join(ties[0])})" if ties else ""
    same = f", {len(constants)} are constant in both ({kinds(constants)})" if constants else ""
    sentence = (
        f"{origin}: drawn fresh from the configuration; {len(changed)} of {len(parameters)} weight tensors differ from "
        f"the trained ones{same}, none is still trained{tied}; {words}; {manner(fresh)}"
    )
    return ConditionProof(changed, len(equal), spreads, sentence, constants)


def _form(tensor: Tensor) -> tuple[Any, ...]:
    return tuple(tensor.shape), tensor.dtype, tensor.device


def _constant(tensor: Tensor) -> bool:
    """One number throughout: gains, biases, and the biases of all experts in one table."""
    return bool((tensor == tensor.flatten()[0]).all())


def _shares_a_row(old: Tensor, new: Tensor) -> bool:
    """Whether a row of a matrix is still the trained one; rows of zeros (a padding token's) are not counted."""
    if old.ndim < 2:
        return False
    old, new = old.flatten(0, -2), new.flatten(0, -2)
    rows = (old[:, 0] == new[:, 0]).nonzero()[:, 0]  # few are worth a look at all entries
    return bool(((old[rows] == new[rows]).all(-1) & (new[rows] != 0).any(-1)).any())


def _ties(model: nn.Module) -> list[tuple[str, ...]]:
    """Groups of names that are one tensor."""
    groups: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        groups.setdefault(id(parameter), []).append(name)
    return sorted(tuple(group) for group in groups.values() if len(group) > 1)


def _joined(ties: list[tuple[str, ...]]) -> str:
    return "; ".join(" = ".join(group) for group in ties) or "none"


def _spreads(fresh: Any, spread: float, layers: int) -> tuple[dict[str, float], str]:
    """Root mean square of the matrices by kind (block numbers replaced by *), and how they sit beside the recipe.

    The standard error of a measured spread is spread / sqrt(2 n); six of them and half a percent are allowed.
    """
    totals: dict[str, tuple[float, int]] = {}
    for name, matrix in fresh.named_parameters():
        if matrix.ndim >= 2:
            square, count = totals.get(kind_of(name), (0.0, 0))
            norm = float(torch.linalg.vector_norm(matrix.detach().float()))
            totals[kind_of(name)] = (square + norm**2, count + matrix.numel())
    measured = {kind: math.sqrt(square / count) for kind, (square, count) in totals.items()}

    def close(kind: str, expected: float) -> bool:
        return abs(measured[kind] / expected - 1) < 6 / math.sqrt(2 * totals[kind][1]) + 0.005

    plain = [kind for kind in measured if close(kind, spread)]
    scaled = [kind for kind in measured if kind not in plain and close(kind, spread / math.sqrt(2 * layers))]
    other = [kind for kind in measured if kind not in plain and kind not in scaled]
    embedding = next(name for name, value in fresh.named_parameters() if value is fresh.get_input_embeddings().weight)
    if embedding not in plain:
        raise CheckMissed(
            f"The embedding's spread must be the recipe's {spread:g}, but it is {measured[embedding]:g}: this family "
            "does not draw its weights with `initializer_range`. Leave out the initial conditions."
        )
    low, high = min(measured[kind] for kind in plain), max(measured[kind] for kind in plain)
    words = f"measured spread {low:.6g} to {high:.6g} beside the recipe's {spread:.6g}"
    if scaled:
        words += f", divided by sqrt(2 x {layers}) in {listed(scaled, 6)}"
    if other:
        words += ", another spread by the family's own rule in " + ", ".join(f"{k} ({measured[k]:.4g})" for k in other)
    return {"recipe": spread, **measured}, words
