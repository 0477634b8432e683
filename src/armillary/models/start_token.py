"""What a tokenizer itself puts around plain text: what comes in front is kept, counted and said in words."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from armillary.errors import ArgumentError

__all__ = ["StartRule", "StartTokenWarning"]

_PROBE = "text"


class StartTokenWarning(UserWarning):
    """Documents begin with the start token twice; `warnings.simplefilter("error", StartTokenWarning)` makes it stop."""


@dataclass(frozen=True)
class StartRule:
    """The tokens that a tokenizer adds to plain text, found by comparing one word with and without them.

    Attributes:
        tokenizer: A transformers tokenizer, or a `tokenizers.Tokenizer`.
        prefix: Ids in front of every text; documents keep them.
        suffix: Ids behind every text; no document ends with them, for documents are cut.
    """

    tokenizer: Any
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]

    @classmethod
    def of(cls, tokenizer: Any) -> StartRule:
        """The rule of a tokenizer.

        Args:
            tokenizer: A transformers tokenizer, or a `tokenizers.Tokenizer`.

        Returns:
            Its prefix and suffix.

        Raises:
            ArgumentError: It is no tokenizer, it cuts or pads, or its additions change the text's own ids.
        """
        if not (callable(tokenizer) or hasattr(tokenizer, "encode_batch")):
            raise ArgumentError(
                f"Argument `tokenizer` must turn text into ids, but it is {tokenizer!r}. "
                "Give the decoder's tokenizer, or token ids through `Documents.from_token_ids`."
            )
        whole, plain = _with_additions(tokenizer, _PROBE), _bare(tokenizer, _PROBE)
        for start in range(len(whole) - len(plain) + 1):
            if plain and whole[start : start + len(plain)] == plain:
                return cls(tokenizer, whole[:start], whole[start + len(plain) :])
        raise ArgumentError(
            f"Argument `tokenizer` must only add tokens around a text, but {_PROBE!r} becomes {whole} with and {plain} "
            "without its additions. Give token ids through `Documents.from_token_ids`."
        )

    def ids(self, text: str) -> tuple[int, ...]:
        """The ids of a whole text with what is put in front of it, uncut."""
        ids = _with_additions(self.tokenizer, text)
        return ids[: len(ids) - len(self.suffix)]

    def separator(self, token: str) -> int:
        """The id of a token that is written between texts.

        Args:
            token: As the tokenizer spells it, "<|endoftext|>" for instance.

        Raises:
            ArgumentError: It becomes no id or several.
        """
        ids = _bare(self.tokenizer, token) if isinstance(token, str) and token else ()
        if len(ids) != 1:
            own = getattr(self.tokenizer, "eos_token", None)
            remedy = f"This tokenizer's own end token is {own!r}." if own else "Give one of the tokenizer's own tokens."
            raise ArgumentError(
                f"Argument `joined_by` must be one token of the tokenizer, but {token!r} becomes {len(ids)} ids. "
                f"{remedy}"
            )
        return ids[0]

    def starts(self, ids: Sequence[int]) -> int:
        """How many start tokens stand in front: added by the tokenizer, or spelled out by the text itself."""
        start = {*self.prefix, getattr(self.tokenizer, "bos_token_id", None)}
        return next((place for place, number in enumerate(ids) if number not in start), len(ids))

    def words(self, documents: Mapping[str, tuple[int, ...]]) -> str:
        """What was put in front, and what in these documents looks like it, in words.

        Args:
            documents: Title -> ids of each document.

        Returns:
            One line for a record.

        Warns:
            StartTokenWarning: Documents begin with more start tokens than the tokenizer adds to plain text, and with
                more than one.
        """
        allowed = max(len(self.prefix), 1)
        twice = [title for title, ids in documents.items() if self.starts(ids) > allowed]
        doubled = f"; WARNING: twice in {len(twice)} documents, first in {twice[0]!r}" if twice else ""
        if twice:
            warnings.warn(
                f"{len(twice)} documents begin with a start token twice, first {twice[0]!r}: their text spells out "
                "what the tokenizer adds by itself. Remove it from the texts.",
                StartTokenWarning,
                stacklevel=2,
            )
        return self._front() + doubled + self._spelled_out(documents)

    def _front(self) -> str:
        if not self.prefix:
            return "none added: the tokenizer itself adds no start token to plain text"
        translate = getattr(self.tokenizer, "convert_ids_to_tokens", None) or (
            lambda ids: [self.tokenizer.id_to_token(number) for number in ids]
        )
        words = zip(translate(list(self.prefix)), self.prefix, strict=True)
        named = ", ".join(f"{word} (id {number})" for word, number in words)
        return f"added by the tokenizer itself in front of every text: {named}"

    def _spelled_out(self, documents: Mapping[str, tuple[int, ...]]) -> str:
        """Texts that spell a special token out, which the tokenizer reads as that token and not as its letters."""
        special = set(getattr(self.tokenizer, "all_special_ids", ()))
        held = [title for title, ids in documents.items() if special & set(ids[len(self.prefix) :])]
        return f"; special tokens spelled out in {len(held)} documents, first in {held[0]!r}" if held else ""


def _with_additions(tokenizer: Any, text: str) -> tuple[int, ...]:
    return _encoded(tokenizer, text, special=True)


def _bare(tokenizer: Any, text: str) -> tuple[int, ...]:
    return _encoded(tokenizer, text, special=False)


def _encoded(tokenizer: Any, text: str, *, special: bool) -> tuple[int, ...]:
    if callable(tokenizer):
        call: Any = tokenizer
        given = call(text, add_special_tokens=special, truncation=False, padding=False, verbose=False)
        return tuple(given["input_ids"])
    if tokenizer.truncation is not None or tokenizer.padding is not None:
        raise ArgumentError(
            "Argument `tokenizer` must neither cut nor pad, but its truncation or padding is switched on. "
            "Call its `no_truncation()` and `no_padding()` first."
        )
    return tuple(tokenizer.encode(text, add_special_tokens=special).ids)
