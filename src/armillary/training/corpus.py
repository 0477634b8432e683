"""Real texts as bytes: some are held out whole, the others are one long row from which windows are drawn."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

from armillary.errors import ArgumentError
from armillary.models.texts import Source, Text

__all__ = ["VOCABULARY", "Corpus", "byte_tokenizer"]

VOCABULARY = 256
"""A token is a byte."""

BETWEEN = b"\n\n"
"""What stands between two texts in the training row."""


@dataclass(frozen=True, eq=False)
class Corpus:
    """Bytes to train on and documents to measure on, from different texts.

    Attributes:
        training: uint8, every text that is not held out, one after the other.
        held_out: int64 `documents tokens`, the beginning of each held-out text.
        titles: Of the held-out texts.
        source: Where the texts come from, in words.
        texts: How many texts there are to train on.
        hash: SHA-256 of training bytes and held-out ids.
    """

    training: Tensor
    held_out: Tensor
    titles: tuple[str, ...]
    source: str
    texts: int
    hash: str

    @classmethod
    def of(cls, source: Source, *, tokens: int, held_out: int) -> Corpus:
        """Texts of a source: evenly spread over it, so many that are long enough are held out whole.

        Args:
            source: The texts.
            tokens: Length of a document in bytes.
            held_out: How many documents are held out.

        Raises:
            ArgumentError: Too few texts are long enough, or too little is left to train on.
        """
        found = [one for one in source.texts if isinstance(one, Text)]
        long = [place for place, one in enumerate(found) if len(one.text.encode()) >= tokens]
        if len(long) < 2 * held_out:
            raise ArgumentError(
                f"Argument `documents` must hold at least {2 * held_out} texts of {tokens} bytes, of which "
                f"{held_out} are held out, but {source.where} hold {len(long)}. Give more texts, or lower "
                "`held_out` or `tokens`."
            )
        apart = {long[k * len(long) // held_out] for k in range(held_out)}
        kept = [one.text.encode() for place, one in enumerate(found) if place not in apart]
        row = BETWEEN.join(kept)
        if len(row) < 16 * tokens:
            raise ArgumentError(
                f"Argument `documents` must leave at least {16 * tokens} bytes to train on, but leave {len(row)}. Give "
                "more texts."
            )
        documents = [found[place].text.encode()[:tokens] for place in sorted(apart)]
        ids = torch.tensor([list(one) for one in documents])
        digest = hashlib.sha256(row + b"".join(documents)).hexdigest()
        titles = tuple(found[place].title for place in sorted(apart))
        return cls(torch.frombuffer(bytearray(row), dtype=torch.uint8), ids, titles, source.origin, len(kept), digest)

    def windows(self, *, steps: int, documents: int, tokens: int, seed: int) -> Tensor:
        """Where the documents of every step begin, `steps documents`: the same for equal seeds.

        Args:
            steps: How many steps.
            documents: In a batch.
            tokens: Length of each.
            seed: Of the draw.
        """
        generator = torch.Generator().manual_seed(seed)
        return torch.randint(0, len(self.training) - tokens, (steps, documents), generator=generator)

    def batch(self, starts: Tensor, tokens: int) -> Tensor:
        """Token ids `documents tokens` of the windows that begin there.

        Args:
            starts: One a document.
            tokens: Length of each.
        """
        return self.training[starts[:, None] + torch.arange(tokens)].long()


def byte_tokenizer() -> object:
    """A tokenizer of the library whose ids are the bytes of a text in UTF-8."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]  # bytes that the library writes as themselves
    letters = {byte: chr(byte) for byte in shown}
    for place, byte in enumerate(byte for byte in range(VOCABULARY) if byte not in letters):
        letters[byte] = chr(VOCABULARY + place)
    vocabulary = {letters[byte]: byte for byte in range(VOCABULARY)}
    plain = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    plain.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=plain)
