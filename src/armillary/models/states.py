"""States captured elsewhere: an array whose axes are declared, checked, and cut to documents of one length."""

from __future__ import annotations

import hashlib
import pickle
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from armillary.errors import ArgumentError, NumericalError, UnsoundError

__all__ = ["AXES", "STATES_ENDINGS", "States"]

AXES = ("documents", "layers", "tokens", "width")
"""The axes that every array of states has, in any order that is declared."""

STATES_ENDINGS = (".npy", ".npz", ".safetensors", ".pt")
_MASKS, _LAYERS = ("mask", "attention_mask"), "layers"
_LEAST = 4


@dataclass(frozen=True, eq=False, kw_only=True)
class States:
    """States of one model at some layers, for documents of one length, without the decoder they come from.

    Whether the last layer is the stream after the last block or the output of the final norm is not in the numbers:
    lists that transformers hands out end with the latter.

    Attributes:
        states: `documents layers tokens width`, floating point.
        layers: Number of each layer; 0 is the embedding, l the stream after block l.
        titles: One a document.
        source: Where they come from, in words.
        rule: How documents of one length came about, in words.
        skipped: (title, reason) of documents that are too short.
        digest: SHA-256 of the states that are kept.
    """

    states: Tensor
    layers: tuple[int, ...]
    titles: tuple[str, ...]
    source: str
    rule: str
    skipped: tuple[tuple[str, str], ...] = ()
    digest: str = ""

    def __len__(self) -> int:
        """How many documents."""
        return len(self.titles)

    @property
    def tokens(self) -> int:
        """Tokens of every document."""
        return int(self.states.shape[2])

    def require_distinct(self) -> None:
        """Raises UnsoundError if two documents have the same states: no interval may count one twice."""
        seen: dict[str, str] = {}
        for title, states in zip(self.titles, self.states, strict=True):
            other = seen.setdefault(_digest(states), title)
            if other != title:
                raise UnsoundError(
                    f"Argument `states` must hold each document once, but {title!r} has the states of {other!r}, and "
                    "an interval would count it twice. Leave the copy out."
                )

    def first(self, count: int) -> States:
        """The first so many documents."""
        kept = self.states[:count]
        return replace(self, states=kept, titles=self.titles[:count], digest=_digest(kept))

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        *,
        axes: Sequence[str],
        layers: Sequence[int] | None = None,
        array: str | None = None,
        tokens: int | None = None,
    ) -> States:
        """Read states from a file.

        Args:
            path: A file ending in .npy, .npz, .safetensors or .pt; of the latter nothing but tensors is read. Beside
                the states it may hold `mask` (or `attention_mask`), 1 at real tokens, and `layers`.
            axes: The four names of `AXES` in the order of the array's axes.
            layers: Number of each layer; None takes those in the file, or else 0, 1, ...
            array: Name of the array of states; None for the only one with four axes.
            tokens: Real tokens to keep of each document, from its first; None for as many as the shortest has.

        Returns:
            The states.

        Raises:
            ArgumentError: Nothing there, another ending, no such array, axes that do not fit.
            NumericalError: A real token's state is NaN or infinite, by layer, document and token.
        """
        file = Path(path)
        held = _arrays(file)
        name = _chosen(held, array, file)
        mask = next((held[one] for one in _MASKS if one in held and one != name), None)
        if layers is None and _LAYERS in held and name != _LAYERS:
            layers = _whole(held[_LAYERS], file)
        with file.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        said = f"states captured elsewhere: {name} of {file.name}, sha256 {digest}, axes {','.join(axes)}"
        return cls.of(held[name], axes=axes, layers=layers, mask=mask, tokens=tokens, source=said)

    @classmethod
    def of(
        cls,
        states: Any,
        *,
        axes: Sequence[str],
        layers: Sequence[int] | None = None,
        mask: Any = None,
        titles: Sequence[str] | None = None,
        tokens: int | None = None,
        source: str = "states captured elsewhere, handed over in memory",
    ) -> States:
        """States from an array in memory.

        Args:
            states: Tensor or NumPy array with four axes.
            axes: The four names of `AXES` in the order of its axes.
            layers: Number of each layer; None for 0, 1, ...
            mask: `documents tokens`, 1 at real tokens; None where all are real.
            titles: One a document; None for their numbers.
            tokens: Real tokens to keep of each document, from its first; None for as many as the shortest has.
            source: Recorded.

        Returns:
            The states.

        Raises:
            ArgumentError: Axes, layers, mask or titles that do not fit; a document's token that is zero at every layer.
            NumericalError: A real token's state is NaN or infinite, by layer, document and token.
        """
        ordered = _ordered(torch.as_tensor(states), axes)
        count, depth, length = ordered.shape[:3]
        numbers = _numbers(layers, depth)
        names = tuple(titles) if titles is not None else tuple(f"document {k}" for k in range(1, count + 1))
        if len(names) != count or len(set(names)) < count:
            raise ArgumentError(
                f"Argument `titles` must name {count} documents, each once, but holds {len(names)}, "
                f"{len(set(names))} of them different. Give one title a document."
            )
        real = _mask(mask, count, length)
        kept, cut, rule = _cut(ordered, real, names, tokens)
        chosen = tuple(names[index] for index in kept)
        _require_sound(cut, numbers, chosen)
        skipped = [
            (names[index], f"{int(real[index].sum())} real tokens, fewer than {cut.shape[2]}")
            for index in range(count)
            if index not in kept
        ]
        return cls(
            states=cut,
            layers=numbers,
            titles=chosen,
            source=source,
            rule=rule,
            skipped=tuple(skipped),
            digest=_digest(cut),
        )


def _digest(states: Tensor) -> str:
    return hashlib.sha256(states.contiguous().reshape(-1).view(torch.uint8).numpy().data).hexdigest()


def _arrays(file: Path) -> dict[str, Tensor]:
    """Every array in a file by name; nothing in it is run."""
    if file.suffix not in STATES_ENDINGS or not file.is_file():
        found = "is of another kind" if file.is_file() else "does not exist"
        raise ArgumentError(
            f"Argument `states` must be a file that ends in {', '.join(STATES_ENDINGS)}, but {file} {found}. Save the "
            "states in one of these formats."
        )
    try:
        if file.suffix == ".npy":
            return {"states": _tensor(np.load(file, allow_pickle=False))}
        if file.suffix == ".npz":
            with np.load(file, allow_pickle=False) as held:
                kinds = {name: held[name].dtype.kind for name in held.files}
                if kinds.get(_LAYERS, "f") not in "fiub":
                    raise ValueError(f"{_LAYERS!r} holds no numbers")
                return {name: _tensor(held[name]) for name, kind in kinds.items() if kind in "fiub"}
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            return dict(load_file(file))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # whatever it warns of is refused in one sentence, or does no harm
            found_there = torch.load(file, weights_only=True, map_location="cpu")
    except pickle.UnpicklingError as trouble:
        raise ArgumentError(
            f"Argument `states` must be a whole file of arrays and nothing else, but {file} holds other things or is "
            "damaged. Save the states again, as tensors."
        ) from trouble
    except Exception as trouble:  # each format ends in errors of its own
        from armillary.models.tokenizer import in_one_line

        raise ArgumentError(
            f"Argument `states` must be a whole file of arrays and nothing else, but {file} cannot be read: "
            f"{in_one_line(trouble)[:200]}. Save the states again, as arrays."
        ) from trouble
    named = found_there if isinstance(found_there, Mapping) else {"states": found_there}
    return {str(name): one for name, one in named.items() if isinstance(one, Tensor)}


def _whole(layers: Tensor, file: Path) -> list[int]:
    found = layers.flatten().tolist()
    if any(one != one or one != int(one) for one in found):
        raise ArgumentError(
            f"Argument `layers` must be whole numbers, but {file.name} holds {found}. Mend it, or say which they are."
        )
    return [int(one) for one in found]


def _tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))


def _chosen(held: Mapping[str, Tensor], array: str | None, file: Path) -> str:
    fitting = [name for name, one in held.items() if one.ndim == len(AXES)] if array is None else [array]
    if len(fitting) == 1 and fitting[0] in held:
        return fitting[0]
    shapes = ", ".join(f"{name} {list(one.shape)}" for name, one in held.items()) or "no array"
    asked = "one array with four axes" if array is None else f"an array {array!r}"
    raise ArgumentError(
        f"Argument `states` must hold {asked}, but {file.name} holds {shapes}. Name the array, or save one with the "
        f"axes {', '.join(AXES)}."
    )


def _ordered(states: Tensor, axes: Sequence[str]) -> Tensor:
    if sorted(axes) != sorted(AXES):
        raise ArgumentError(
            f"Argument `axes` must name {', '.join(AXES)}, each once, in the order of the array's axes, but is "
            f"{','.join(axes)!r}. Write {','.join(AXES)}, for instance."
        )
    if states.ndim != len(AXES):
        raise ArgumentError(
            f"Argument `states` must have four axes ({', '.join(axes)}), but has shape {list(states.shape)}. "
            "Stack the layers into one array."
        )
    if not states.is_floating_point():
        raise ArgumentError(
            f"Argument `states` must be floating point, but is {str(states.dtype).removeprefix('torch.')}. Name the "
            "array of states, not that of token ids."
        )
    if 0 in states.shape:
        raise ArgumentError(
            f"Argument `states` must hold at least one of everything, but has shape {list(states.shape)}. "
            "Capture again."
        )
    return states.detach().permute([list(axes).index(name) for name in AXES])


def _numbers(layers: Sequence[int] | None, depth: int) -> tuple[int, ...]:
    numbers = tuple(range(depth)) if layers is None else tuple(int(one) for one in layers)
    increase = all(later > earlier for earlier, later in pairwise(numbers))
    if len(numbers) != depth or not increase or numbers[0] < 0:
        raise ArgumentError(
            f"Argument `layers` must give {depth} increasing numbers from 0 up, one for each layer along its axis, but "
            f"is {list(numbers)}. Check the order of the axes, or leave it out for 0..{depth - 1}."
        )
    return numbers


def _mask(mask: Any, count: int, length: int) -> Tensor:
    if mask is None:
        return torch.ones(count, length, dtype=torch.bool)
    real = torch.as_tensor(mask)
    if tuple(real.shape) != (count, length):
        raise ArgumentError(
            f"Argument `mask` must be [documents, tokens], here [{count}, {length}], but has shape {list(real.shape)}. "
            "Check the order of the axes."
        )
    if not bool(((real == 0) | (real == 1)).all()):
        raise ArgumentError(
            "Argument `mask` must be 1 at real tokens and 0 at padding, but holds other numbers. Fix it."
        )
    return real.bool()


def _cut(states: Tensor, real: Tensor, titles: Sequence[str], tokens: int | None) -> tuple[list[int], Tensor, str]:
    """Documents with enough real tokens, and the first so many of these, wherever the padding stands."""
    lengths = real.sum(1)
    least = int(lengths.min()) if tokens is None else tokens
    if least < _LEAST:
        shortest = titles[int(lengths.argmin())]
        raise ArgumentError(
            f"Argument `tokens` must be at least {_LEAST}, but is {least}"
            + (f", the length of {shortest!r}. Ask for more: shorter documents are skipped." if tokens is None else ".")
        )
    kept = [index for index, length in enumerate(lengths.tolist()) if length >= least]
    if not kept:
        raise ArgumentError(
            f"Argument `tokens` must be at most {int(lengths.max())}, the length of the longest document, but is "
            f"{least}. Ask for fewer."
        )
    rows = [states[index][:, real[index].nonzero().flatten()[:least]] for index in kept]
    cut = states if len(kept) == len(states) and least == states.shape[2] else torch.stack(rows)
    return kept, cut, f"the first {least} real tokens of each document that has as many"


def _require_sound(states: Tensor, layers: Sequence[int], titles: Sequence[str]) -> None:
    wrong = ~torch.isfinite(states)
    if bool(wrong.any()):
        document, layer, token, _ = wrong.nonzero()[0].tolist()
        kind = "NaN" if bool(torch.isnan(states[document, layer, token]).any()) else "infinite"
        raise NumericalError(
            f"States must be finite, but a coordinate is {kind} at layer {layers[layer]}, document "
            f"{titles[document]!r}, token {token}. Leave it out with a mask, or capture again."
        )
    zero = (states == 0).all(-1)  # documents layers tokens
    lost = zero.all(-1)
    if bool(lost.any()):
        document, layer = lost.nonzero()[0].tolist()
        raise ArgumentError(
            f"Argument `states` must hold states at every layer, but at layer {layers[layer]} all of document "
            f"{titles[document]!r} is zero. Capture again."
        )
    padded = zero.all(1)
    if bool(padded.any()):
        document, token = padded.nonzero()[0].tolist()
        raise ArgumentError(
            f"Argument `states` must hold real tokens only, but token {token} of document {titles[document]!r} is zero "
            "at every layer, as padding is. Give a mask with 0 there."
        )
