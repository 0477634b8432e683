"""The states a decoder is measured in: trained, fresh, one component removed; each proves what it changed.

A condition is applied for the length of a `with` block. It yields a decoder in evaluation mode and a proof: which
tensors differ from the trained ones, and that no other does. A condition that cannot prove this raises `CheckMissed`,
for a baseline that still holds trained weights, or an ablation that did not happen, looks like a finding. Weights are
put back exactly, whatever ends the block.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import math
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from armillary.errors import ArgumentError, CheckMissed, UnsupportedModelError
from armillary.models.anatomy import Decoder, DecoderFacts, weight_hash

__all__ = [
    "PARTS",
    "Ablated",
    "Applied",
    "Condition",
    "ConditionProof",
    "Initial",
    "Trained",
    "fingerprints",
    "parse_condition",
]

PARTS = ("attention", "mlp", "positions", "head")
"""What an ablation can remove."""

MOST_BLOCKS = 10_000
"""Blocks counted beyond this are a slip of the hand, and their range is never written out."""

Part = Literal["attention", "mlp", "positions", "head"]

_ACCEPTED = (
    "trained; initial; initial:RECIPE or initial:RECIPE:SEED with RECIPE = released, library or a spread such as 0.02; "
    "ablated:attention, ablated:mlp, ablated:positions; ablated:mlp:3-5 or ablated:attention:1+4 for some blocks; "
    "ablated:head:BLOCK:HEAD with blocks from 1 and heads from 0"
)


@dataclass(frozen=True)
class ConditionProof:
    """What a condition changed, found by comparing every parameter and every buffer.

    Attributes:
        changed: names of the tensors that differ from the trained ones.
        unchanged: how many tensors do not.
        spreads: root mean square of freshly drawn matrices by kind, and under "recipe" the number asked for.
        sentence: the proof in words.
        constants: tensors equal in both recipes since both make them constant (norm gains, zero biases).
    """

    changed: tuple[str, ...]
    unchanged: int
    spreads: dict[str, float]
    sentence: str
    constants: tuple[str, ...] = ()


@dataclass(frozen=True)
class Applied:
    """A decoder while a condition holds, and the proof that it holds."""

    decoder: Decoder
    proof: ConditionProof


@dataclass(frozen=True)
class Trained:
    """The decoder as it was loaded."""

    @property
    def name(self) -> str:
        """Short name, the coordinate in a record."""
        return "trained"

    @property
    def label(self) -> str:
        """The condition in words."""
        return "trained"

    def check_fits(self, decoder: Decoder) -> None:
        """Every decoder is in this state already."""

    @contextmanager
    def applied(self, decoder: Decoder) -> Iterator[Applied]:
        """Yields the decoder in evaluation mode; afterwards its weights must be the same as before.

        Raises:
            CheckMissed: if something changed a tensor meanwhile.
        """
        with _evaluation(decoder.model):
            before = fingerprints(decoder.model)
            sentence = f"weights as loaded: none of {len(before)} tensors changed; {_manner(decoder.model)}"
            yield Applied(decoder, ConditionProof((), len(before), {}, sentence))
            _same(before, decoder.model, "while the trained decoder was measured")


@dataclass(frozen=True)
class Initial:
    """A fresh model built from the configuration only, never from the trained weights.

    Matrices are drawn from N(0, spread^2) by the model family's own rule (GPT-2 divides the spread of the output
    projections by sqrt(2 layers)). The draw happens on the CPU in the decoder's own dtype, so one seed means one model
    on every device; the global random state is left alone.

    Args:
        seed: of the draw, from 0 up.
        recipe: "released" for the spread of the released configuration, "library" for the one that the library fills
            in where a file says nothing, or a number. The sign of "trained minus initial" can depend on it.
    """

    seed: int
    recipe: str | float = "released"

    def __post_init__(self) -> None:
        if not _is_whole(self.seed) or not 0 <= self.seed < 2**63:
            raise ArgumentError(f"Argument `seed` must be a whole number from 0 up, but is {self.seed!r}. Give seed=0.")
        number = isinstance(self.recipe, (int, float)) and not isinstance(self.recipe, bool)
        if self.recipe not in ("released", "library") and not (number and 0 < float(self.recipe) < math.inf):
            raise ArgumentError(
                'Argument `recipe` must be "released", "library" or a positive spread, '
                f"but it is {self.recipe!r}. Give 0.02, for instance."
            )

    @property
    def name(self) -> str:
        """Short name, the coordinate in a record."""
        recipe = self.recipe if isinstance(self.recipe, str) else repr(float(self.recipe))
        return f"initial-{recipe}-seed{self.seed}"

    @property
    def label(self) -> str:
        """The condition in words."""
        recipe = f"{self.recipe} recipe" if isinstance(self.recipe, str) else f"spread {self.recipe:g}"
        return f"initial, {recipe}, seed {self.seed}"

    def spread(self, facts: DecoderFacts) -> float:
        """The number that the recipe stands for with this decoder.

        Raises:
            ArgumentError: if the released configuration's spread is not known.
        """
        if not isinstance(self.recipe, str):
            return float(self.recipe)
        spread = facts.released_spread if self.recipe == "released" else facts.library_spread
        if spread is None:
            raise ArgumentError(
                f'Argument `recipe` must be a known spread, but the "{self.recipe}" one of {facts.name} is not known. '
                f"{'Give recipe=' + chr(34) + 'library' + chr(34) if self.recipe == 'released' else 'Give 0.02'} "
                "or the number that its configuration states."
            )
        return float(spread)

    def check_fits(self, decoder: Decoder) -> None:
        """Raises ArgumentError if the recipe's spread is not known for this decoder."""
        self.spread(decoder.facts)

    @contextmanager
    def applied(self, decoder: Decoder) -> Iterator[Applied]:
        """Yields a decoder around the fresh model: same dtype, device and attention, evaluation mode.

        Raises:
            ArgumentError: if the recipe's spread is not known.
            CheckMissed: if a tensor is still the trained one, a tie is lost, or the spread did not arrive.
        """
        spread = self.spread(decoder.facts)
        fresh = _fresh_model(decoder.model, spread=spread, seed=self.seed)
        proof = _freshness(decoder.model, fresh, spread=spread, layers=decoder.facts.layers, origin=self.label)
        yield Applied(_around(decoder, fresh), proof)


@dataclass(frozen=True)
class Ablated:
    """The trained decoder with one component removed: zeros where it is written into the stream.

    Attention and MLP: the output projection (weight and bias) is zero, so the sublayer adds nothing. Head: its columns
    of the attention's output projection are zero; its query, key and value are computed and thrown away. Positions: all
    rotary frequencies are zero (every rotation is the identity), or the learned position vectors are.

    Args:
        part: "attention", "mlp", "positions" or "head".
        layers: blocks, counted from 1 as in "layer l is the stream after block l"; None means all. Exactly one for a
            head, none for positions, which belong to the whole decoder.
        head: counted from 0; for part "head" only.
    """

    part: Part
    layers: tuple[int, ...] | None = None
    head: int | None = None

    def __post_init__(self) -> None:
        if self.part not in PARTS:
            raise ArgumentError(f"Argument `part` must be one of {', '.join(PARTS)}, but is {self.part!r}. Name one.")
        object.__setattr__(self, "layers", _blocks(self.layers))
        if self.part == "positions" and self.layers is not None:
            raise ArgumentError(
                "Argument `layers` must be left out for positions, which belong to the whole decoder, "
                f"but it is {self.layers}. Write Ablated('positions')."
            )
        if self.part == "head":
            if self.layers is None or len(self.layers) != 1 or not _is_whole(self.head) or int(self.head or 0) < 0:
                raise ArgumentError(
                    "Arguments `layers` and `head` must name one block from 1 and one head from 0, "
                    f"but they are {self.layers} and {self.head!r}. Write Ablated('head', layers=(16,), head=0)."
                )
        elif self.head is not None:
            raise ArgumentError(
                f"Argument `head` must be left out for part {self.part!r}, but it is {self.head!r}. Use part 'head'."
            )

    @property
    def name(self) -> str:
        """Short name, the coordinate in a record."""
        blocks = "" if self.layers is None else f"-{_span(self.layers)}"
        return f"ablated-{self.part}{blocks}" + ("" if self.head is None else f"-{self.head}")

    @property
    def label(self) -> str:
        """The condition in words."""
        what = {"mlp": "MLP", "head": f"head {self.head}"}.get(self.part, self.part)
        if self.layers is None:
            return f"{what} removed" if self.part == "positions" else f"{what} removed in every block"
        return f"{what} removed in block{'s' if len(self.layers) > 1 else ''} {_span(self.layers).replace('+', ', ')}"

    def check_fits(self, decoder: Decoder) -> None:
        """Raises ArgumentError if the decoder has no such block or head, UnsupportedModelError if no such part."""
        _cuts(self, decoder)

    @contextmanager
    def applied(self, decoder: Decoder) -> Iterator[Applied]:
        """Yields the same decoder with the part removed, and puts every weight back, whatever ends the block.

        Raises:
            ArgumentError: if the decoder has no such block or head.
            CheckMissed: if another tensor changed, nothing changed, or the weights afterwards are not those before.
        """
        cuts = _cuts(self, decoder)
        with _evaluation(decoder.model):
            before = fingerprints(decoder.model)
            saved = [cut.tensor.detach().clone() for cut in cuts]
            try:
                _remove(cuts)
                proof = _removal(self, decoder.model, before, cuts, saved)
                yield Applied(decoder, proof)
                _still_removed(self, cuts)
            finally:
                _restore(cuts, saved)
            _same(before, decoder.model, f"after {self.name}")


Condition = Trained | Initial | Ablated


def parse_condition(text: str) -> Condition:
    """The condition that a short text names, as on the command line.

    Args:
        text: "trained", "initial", "initial:library:0", "initial:0.01:3", "ablated:mlp", "ablated:mlp:3-5",
            "ablated:attention:1+4", "ablated:head:16:0".

    Raises:
        ArgumentError: for any other text; the message lists the accepted forms.
    """
    kind, *rest = text.strip().split(":")
    try:
        match kind, rest:
            case "trained", []:
                return Trained()
            case "initial", [] | [_] | [_, _]:
                recipe = rest[0] if rest else "released"
                seed = int(rest[1]) if len(rest) == 2 else 0
                return Initial(seed, recipe if recipe in ("released", "library") else float(recipe))
            case "ablated", ["head", block, head]:
                return Ablated("head", (int(block),), int(head))
            case "ablated", [("attention" | "mlp" | "positions") as part]:
                return Ablated(part)
            case "ablated", [("attention" | "mlp") as part, blocks]:
                return Ablated(part, _parsed_blocks(blocks))
    except ArgumentError as trouble:
        raise ArgumentError(f"Argument `condition` {text!r}: {trouble} Accepted: {_ACCEPTED}.") from trouble
    except ValueError:
        pass  # a number that is none: the accepted forms say how to write it
    raise ArgumentError(
        f"Argument `condition` must name a state of the decoder, but is {text!r}. Accepted: {_ACCEPTED}."
    )


def fingerprints(model: nn.Module) -> dict[str, bytes]:
    """One short digest for every parameter and buffer, tied names and non-persistent buffers included.

    A tensor's bytes are read as a square table of 64-bit words; its row sums and column sums (modulo 2^64) are hashed.
    Any change within one word shows, and so does any exchange of unlike rows, at the price of reading the weights once.

    Args:
        model: any module.

    Returns:
        Name -> digest.
    """
    seen: dict[tuple[Any, ...], bytes] = {}
    found = {}
    for name, tensor in _tensors(model).items():
        place = (tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        if place not in seen:
            seen[place] = _digest(tensor)
        found[name] = seen[place]
    return found


def _digest(tensor: Tensor) -> bytes:
    flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    whole = flat.numel() // 8 * 8
    body = flat[:whole]
    if body.storage_offset() % 8:
        body = body.clone()
    words = body.view(torch.int64)
    columns = max(1, math.isqrt(words.numel()))
    rows = words.numel() // columns
    table, rest = words[: rows * columns].view(rows, columns), words[rows * columns :]
    digest = hashlib.sha256(f"{tuple(tensor.shape)} {tensor.dtype}".encode())
    for part in (table.sum(0), table.sum(1), rest, flat[whole:]):
        digest.update(part.cpu().numpy().tobytes())
    return digest.digest()


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    return dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers(remove_duplicate=False))


@contextmanager
def _evaluation(model: nn.Module) -> Iterator[None]:
    """Evaluation mode (no dropout) for the length of a block; every module's own mode is put back."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def _manner(model: Any) -> str:
    """How a model computes, in words: nothing of this may differ between conditions."""
    modes = {module.training for module in model.modules()}
    if modes != {False}:
        raise CheckMissed("A condition must be measured in evaluation mode, but some modules are in training mode.")
    dtype = str(model.dtype).removeprefix("torch.")
    return f"evaluation mode, {dtype}, attention by {model.config._attn_implementation}, on {model.device}"


def _same(before: dict[str, bytes], model: nn.Module, when: str) -> None:
    changed = _differing(before, fingerprints(model))
    if changed:
        raise CheckMissed(f"Weights must be the same as before, but {when} {_listed(changed)} differ.")


def _differing(before: dict[str, bytes], after: dict[str, bytes]) -> tuple[str, ...]:
    return tuple(name for name in sorted({*before, *after}) if before.get(name) != after.get(name))


def _listed(names: Iterable[str], most: int = 3) -> str:
    names = tuple(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _fresh_model(trained: Any, *, spread: float, seed: int) -> Any:
    """A new model from a copy of the configuration; torch's global random state is as before afterwards."""
    from transformers import AutoModelForCausalLM

    config = copy.deepcopy(trained.config)
    if not hasattr(config, "initializer_range"):
        raise UnsupportedModelError(
            f"{type(config).__name__} has no `initializer_range`, so a fresh model cannot be given a spread."
        )
    config.initializer_range = spread
    if hasattr(config, "quantization_config"):
        del config.quantization_config  # a fresh model is not quantized
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would reseed the accelerators too
        fresh: Any = AutoModelForCausalLM.from_config(
            config, dtype=trained.dtype, attn_implementation=trained.config._attn_implementation
        )
    buffers = dict(trained.named_buffers())
    for name, buffer in fresh.named_buffers():  # a model cast as a whole has cast its position frequencies too
        if name in buffers:
            buffer.data = buffer.data.to(buffers[name].dtype)
    return fresh.to(trained.device).eval()


def _around(decoder: Decoder, fresh: Any) -> Decoder:
    facts = dataclasses.replace(decoder.facts, quantization=None, weight_hash=weight_hash(fresh))
    return dataclasses.replace(decoder, model=fresh, facts=facts)


def _freshness(trained: Any, fresh: Any, *, spread: float, layers: int, origin: str) -> ConditionProof:
    """Proves that nothing of the trained weights is left; raises CheckMissed naming what is."""
    old, new = _tensors(trained), _tensors(fresh)
    unlike = sorted(old.keys() ^ new.keys()) or [name for name in old if _form(old[name]) != _form(new[name])]
    if type(trained) is not type(fresh) or unlike:
        raise CheckMissed(
            "The initial model must have the tensors of the trained one, but "
            f"{_listed(unlike) or type(fresh).__name__} differ in name, shape, dtype or device."
        )
    ties = _ties(trained)
    if ties != _ties(fresh):
        raise CheckMissed(f"Tied weights must stay tied, but {ties or 'none'} became {_ties(fresh) or 'none'}.")
    parameters = dict(fresh.named_parameters(remove_duplicate=False))
    equal = [name for name in old if torch.equal(old[name], new[name])]
    constants = tuple(name for name in equal if name in parameters and _constant(new[name]))
    stale = [name for name in equal if name in parameters and name not in constants]
    stale += [name for name in parameters if name not in equal and _shares_a_row(old[name], new[name])]
    if stale:
        raise CheckMissed(f"No tensor may still be the trained one, but {_listed(stale)} are, in whole or in part.")
    moved = [name for name in old if name not in parameters and name not in equal]
    if moved:
        raise CheckMissed(
            f"Buffers must follow from the configuration, but {_listed(moved)} differ from a fresh model's."
        )
    changed = tuple(name for name in old if name not in equal)
    spreads, words = _spreads(fresh, spread, layers)
    tied = f"; tied weights stay tied ({' = '.join(ties[0])})" if ties else ""
    same = f", {len(constants)} are constant in both ({_kinds(constants)})" if constants else ""
    sentence = (
        f"{origin}: drawn fresh from the configuration; {len(changed)} of {len(parameters)} weight tensors differ from "
        f"the trained ones{same}, none is still trained{tied}; {words}; {_manner(fresh)}"
    )
    return ConditionProof(changed, len(equal), spreads, sentence, constants)


def _kind(name: str) -> str:
    """A tensor's name with the number of its block replaced by a star."""
    return re.sub(r"\.\d+\.", ".*.", name)


def _kinds(names: Iterable[str]) -> str:
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(_kind(name), []).append(name)
    return ", ".join(f"{kind} ({len(group)})" if len(group) > 1 else group[0] for kind, group in groups.items())


def _form(tensor: Tensor) -> tuple[Any, ...]:
    return tuple(tensor.shape), tensor.dtype, tensor.device


def _constant(tensor: Tensor) -> bool:
    return tensor.ndim == 1 and bool((tensor == tensor[0]).all())


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


def _spreads(fresh: Any, spread: float, layers: int) -> tuple[dict[str, float], str]:
    """Root mean square of the matrices by kind (block numbers replaced by *), and how they sit beside the recipe.

    The standard error of a measured spread is spread / sqrt(2 n); six of them and half a percent are allowed.
    """
    totals: dict[str, tuple[float, int]] = {}
    for name, matrix in fresh.named_parameters():
        if matrix.ndim >= 2:
            square, count = totals.get(_kind(name), (0.0, 0))
            norm = float(torch.linalg.vector_norm(matrix.detach().float()))
            totals[_kind(name)] = (square + norm**2, count + matrix.numel())
    measured = {kind: math.sqrt(square / count) for kind, (square, count) in totals.items()}

    def close(kind: str, expected: float) -> bool:
        return abs(measured[kind] / expected - 1) < 6 / math.sqrt(2 * totals[kind][1]) + 0.005

    plain = [kind for kind in measured if close(kind, spread)]
    scaled = [kind for kind in measured if kind not in plain and close(kind, spread / math.sqrt(2 * layers))]
    other = [kind for kind in measured if kind not in plain and kind not in scaled]
    embedding = next(name for name, value in fresh.named_parameters() if value is fresh.get_input_embeddings().weight)
    if embedding not in plain:
        raise CheckMissed(
            f"The embedding's spread must be the recipe's {spread:g}, but it is {measured[embedding]:g}: "
            "this family does not draw its weights with `initializer_range`."
        )
    low, high = min(measured[kind] for kind in plain), max(measured[kind] for kind in plain)
    words = f"measured spread {low:.6g} to {high:.6g} beside the recipe's {spread:.6g}"
    if scaled:
        words += f", divided by sqrt(2 x {layers}) in {_listed(scaled, 6)}"
    if other:
        words += ", another spread by the family's own rule in " + ", ".join(f"{k} ({measured[k]:.4g})" for k in other)
    return {"recipe": spread, **measured}, words


@dataclass(frozen=True)
class _Cut:
    """A tensor by name, where it hangs, and which part of it is set to zero."""

    module: nn.Module
    attribute: str
    name: str
    tensor: Tensor
    where: tuple[slice, ...] = field(default=(slice(None),))


def _cuts(ablated: Ablated, decoder: Decoder) -> list[_Cut]:
    """What an ablation sets to zero in this decoder."""
    if ablated.part == "positions":
        return _position_cuts(decoder)
    total = decoder.facts.layers
    layers = ablated.layers or tuple(range(1, total + 1))
    if layers[-1] > total:
        raise ArgumentError(
            f"Argument `layers` must lie between 1 and {total}, the blocks of this decoder, but it holds {layers[-1]}. "
            "Block l is the one whose output is layer l."
        )
    names = {id(module): name for name, module in decoder.model.named_modules()}
    cuts = []
    for layer in layers:
        projection = decoder.mlp_output(layer) if ablated.part == "mlp" else decoder.attention_output(layer)
        where = _head_columns(projection, ablated.head, decoder) if ablated.head is not None else (slice(None),)
        for attribute in ("weight", "bias") if ablated.head is None else ("weight",):
            tensor = getattr(projection, attribute, None)
            if tensor is not None:
                cuts.append(_Cut(projection, attribute, f"{names[id(projection)]}.{attribute}", tensor, where))
    return cuts


def _head_columns(projection: nn.Module, head: int, decoder: Decoder) -> tuple[slice, ...]:
    """The inputs of the output projection that one head feeds: columns of a Linear, rows of GPT-2's Conv1D."""
    facts, axis = decoder.facts, decoder.family.attention_output_axis
    if head >= facts.heads:
        raise ArgumentError(
            f"Argument `head` must lie between 0 and {facts.heads - 1}, the heads of a block, but it is {head}. "
            "Heads are counted from 0."
        )
    inputs = slice(head * facts.head_dim, (head + 1) * facts.head_dim)
    weight: Any = projection.weight
    if weight.ndim != 2 or weight.shape[axis] != facts.heads * facts.head_dim:
        raise UnsupportedModelError(
            f"The attention's output projection must take {facts.heads} heads of {facts.head_dim}, "
            f"but its weight has shape {tuple(weight.shape)}, so no single head can be removed."
        )
    return (inputs, slice(None)) if axis == 0 else (slice(None), inputs)


def _position_cuts(decoder: Decoder) -> list[_Cut]:
    learned = decoder.family.position_embedding
    if learned is not None:
        embedding: Any = decoder.part(learned)
        return [_Cut(embedding, "weight", f"{learned}.weight", embedding.weight)]
    cuts = [
        _Cut(module, attribute, f"{name}.{attribute}", buffer)
        for name, module in decoder.model.named_modules()
        for attribute, buffer in module.named_buffers(recurse=False)
        if attribute in ("inv_freq", "original_inv_freq")  # the second is what a long context restores the first from
    ]
    if not cuts:
        raise UnsupportedModelError(f"{type(decoder.model).__name__} has no rotary frequencies to set to zero.")
    return cuts


def _remove(cuts: list[_Cut]) -> None:
    with torch.no_grad():
        for cut in cuts:
            cut.tensor[cut.where].zero_()


def _restore(cuts: list[_Cut], saved: list[Tensor]) -> None:
    with torch.no_grad():
        for cut, value in zip(cuts, saved, strict=True):
            cut.tensor.copy_(value)
            if cut.attribute in cut.module._buffers:  # a rotary module may have put another buffer there meanwhile
                cut.module._buffers[cut.attribute] = cut.tensor


def _removal(
    ablated: Ablated, model: Any, before: dict[str, bytes], cuts: list[_Cut], saved: list[Tensor]
) -> ConditionProof:
    """Proves that exactly the named part is zero now; raises CheckMissed naming what else changed."""
    named = [cut.name for cut in cuts]
    changed = _differing(before, fingerprints(model))
    strangers = [name for name in changed if name not in named]
    if strangers:
        raise CheckMissed(f"{ablated.name} must change only {_listed(named)}, but {_listed(strangers)} changed too.")
    if not changed:
        raise CheckMissed(f"{ablated.name} must change the decoder, but {_listed(named)} were zero before.")
    for cut, value in zip(cuts, saved, strict=True):
        expected = value.clone()
        expected[cut.where] = 0
        if not torch.equal(cut.tensor, expected):
            raise CheckMissed(f"{ablated.name} must set only its part of {cut.name} to zero, but another part changed.")
    idle = len(named) - len(changed)
    part = "" if ablated.head is None else f" in the {saved[0][cuts[0].where].numel()} entries that the head feeds"
    sentence = (
        f"{ablated.label}: {_kinds(named)} set to zero{part}{f' ({idle} of them zero before)' if idle else ''}; "
        f"the other {len(before) - len(named)} tensors are unchanged; {_manner(model)}"
    )
    return ConditionProof(changed, len(before) - len(changed), {}, sentence)


def _still_removed(ablated: Ablated, cuts: list[_Cut]) -> None:
    """The part must be gone at the end too: a model may rebuild its position frequencies while it runs."""
    for cut in cuts:
        now = getattr(cut.module, cut.attribute)
        if bool(now[cut.where].any()):
            raise CheckMissed(
                f"{ablated.name} must hold to the end of the measurement, but {cut.name} is zero no more."
            )


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _blocks(layers: Any) -> tuple[int, ...] | None:
    if layers is None:
        return None
    given = tuple(layers) if isinstance(layers, Iterable) and not isinstance(layers, str) else (layers,)
    if not given or not all(_is_whole(layer) and layer >= 1 for layer in given):
        raise ArgumentError(
            f"Argument `layers` must be blocks counted from 1, but is {layers!r}. Write layers=(3, 4), or None for all."
        )
    return tuple(sorted(set(given)))


def _span(layers: tuple[int, ...]) -> str:
    """Blocks in short: (3, 4, 5, 9) is "3-5+9"."""
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][1] + 1:
            runs[-1][1] = layer
        else:
            runs.append([layer, layer])
    return "+".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _parsed_blocks(text: str) -> tuple[int, ...]:
    blocks: list[int] = []
    for run in text.split("+"):
        first, _, last = run.partition("-")
        if int(last or first) > MOST_BLOCKS:
            raise ArgumentError(
                f"Argument `layers` must be blocks of a decoder, but reaches {int(last or first)}. "
                f"Name blocks up to {MOST_BLOCKS}."
            )
        blocks += range(int(first), int(last or first) + 1)
    return tuple(blocks)
